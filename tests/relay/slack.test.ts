import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { defaultTimeouts } from '../../server/providers/calls.ts'
import type { ChatMessage } from '../../server/providers/chat-message.ts'
import { uuidOf } from '../../server/providers/message-id.ts'
import { longestWaitMs } from '../../server/providers/provider.ts'
import { slackMessage } from '../../server/providers/slack/blocks.ts'
import { createSlackClient } from '../../server/providers/slack/client.ts'
import { createSlackPost } from '../../server/providers/slack/post.ts'
import { createSlack } from '../../server/providers/slack/slack.ts'
import { testMessage } from '../../server/relay/write/message.ts'
import { openProvider, page, shortTimeouts } from './open-provider.ts'

let server: Awaited<ReturnType<typeof openProvider>>
let url: string
/** The last part of each call's path, such as `chat.postMessage`. */
const calls = () => server.calls.map(({ call }) => call.split('/').at(-1))
const lastBody = () => server.calls.at(-1)?.body ?? ''

beforeAll(async () => {
  server = await openProvider({ body: { ok: false, error: 'unknown_method' } })
  url = server.url
})
afterAll(() => server.close())
beforeEach(() => {
  server.calls = []
  server.answers = {}
})

const refusal = (error: string) => ({ body: { ok: false, error } })
const accepted = { body: { ok: true, channel: 'C1', ts: '1.1' } }
const message: ChatMessage = { text: 'Deal 1', paragraphs: [], footer: [] }

describe('a channel without the bot', () => {
  let clockMs: number
  let slack: ReturnType<typeof createSlackPost>
  const post = (channel = 'C1') =>
    slack.post({ accessToken: 'x', incomingWebhookUrl: `${url}/${channel}` }, channel, message, [])

  beforeEach(() => {
    clockMs = 0
    slack = createSlackPost(createSlackClient(url), defaultTimeouts, () => clockMs)
    server.answers = {
      'chat.postMessage': refusal('not_in_channel'),
      C1: { status: 200, body: 'ok' },
    }
  })

  test('gets each further message with one call, for an hour', async () => {
    for (let n = 0; n < 3; n++) expect(await post()).toEqual({ kind: 'posted' })
    expect(calls()).toEqual(['chat.postMessage', 'C1', 'C1', 'C1'])

    // The bot may have been invited.
    clockMs = 60 * 60_000
    server.answers['chat.postMessage'] = accepted
    await post()
    await post()
    expect(calls().slice(4)).toEqual(['chat.postMessage', 'chat.postMessage'])
  })

  test('gets a message in which Slack looks for no markup, names and addresses', async () => {
    const literal = { mrkdwn: false, parse: 'none', link_names: false, unfurl_links: false }
    await post()
    expect(JSON.parse(lastBody())).toMatchObject(literal)
    server.answers['chat.postMessage'] = accepted
    await post('C3')
    const asText = Object.entries(literal).map(([name, value]) => [name, String(value)])
    expect(Object.fromEntries(new URLSearchParams(lastBody()))).toMatchObject(
      Object.fromEntries(asText),
    )
  })

  test.each([
    ['gets the message from the bot, which was invited', accepted, { kind: 'posted' }],
    [
      'needs a new connection, because the bot was not invited',
      refusal('not_in_channel'),
      { kind: 'refused', reason: 'no_service', connectionBroken: true },
    ],
  ])('whose webhook was removed %s', async (_, byBot, outcome) => {
    await post()
    server.answers['chat.postMessage'] = byBot
    server.answers.C1 = { status: 404, body: 'no_service' }
    expect(await post()).toEqual(outcome)
    expect(calls().slice(2)).toEqual(['C1', 'chat.postMessage'])
  })

  test('gets no message twice: after an uncertain answer, only the next message begins with the bot', async () => {
    await post()
    server.answers['chat.postMessage'] = accepted
    server.answers.C1 = { status: 500, body: 'rollup_error' }
    expect(await post()).toEqual({ kind: 'failed', reason: 'rollup_error' })
    expect(await post()).toEqual({ kind: 'posted' })
    expect(calls().slice(2)).toEqual(['C1', 'chat.postMessage'])
  })
})

const refused = (connectionBroken: boolean) => ({ kind: 'refused', connectionBroken })
const waits = (ms: number) => ({ kind: 'wait', ms })
// Some of the errors in Slack's documents of chat.postMessage and of incoming webhooks, and a new one.
const outcomes: Array<[what: string, reasons: string, outcome: { kind: string }]> = [
  [
    'must connect again',
    'access_denied account_inactive invalid_auth missing_scope',
    refused(true),
  ],
  ['must connect again', 'token_revoked channel_not_found is_archived no_service', refused(true)],
  ['waits half a minute', 'rate_limited ratelimited', waits(30_000)],
  [
    'waits ten minutes',
    'org_login_required team_added_to_org external_channel_migrating',
    waits(600_000),
  ],
  ['waits an hour', 'message_limit_exceeded', waits(longestWaitMs)],
  ['loses this message if the access works', 'a_new_error invalid_blocks', { kind: 'unclear' }],
  [
    'is tried again',
    'fatal_error internal_error request_timeout service_unavailable',
    { kind: 'failed' },
  ],
]

