import { hash } from 'node:crypto'
import { object, parseJson, pipe, safeParse, string } from 'valibot'
import { type AddressChat, createByAddress } from '../by-address.ts'
import { type AddressSettings, defaultTimeouts } from '../calls.ts'
import type { Chat } from '../provider.ts'
import { card } from './card.ts'

// https://learn.microsoft.com/connectors/teams: a message has at most 28 KB.
const mostBytes = 25_000

const errorAnswer = pipe(string(), parseJson(), object({ error: object({ code: string() }) }))

const workflow =
  /\/workflows\/([\w-]+)(?:\/[^/]+)*?\/triggers\/[^/]+(?:\/[^/]+)*?\/paths\/invoke(?:\/|$)/i

const notValid =
  'the workflow does not accept the signature in the address: a part of it is missing, or it is no longer valid. Make a new webhook'

export const teams: AddressChat = {
  id: 'microsoft-teams',
  steps: [
    'In Teams, open the menu “…” beside the channel, and choose Workflows.',
    'Choose the template “Send webhook alerts to a channel”. Its former name is “Post to a channel when a webhook request is received”.',
    'Choose Next, then Add workflow.',
    'Copy the address that Teams shows, and paste it here.',
  ],
  form: {
    // Before it, between and after it, Microsoft changes the path: /powerautomate/automations/direct/cu/22/workflows/…
    path: workflow,
    shown: '/workflows/{id}/triggers/{name}/paths/invoke',
  },
  request: (message) => ({ json: card(message) }),
  // 202 says that the workflow has accepted the message. Nothing says whether it has posted it.
  confirms: false,
  failure({ status, body }) {
    const { success, output } = safeParse(errorAnswer, body)
    if (success && /^\w{1,60}$/.test(output.error.code)) return output.error.code
    return status >= 200 && status < 300 ? undefined : `http_${status}`
  },
  brokenReasons: {
    WorkflowNotFound: 'the workflow of the webhook was deleted. Make a new one',
    WorkflowTriggerIsNotEnabled:
      'the workflow of the webhook is switched off. Switch it on, or make a new one',
    DirectApiAuthorizationRequired:
      'the workflow does not let anyone post. Set its trigger to “Anyone”, or make a new one',
    DirectApiInvalidAuthorizationScheme:
      'the workflow does not let anyone post. Set its trigger to “Anyone”, or make a new one',
    AuthorizationFailed: notValid,
    http_401: notValid,
    http_403: notValid,
    http_404: 'the workflow of the webhook was deleted. Make a new one',
  },
  defaultWaitMs: 30_000,
  // The connector posts 300 messages in 300 seconds for one person, whose other workflows share that.
  pace: { channelMs: 2_000, perSecond: 0.5, burst: 1 },
  fits: (message) => Buffer.byteLength(JSON.stringify(card(message))) <= mostBytes,
  // Two addresses of one workflow are one channel. Nothing else is known of it.
  account({ pathname }) {
    const id = workflow.exec(pathname)?.[1]?.toLowerCase() ?? ''
    const channelId = hash('sha256', id, 'hex').slice(0, 32)
    return { accountId: `microsoft-teams:${channelId}`, channelId }
  },
}

export const createTeams = (settings: AddressSettings, timeouts = defaultTimeouts): Chat =>
  createByAddress(teams, settings, timeouts)
