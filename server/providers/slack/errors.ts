import type { PostOutcome } from '../provider.ts'

/**
 * Slack's errors after which the user must connect again, with the dashboard's text for each. If
 * the channel is the problem, the user can choose another channel at Slack.
 */
export const brokenReasons: Readonly<Record<string, string>> = {
  invalid_auth: 'the access is no longer valid',
  not_authed: 'the access is no longer valid',
  invalid_token: 'the access is no longer valid',
  token_revoked: 'the access was revoked',
  token_expired: 'the access has expired',
  account_inactive: 'the account or the app was deactivated',
  missing_scope: 'a permission is missing',
  no_permission: 'a permission is missing',
  access_denied: 'a permission is missing',
  team_access_not_granted: 'the app may not enter the workspace',
  no_team: 'the workspace is gone or was deactivated',
  team_disabled: 'the workspace is gone or was deactivated',
  two_factor_setup_required: 'the account must set up two-factor authentication',
  enterprise_is_restricted: 'an administrator does not let the app post',
  ekm_access_denied: 'an administrator has suspended posting',
  restricted_action: 'an administrator does not let the app post in the channel',
  restricted_action_read_only_channel: 'the app may only read the channel',
  restricted_action_thread_only_channel: 'the channel takes only replies',
  action_prohibited: 'an administrator does not let the app post in the channel',
  posting_to_general_channel_denied: 'an administrator does not let the app post in the channel',
  no_service: 'the app was removed from the channel',
  no_service_id: 'the app was removed from the channel',
  no_active_hooks: 'the app was removed from the channel',
  channel_not_found: 'the channel is gone, or private and without the app',
  channel_is_archived: 'the channel is archived',
  is_archived: 'the channel is archived',
  not_in_channel: 'the app is not in the channel',
}

/** With these errors, Slack never accepts this message, but may accept the next one. */
const refusesMessage = new Set([
  'no_text',
  'missing_text_or_fallback_or_attachments',
  'msg_too_long',
  'msg_blocks_too_long',
  'invalid_blocks',
  'invalid_blocks_format',
  'invalid_arguments',
  'invalid_arg_name',
  'invalid_array_arg',
  'invalid_charset',
  'invalid_form_data',
  'invalid_post_type',
  'missing_post_type',
  'invalid_json',
  'json_not_object',
  'invalid_payload',
])

/** The wait if Slack asks for a pause but does not say how long. */
export const defaultWaitMs = 30_000

/**
 * Decides what Slack's error code means for the message and the connection. All other failures,
 * such as a proxy's page or a new code, may be temporary, so the relay tries again.
 * @param otherwise the reason to record if `code` does not look like a code.
 */
export function outcomeOfError(code: unknown, otherwise: string): PostOutcome {
  const reason = typeof code === 'string' && /^[a-z0-9_]{1,60}$/i.test(code) ? code : otherwise
  if (reason === 'ratelimited' || reason === 'rate_limited') {
    return { kind: 'wait', ms: defaultWaitMs }
  }
  const connectionBroken = Object.hasOwn(brokenReasons, reason)
  return connectionBroken || refusesMessage.has(reason)
    ? { kind: 'refused', reason, connectionBroken }
    : { kind: 'failed', reason }
}
