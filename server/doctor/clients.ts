import { navigations, pathOf } from '../../contract/endpoints.ts'
import { ask, fieldsOf, type Reply } from '../cli/ask.ts'
import { registry } from '../providers/registry.ts'
import type { Addresses } from '../settings/settings.ts'
import { codeOf, type Finding, right, warning, wrong } from './finding.ts'

/**
 * Checks HubSpot's client id and secret. A made-up refresh token changes nothing, and HubSpot checks the client first.
 */
export async function checkHubspotClient({ providers }: Addresses): Promise<Finding> {
  const { clientId, clientSecret, apiUrl } = providers.hubspot
  const reply = await ask(`${apiUrl}/oauth/2026-03/token`, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    body: new URLSearchParams({
      grant_type: 'refresh_token',
      refresh_token: 'made-up-by-the-doctor',
      client_id: clientId,
      client_secret: clientSecret,
    }),
  })
  const { status, error } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
  return judgeClient('hubspot', apiUrl, reply, {
    codes: [status, error],
    accepted: ['BAD_REFRESH_TOKEN', 'invalid_grant'],
    refused: {
      BAD_CLIENT_ID: 'HUBSPOT_CLIENT_ID',
      BAD_CLIENT_SECRET: 'HUBSPOT_CLIENT_SECRET',
      invalid_client: 'HUBSPOT_CLIENT_ID or HUBSPOT_CLIENT_SECRET',
    },
    place: "the app's Auth tab at HubSpot (hs project open)",
  })
}

/** Checks Slack's client id and secret with a made-up code, which changes nothing. */
export async function checkSlackClient({ appUrl, providers }: Addresses): Promise<Finding> {
  const { clientId, clientSecret, apiUrl } = providers.slack
  const redirectUri = appUrl + pathOf(navigations.callbackPage, 'slack')
  const reply = await ask(`${apiUrl}/oauth.v2.access`, {
    method: 'POST',
    body: new URLSearchParams({
      client_id: clientId,
      client_secret: clientSecret,
      code: 'made-up-by-the-doctor',
      redirect_uri: redirectUri,
    }),
  })
  const { error } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
  if (error === 'bad_redirect_uri') {
    return wrong(
      `The Slack app does not list the redirect URL ${redirectUri}. Add it under OAuth & Permissions at api.slack.com/apps.`,
    )
  }
  return judgeClient('slack', apiUrl, reply, {
    codes: [error],
    accepted: ['invalid_code'],
    refused: {
      invalid_client_id: 'SLACK_CLIENT_ID',
      bad_client_secret: 'SLACK_CLIENT_SECRET',
    },
    place: 'Basic Information at api.slack.com/apps',
  })
}

/** What a provider's answer means. */
interface Meanings {
  /** The codes of the answer, the most precise first. */
  codes: readonly unknown[]
  /** The codes that complain only of what is made up. */
  accepted: readonly string[]
  /** The settings that other codes complain of. */
  refused: Readonly<Record<string, string>>
  /** Where the administrator finds id and secret. */
  place: string
}

function judgeClient(
  id: 'hubspot' | 'slack',
  apiUrl: string,
  reply: Reply,
  { codes, accepted, refused, place }: Meanings,
): Finding {
  const { name } = registry[id]
  if (reply.kind === 'none') {
    return wrong(
      `${name} does not answer at ${apiUrl}: ${reply.why}. Let this machine make https calls to it, or set HTTPS_PROXY (docs/operating/company-network.md).`,
    )
  }
  const known = codes.map(codeOf).filter((code) => code !== undefined)
  const code = known.find((code) => accepted.includes(code) || Object.hasOwn(refused, code))
  if (code === undefined) {
    const answer = [reply.status, ...known].join(' ')
    return warning(
      `${name} answers ${answer}, which says nothing about client id and secret. Try again later.`,
    )
  }
  if (accepted.includes(code)) return right(`${name} accepts client id and secret.`)
  return wrong(`${name} refuses ${refused[code]} (${code}). Copy the right one from ${place}.`)
}
