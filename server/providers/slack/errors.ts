import { longestWaitMs, type PostOutcome } from '../provider.ts'

/** The reason of an installation for a whole organisation, which has no channel. It is ours, not Slack's. */
export const installedForOrganisation = 'installed_for_organisation'

/** The reason of an authorization of an app whose tokens expire. It is ours, too. */
export const tokenRotationOn = 'token_rotation_on'

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
  not_allowed_token_type: 'the access is of a kind that may not post',
  [installedForOrganisation]:
    'the app was installed for the whole organisation, where one workspace must be chosen',
  [tokenRotationOn]:
    'token rotation is on in the settings of the Slack app, and must be switched off there, or the app created again without it',
  cannot_install_an_org_installed_app:
    'the app is installed for the whole organisation, and an administrator must remove it there first',
  missing_scope: 'a permission is missing',
  no_permission: 'a permission is missing',
  access_denied: 'a permission is missing',
  team_access_not_granted: 'the app may not enter the workspace',
  team_not_found: 'the workspace is gone or was deactivated',
  app_access_restricted: 'an administrator does not let the user install the app',
  deprecated_endpoint: 'this version of the app is too old',
  method_deprecated: 'this version of the app is too old',
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
  user_not_found: 'the person who receives the messages is gone',
  messages_tab_disabled: 'the app takes no direct messages',
}

/** The wait if Slack asks for a pause but does not say how long. */
export const defaultWaitMs = 30_000

/** With these errors, Slack accepts the same message later. The wait is in milliseconds. */
const waits: Readonly<Record<string, number>> = {
  ratelimited: defaultWaitMs,
  rate_limited: defaultWaitMs,
  // All members of a workspace together send too much.
  message_limit_exceeded: longestWaitMs,
  // Slack moves the channel or the workspace, which takes hours.
  external_channel_migrating: 10 * 60_000,
  team_added_to_org: 10 * 60_000,
  org_login_required: 10 * 60_000,
}

/**
 * With these errors, Slack or the network may accept the same message later.
 * https://docs.slack.dev/reference/methods/chat.postMessage#errors
 */
const temporary = new Set([
  'accesslimited',
  'fatal_error',
  'internal_error',
  'request_timeout',
  'service_unavailable',
])

/** @returns a text that looks like a code of Slack; otherwise undefined. */
export const codeOf = (text: unknown): string | undefined =>
  typeof text === 'string' && /^[a-z0-9_]{1,60}$/i.test(text) ? text : undefined

/** Decides what Slack's error code means for the message and the connection. @returns undefined if it is not known. */
export function outcomeOfCode(reason = ''): PostOutcome | undefined {
  const ms = Object.hasOwn(waits, reason) ? waits[reason] : undefined
  if (ms !== undefined) return { kind: 'wait', ms }
  if (temporary.has(reason)) return { kind: 'failed', reason }
  return Object.hasOwn(brokenReasons, reason)
    ? { kind: 'refused', reason, connectionBroken: true }
    : undefined
}
