import { navigations, pathOf } from '../../contract/endpoints.ts'
import { ask, fieldsOf, type Reply } from '../cli/ask.ts'
import type { ProviderSettings } from '../providers/calls.ts'
import { registry } from '../providers/registry.ts'
import type { Addresses } from '../settings/settings.ts'
import {
  codeOf,
  type Finding,
  installationRefusal,
  refusalInWords,
  right,
  warning,
  wrong,
} from './finding.ts'

const minuteMs = 60_000
/** Dealbell refuses a webhook whose time differs by more from ours. */
const clockLimitMs = 5 * minuteMs

/**
 * Checks HubSpot's client id and secret, and our clock against HubSpot's. A made-up refresh token
 * changes nothing, and HubSpot checks the client first.
 */
export async function checkHubspotClient({ providers }: Addresses): Promise<Finding[]> {
  const { clientId, clientSecret, apiUrl, standIn } = providers.hubspot
  const sentAtMs = Date.now()
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
  const refusal = installationRefusal(reply)
  const client =
    refusal !== undefined
      ? wrong(refusalInWords[refusal]('the account'))
      : judgeClient('hubspot', providers.hubspot, reply, {
          codes: [status, error],
          meanings: {
            BAD_CLIENT_ID: 'wrong id',
            BAD_CLIENT_SECRET: 'wrong secret',
            invalid_client: 'wrong id or secret',
            BAD_REFRESH_TOKEN: 'right',
            invalid_grant: 'right',
          },
          place: "the app's Auth tab at HubSpot (hs project open)",
        })
  // The stand-in's clock is ours.
  if (standIn || reply.kind === 'none') return [client]
  return [client, judgeClock(reply.headers, (sentAtMs + Date.now()) / 2)]
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
  return judgeClient('slack', providers.slack, reply, {
    codes: [error],
    meanings: {
      invalid_client_id: 'wrong id',
      bad_client_secret: 'wrong secret',
      invalid_code: 'right',
    },
    place: 'Basic Information at api.slack.com/apps',
  })
}

/** What a provider says about client id and secret. */
type Meaning = 'right' | 'wrong id' | 'wrong secret' | 'wrong id or secret'

function judgeClient(
  id: 'hubspot' | 'slack',
  { apiUrl, standIn }: ProviderSettings,
  reply: Reply,
  {
    codes,
    meanings,
    place,
  }: {
    /** The codes of the answer, the most precise first. */
    codes: readonly unknown[]
    meanings: Readonly<Record<string, Meaning>>
    /** Where the administrator finds id and secret. */
    place: string
  },
): Finding {
  const { name } = registry[id]
  const setting = id.toUpperCase()
  if (reply.kind === 'none') {
    return standIn
      ? warning(
          `The stand-in ${name} does not answer, because no server runs. Start it: npm start.`,
        )
      : wrong(
          `${name} does not answer at ${apiUrl}: ${reply.why}. Let this machine make https calls to it, or set HTTPS_PROXY (docs/operating/company-network.md).`,
        )
  }
  const known = codes.map(codeOf).filter((code) => code !== undefined)
  const code = known.find((code) => Object.hasOwn(meanings, code)) ?? known[0]
  const copy = `Copy ${setting}_CLIENT_`
  switch (code !== undefined && Object.hasOwn(meanings, code) && meanings[code]) {
    case 'right':
      return right(`${name} accepts client id and secret.`)
    case 'wrong id':
      return wrong(`${name} does not know the client id (${code}). ${copy}ID from ${place}.`)
    case 'wrong secret':
      return wrong(`${name} refuses the client secret (${code}). ${copy}SECRET from ${place}.`)
    case 'wrong id or secret':
      return wrong(
        `${name} refuses client id and secret (${code}). ${copy}ID and ${setting}_CLIENT_SECRET from ${place}.`,
      )
    default:
      return warning(
        `${name} answers ${reply.status}${code === undefined ? '' : ` (${code})`}, which says nothing about client id and secret. Try again later.`,
      )
  }
}

function judgeClock(headers: Headers, atMs: number): Finding {
  const date = Date.parse(headers.get('Date') ?? '')
  if (Number.isNaN(date)) {
    return warning(
      "HubSpot's answer has no date, so the clock was not compared. Check it yourself.",
    )
  }
  // The header leaves out the milliseconds.
  const aheadMs = atMs - (date + 500)
  const amountMs = Math.abs(aheadMs)
  if (amountMs < minuteMs) return right("The clock of this machine agrees with HubSpot's.")
  const minutes = Math.floor(amountMs / minuteMs)
  const text = `The clock of this machine is ${minutes === 1 ? 'a minute' : `${minutes} minutes`} ${aheadMs > 0 ? 'ahead of' : 'behind'} HubSpot's. Set it, and keep it right with NTP. Dealbell refuses webhooks from five minutes on.`
  return amountMs < clockLimitMs ? warning(text) : wrong(text)
}
