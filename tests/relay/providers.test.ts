import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defaultTimeouts } from '../../server/providers/calls.ts'
import { createHubspot } from '../../server/providers/hubspot/hubspot.ts'
import { createSlack } from '../../server/providers/slack/slack.ts'

interface Answer {
  status?: number
  headers?: Record<string, string>
  body?: string
  /** The headers come late, and the body never ends. */
  stalls?: boolean
}

/** The answer to each path, by the end of the path. */
type Answers = Readonly<Record<string, Answer>>

let server: Server
let base: string
// A bound on the headers plus one on the body would take until 3.4 s.
const timeouts = { ...defaultTimeouts, callMs: 2_000 }
const lateHeadersMs = 1_400
// Each test has a path of its own.
const answersOf = new Map<string, Answers>()

async function send(response: ServerResponse, { status = 200, headers, body, stalls }: Answer) {
  if (stalls) await delay(lateHeadersMs)
  response.writeHead(status, headers)
  if (stalls) response.write('{')
  else response.end(body)
}

beforeAll(async () => {
  server = createServer((request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    const answers = answersOf.get(path.split('/')[1] ?? '') ?? {}
    const [, answer] = Object.entries(answers).find(([end]) => path.endsWith(end)) ?? []
    send(response, answer ?? { status: 404 })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port was given.')
  base = `http://127.0.0.1:${address.port}`
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

const access = { accountId: '1', accessToken: 'a', urgency: 'fresh' } as const

function outside(answers: Answers) {
  const name = `t${answersOf.size}`
  answersOf.set(name, answers)
  const url = `${base}/${name}`
  const settings = {
    clientId: 'id',
    clientSecret: 'secret',
    apiUrl: url,
    authorizeUrl: url,
    standIn: false,
  }
  const message = { text: 'Deal 1', blocks: [] }
  return {
    refresh: (): Promise<unknown> =>
      createHubspot(settings, timeouts).refresh({ accessToken: 'a', refreshToken: 'r' }),
    read: (): Promise<unknown> =>
      createHubspot(settings, timeouts).deal(access, '1', { history: 'stage', links: true }),
    readBatch: (): Promise<unknown> =>
      createHubspot(settings, timeouts).deals(access, ['1'], 'stage'),
    readLinks: (): Promise<unknown> => createHubspot(settings, timeouts).linked(access, ['1']),
    search: (): Promise<unknown> =>
      createHubspot(settings, timeouts).changedDeals(access, new Date()),
    readStages: (): Promise<unknown> => createHubspot(settings, timeouts).stages(access),
    post: (): Promise<unknown> =>
      createSlack(settings, timeouts).post(
        { accessToken: 'a', incomingWebhookUrl: `${url}/webhook` },
        'C1',
        message,
      ),
    postWithoutWebhook: (): Promise<unknown> =>
      createSlack(settings, timeouts).post({ accessToken: 'a' }, 'C1', message),
  }
}

const json = (value: unknown, status = 200): Answer => ({
  status,
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(value),
})
const page: Answer = {
  headers: { 'Content-Type': 'text/html' },
  body: '<html><h1>Please wait…</h1></html>',
}
const batch = (category: string) => ({
  '/batch/read': json({ results: [], errors: [{ category }] }, 207),
})

test('a deal is missing from a batch only if HubSpot says that it does not exist', async () => {
  expect(await outside(batch('OBJECT_NOT_FOUND')).readBatch()).toEqual(new Map())
  await expect(outside(batch('INTERNAL_ERROR')).readBatch()).rejects.toMatchObject({
    kind: 'unreachable',
    reason: 'batch_incomplete',
  })
})

test('something is missing only if HubSpot says so: a 404 may be a page of a proxy', async () => {
  const notFound = json({ status: 'error', category: 'OBJECT_NOT_FOUND' }, 404)
  expect(await outside({ '/1': notFound }).read()).toBeUndefined()
  for (const answer of [
    { ...page, status: 404 },
    json({ status: 'error' }, 404),
    { status: 404 },
  ]) {
    const crm = outside({ '/1': answer, '/read': answer, '/search': answer, '/deals': answer })
    const failure = { kind: 'unreachable', reason: 'status_404' }
    for (const call of [crm.read, crm.readBatch, crm.readLinks, crm.search, crm.readStages]) {
      await expect(call()).rejects.toMatchObject(failure)
    }
  }
})

test('a batch that does not name all its errors is not complete', async () => {
  const answer = { '/read': json({ results: [], numErrors: 1 }, 207) }
  for (const call of [outside(answer).readBatch, outside(answer).readLinks]) {
    await expect(call()).rejects.toMatchObject({ kind: 'unreachable', reason: 'batch_incomplete' })
  }
})

const notInChannel = json({ ok: false, error: 'not_in_channel' })

test('a call with late headers and a body that stalls ends in time, both ways of posting together', async () => {
  const stalled: Answer = { ...json({}), stalls: true }
  const calls = {
    refresh: outside({ '/token': stalled }).refresh,
    'refused refresh': outside({ '/token': { ...stalled, status: 400 } }).refresh,
    read: outside({ '/1': stalled }).read,
    'refused read': outside({ '/1': { ...stalled, status: 401 } }).read,
    post: outside({ 'chat.postMessage': stalled }).post,
    'refused post': outside({ 'chat.postMessage': { ...stalled, status: 500 } }).post,
    'post by the second way': outside({ 'chat.postMessage': notInChannel, '/webhook': stalled })
      .post,
  }
  await Promise.all(
    Object.entries(calls).map(async ([name, call]) => {
      const startedAt = performance.now()
      const outcome = await call().catch((error: unknown) => error)
      const tookMs = performance.now() - startedAt
      const failure = name.includes('post')
        ? { kind: 'failed', reason: 'unreachable' }
        : { kind: 'unreachable' }
      expect(outcome, name).toMatchObject(failure)
      expect(tookMs, name).toBeGreaterThan(timeouts.callMs - 50)
      expect(tookMs, name).toBeLessThan(timeouts.callMs + lateHeadersMs)
    }),
  )
  expect(defaultTimeouts.callMs).toBe(10_000)
})

describe('HubSpot refuses', () => {
  test.each([
    [json({ status: 'BAD_REFRESH_TOKEN', message: 'missing or invalid' }, 400)],
    [json({ error: 'invalid_grant', status: 'BAD_REFRESH_TOKEN' }, 400)],
    [json({ error: 'invalid_grant' }, 400)],
    // The account was deleted.
    [json({ error: 'access_denied', status: 'BAD_HUB' }, 400)],
  ])('a refresh only by its word on the token: %j', async (answer) => {
    await expect(outside({ '/token': answer }).refresh()).rejects.toMatchObject({ kind: 'refused' })
  })

  test.each([
    [{ status: 408 }, 'status_408'],
    [{ status: 423 }, 'locked'],
    [{ ...page, status: 403 }, 'status_403'],
    [json({ error: 'invalid_client', status: 'BAD_CLIENT_SECRET' }, 401), 'BAD_CLIENT_SECRET'],
    [json({ error: 'invalid_client', status: 'BAD_CLIENT_ID' }, 401), 'BAD_CLIENT_ID'],
    [json({ status: 'BAD_REFRESH_TOKEN' }, 500), 'BAD_REFRESH_TOKEN'],
  ])('no refresh by %j', async (answer, reason) => {
    const failure = { kind: 'unreachable', reason }
    await expect(outside({ '/token': answer }).refresh()).rejects.toMatchObject(failure)
  })

  test('a read only by a word of its own: no page of a proxy does', async () => {
    const refused = json({ status: 'error', category: 'MISSING_SCOPES' }, 403)
    await expect(outside({ '/1': refused }).read()).rejects.toMatchObject({ kind: 'refused' })
    const user = json({ status: 'error', category: 'USER_DOES_NOT_HAVE_PERMISSIONS' }, 403)
    await expect(outside({ '/1': user }).read()).rejects.toMatchObject({ kind: 'refused' })
    for (const answer of [{ ...page, status: 403 }, json({ error: 'forbidden' }, 403)]) {
      const proxied = outside({ '/1': answer }).read()
      await expect(proxied).rejects.toMatchObject({ kind: 'unreachable' })
    }
  })
})

describe('Slack refuses', () => {
  const post = (error: string) =>
    outside({ 'chat.postMessage': json({ ok: false, error }) }).postWithoutWebhook()

  test.each([
    'invalid_auth',
    'token_revoked',
    'token_expired',
    'account_inactive',
    'not_authed',
    'missing_scope',
    'no_service',
    'invalid_token',
    'channel_not_found',
    'not_in_channel',
    'channel_is_archived',
    'is_archived',
    'no_permission',
    'team_access_not_granted',
    'enterprise_is_restricted',
    'ekm_access_denied',
    'restricted_action',
    'restricted_action_read_only_channel',
    'action_prohibited',
    'posting_to_general_channel_denied',
    'team_disabled',
  ])('the connection: %s', async (reason) => {
    expect(await post(reason)).toEqual({ kind: 'refused', reason, connectionBroken: true })
  })

  test.each(['invalid_blocks', 'msg_too_long', 'no_text', 'invalid_arguments'])(
    'this message alone: %s',
    async (reason) => {
      expect(await post(reason)).toEqual({ kind: 'refused', reason, connectionBroken: false })
    },
  )

  test.each(['internal_error', 'fatal_error', 'request_timeout', 'service_unavailable'])(
    'nothing for good: %s is tried again',
    async (reason) => {
      expect(await post(reason)).toEqual({ kind: 'failed', reason })
    },
  )
})

describe('what Slack does not say itself may pass', () => {
  test.each([
    [page, 'nonsense'],
    [{ body: '' }, 'nonsense'],
    [{ body: '{"ok":tr' }, 'nonsense'],
    [json({}), 'nonsense'],
    [json({ ok: false, error: { code: 'invalid_auth' } }), 'nonsense'],
    [json(null), 'unreachable'],
    [json({ ok: false, error: 'accesslimited' }), 'accesslimited'],
    [{ ...page, status: 403 }, 'http_403'],
    [{ status: 404 }, 'http_404'],
  ])('%j', async (answer, reason) => {
    const outcome = await outside({ 'chat.postMessage': answer }).post()
    expect(outcome).toEqual({ kind: 'failed', reason })
  })

  test.each([
    [page, 'nonsense'],
    [{ body: '' }, 'nonsense'],
    [{ ...page, status: 403 }, 'http_403'],
    [{ status: 404 }, 'http_404'],
    [{ status: 500, body: 'rollup_error' }, 'rollup_error'],
  ])('by the second way: %j', async (answer, reason) => {
    const answers = { 'chat.postMessage': notInChannel, '/webhook': answer }
    expect(await outside(answers).post()).toEqual({ kind: 'failed', reason })
  })
})

test.each([
  ['action_prohibited', 403, true],
  ['no_active_hooks', 404, true],
  ['invalid_payload', 400, false],
])('%s by the second way is a refusal', async (word, status, connectionBroken) => {
  const answers = { 'chat.postMessage': notInChannel, '/webhook': { status, body: word } }
  const refused = { kind: 'refused', reason: word, connectionBroken }
  expect(await outside(answers).post()).toEqual(refused)
})

test.each([
  ['7', 7_000],
  [undefined, 30_000],
  ['0', 30_000],
  ['soon', 30_000],
])('429 with Retry-After %s is a wait, by either way', async (value, ms) => {
  const limited: Answer = { status: 429, ...(value && { headers: { 'Retry-After': value } }) }
  expect(await outside({ 'chat.postMessage': limited }).post()).toEqual({ kind: 'wait', ms })
  const second = { 'chat.postMessage': notInChannel, '/webhook': limited }
  expect(await outside(second).post()).toEqual({ kind: 'wait', ms })
})