test.each(
  outcomes.flatMap(([what, reasons, outcome]) =>
    reasons.split(' ').map((reason) => ({ what, reason, outcome })),
  ),
)('a user $what after $reason', async ({ reason, outcome }) => {
  server.answers['chat.postMessage'] = refusal(reason)
  const { post } = createSlackPost(createSlackClient(url), defaultTimeouts)
  const given = outcome.kind === 'wait' ? outcome : { ...outcome, reason }
  expect(await post({ accessToken: 'x' }, 'C1', message, [])).toEqual(given)
})

describe('the id of a message', () => {
  const { text, blocks } = slackMessage(testMessage)
  const own = uuidOf('C1', 'e1', text, blocks)
  const post = () =>
    createSlackPost(createSlackClient(url), defaultTimeouts).post(
      { accessToken: 'x' },
      'C1',
      testMessage,
      ['C1', 'e1'],
    )
  const ids = () => server.calls.map(({ body }) => new URLSearchParams(body).get('client_msg_id'))

  test('is another one if Slack finds no message with it: always the same two', async () => {
    const error = 'duplicate_message_not_found'
    const refused = { kind: 'unclear', reason: error }
    server.answers['chat.postMessage'] = [refusal(error), accepted, refusal(error)]
    expect(await post()).toEqual({ kind: 'posted' })
    expect(await post()).toEqual(refused)
    expect(ids()).toHaveLength(4)
    expect(ids().slice(2)).toEqual(ids().slice(0, 2))
    expect(ids()[0]).toBe(own)
    expect(ids()[1]).toMatch(/^[\da-f]{8}-[\da-f]{4}-5[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/)
    expect(ids()[1]).not.toBe(own)
  })
})

test.each([
  ['120', 120_000],
  ['3601', longestWaitMs],
  // Slack promises seconds. A number at the start of something else is none.
  ['2026-11-22T12:00:00Z', 30_000],
  [undefined, 30_000],
])('a pause with Retry-After %s lasts %i ms, by either way', async (retryAfter, ms) => {
  const limited = { status: 429, ...(retryAfter && { headers: { 'Retry-After': retryAfter } }) }
  const { post } = createSlackPost(createSlackClient(url), defaultTimeouts)
  const secrets = { accessToken: 'x', incomingWebhookUrl: `${url}/C1` }
  server.answers = { 'chat.postMessage': limited, C1: limited }
  expect(await post(secrets, 'C1', message, [])).toEqual({ kind: 'wait', ms })
  server.answers['chat.postMessage'] = refusal('not_in_channel')
  expect(await post(secrets, 'C1', message, [])).toEqual({ kind: 'wait', ms })
})

describe('what Slack does not say itself may pass', () => {
  const post = (at = url, timeouts = defaultTimeouts) =>
    createSlackPost(createSlackClient(at), timeouts).post(
      { accessToken: 'x', incomingWebhookUrl: `${at}/C1` },
      'C1',
      message,
      [],
    )

  test.each([
    [{ body: '{"ok":tr' }, 'nonsense'],
    [{ body: 'busy' }, 'nonsense'],
    [{ body: { ok: false, error: { code: 'invalid_auth' } } }, 'nonsense'],
    [page, 'nonsense'],
    [{ ...page, status: 403 }, 'http_403'],
    [{ status: 404, body: 'No such host' }, 'http_404'],
  ])('after %j', async (answer, reason) => {
    server.answers = { 'chat.postMessage': answer, C1: answer }
    expect(await post()).toEqual({ kind: 'failed', reason })
  })

  test.each([
    [400, 'a_new_error', { kind: 'refused', connectionBroken: false }],
    [404, 'a_new_error', { kind: 'unclear' }],
    [500, 'a_new_error', { kind: 'failed' }],
    [200, 'fatal_error', { kind: 'failed' }],
  ])('a webhook answers %i with %s', async (status, reason, outcome) => {
    const answer = { status, body: reason }
    server.answers = { 'chat.postMessage': refusal('not_in_channel'), C1: answer }
    expect(await post()).toMatchObject({ ...outcome, reason })
  })

  test('but a webhook that answers 200 in other words has posted', async () => {
    const answer = { status: 200, body: 'Thank you.' }
    server.answers = { 'chat.postMessage': refusal('not_in_channel'), C1: answer }
    expect(await post()).toEqual({ kind: 'posted' })
  })

  test('after a page of a proxy in place of the webhook’s answer', async () => {
    server.answers = { 'chat.postMessage': refusal('not_in_channel'), C1: { ...page, status: 403 } }
    expect(await post()).toEqual({ kind: 'failed', reason: 'http_403' })
  })

  test('a call with late headers and a body that stalls ends, both ways of posting together', async () => {
    server.answers = {
      'a/chat.postMessage': { stalls: true, headers: { 'Content-Type': 'application/json' } },
      'c/chat.postMessage': refusal('not_in_channel'),
      'c/C1': { stalls: true },
    }
    const ways = ['a', 'c'].map((way) => post(`${url}/${way}`, shortTimeouts))
    for (const outcome of await Promise.all(ways)) {
      expect(outcome).toEqual({ kind: 'failed', reason: 'unreachable', code: 'TIMEOUT' })
    }
  })
})

describe('connecting', () => {
  const open = (more = {}) =>
    createSlack({
      clientId: 'id',
      clientSecret: 'secret',
      apiUrl: url,
      authorizeUrl: 'https://slack.test/oauth/v2/authorize',
      inUse: true,
      standIn: false,
      ...more,
    })
  const exchange = () => open().exchange({ code: 'c', redirectUri: 'r', codeVerifier: 'v' })

  test.each([
    ['a team that is null', { team: null, enterprise: { id: 'E1' }, is_enterprise_install: true }],
    ['the flag', { is_enterprise_install: true, team: { id: 'T1' } }],
  ])('an organisation (%s) is refused in words, and its token is revoked', async (_, fields) => {
    server.answers = {
      'oauth.v2.access': { body: { ok: true, access_token: 'xoxb-org', ...fields } },
      'auth.revoke': { body: { ok: true, revoked: true } },
    }
    const reason = 'installed_for_organisation'
    await expect(exchange()).rejects.toMatchObject({ kind: 'refused', reason })
    expect(open().brokenReasons[reason]).toContain('for the whole organisation')
    expect(calls()).toEqual(['oauth.v2.access', 'auth.revoke'])
  })

  const granted = (webhook: string) => ({
    body: {
      ok: true,
      access_token: 'xoxb-1',
      team: { id: 'T1' },
      incoming_webhook: { channel: '#deals', channel_id: 'C1', url: webhook },
    },
  })

  test.each([
    'http://169.254.169.254/latest/meta-data',
    'http://hooks.slack.com/services/x',
    'https://hooks.slack.com.evil.example/services/x',
  ])('gives no webhook at an address that is not Slack’s: %s', async (webhook) => {
    server.answers = { 'oauth.v2.access': granted(webhook) }
    await expect(exchange()).rejects.toMatchObject({ stage: 'exchange', kind: 'nonsense' })
  })

  test.each(['https://hooks.slack.com/services/x', 'https://hooks.slack-gov.com/services/x'])(
    'gives the webhook %s',
    async (webhook) => {
      server.answers = { 'oauth.v2.access': granted(webhook) }
      expect((await exchange()).secrets).toMatchObject({ incomingWebhookUrl: webhook })
    },
  )

  test('follows no redirect into the network', async () => {
    const elsewhere = { status: 307, headers: { Location: `${url}/inner` } }
    const methods = ['oauth.v2.access', 'auth.test', 'chat.postMessage', 'C1']
    server.answers = Object.fromEntries(methods.map((method) => [method, elsewhere]))
    server.answers.inner = { body: { ok: true } }
    const unreachable = { kind: 'unreachable' }
    await expect(exchange()).rejects.toMatchObject(unreachable)
    await expect(open().check?.({ accessToken: 'x' }, 'C1')).rejects.toMatchObject(unreachable)
    const failed = { kind: 'failed', reason: 'unreachable' }
    expect(await open().post({ accessToken: 'x' }, 'C1', message, [])).toMatchObject(failed)
    server.answers['chat.postMessage'] = refusal('not_in_channel')
    const secrets = { accessToken: 'x', incomingWebhookUrl: `${url}/C1` }
    expect(await open().post(secrets, 'C1', message, [])).toMatchObject(failed)
    expect(calls()).not.toContain('inner')
  })

  test.each([
    [{}, 'incoming-webhook,chat:write'],
    [{ mentionOwners: true }, 'incoming-webhook,chat:write,users:read,users:read.email'],
  ])('with %j, asks for no more than the scopes that it needs', (more, scope) => {
    const slack = open(more)
    const address = slack.authorizeUrl({ redirectUri: 'r', state: 's', codeVerifier: 'v' })
    expect(new URL(address).searchParams.get('scope')).toBe(scope)
    expect('memberWithEmail' in slack).toBe('mentionOwners' in more)
  })

  test('finds nobody who has left', async () => {
    server.answers = {
      'a/users.lookupByEmail': { body: { ok: true, user: { id: 'U1', deleted: true } } },
    }
    const find = (way: string) => open({ mentionOwners: true, apiUrl: `${url}/${way}` })
    expect(await find('a').memberWithEmail?.({ accessToken: 'x' }, 'ada@x')).toBeUndefined()
  })
})
