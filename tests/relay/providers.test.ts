import type { ServerResponse } from 'node:http'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { defaultTimeouts } from '../../server/providers/calls.ts'
import { createHubspot } from '../../server/providers/hubspot/hubspot.ts'
import { createSlack } from '../../server/providers/slack/slack.ts'
import { listen } from './listen.ts'

interface Answer {
  status?: number
  headers?: Record<string, string>
  body?: string
  /** The headers come late, and the body never ends. */
  stalls?: boolean
}

/** The answer to each path, by the end of the path. */
type Answers = Readonly<Record<string, Answer>>

let server: Awaited<ReturnType<typeof listen>>
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
  server = await listen((request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    const answers = answersOf.get(path.split('/')[1] ?? '') ?? {}
    const [, answer] = Object.entries(answers).find(([end]) => path.endsWith(end)) ?? []
    send(response, answer ?? { status: 404 })
  })
})
afterAll(() => server.close())

const access = { accountId: '1', accessToken: 'a', urgency: 'fresh' } as const

function outside(answers: Answers) {
  const name = `t${answersOf.size}`
  answersOf.set(name, answers)
  const url = `${server.url}/${name}`
  const settings = {
    clientId: 'id',
    clientSecret: 'secret',
    apiUrl: url,
    authorizeUrl: url,
    standIn: false,
  }
  const hubspot = createHubspot(settings, timeouts)
  const slack = createSlack(settings, timeouts)
  const secrets = { accessToken: 'a', incomingWebhookUrl: `${url}/webhook` }
  return {
    refresh: (): Promise<unknown> => hubspot.refresh({ accessToken: 'a', refreshToken: 'r' }),
    read: (): Promise<unknown> => hubspot.deal(access, '1', { history: 'stage', links: true }),
    readBatch: (): Promise<unknown> => hubspot.deals(access, ['1'], 'stage'),
    readLinks: (): Promise<unknown> => hubspot.linked(access, ['1']),
    search: (): Promise<unknown> => hubspot.changedDeals(access, new Date()),
    readStages: (): Promise<unknown> => hubspot.stages(access),
    post: (): Promise<unknown> => slack.post(secrets, 'C1', { text: 'Deal 1', blocks: [] }),
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
  const unnamed = { '/read': json({ results: [], numErrors: 1 }, 207) }
  const incomplete = { kind: 'unreachable', reason: 'batch_incomplete' }
  await expect(outside(batch('INTERNAL_ERROR')).readBatch()).rejects.toMatchObject(incomplete)
  await expect(outside(unnamed).readBatch()).rejects.toMatchObject(incomplete)
  await expect(outside(unnamed).readLinks()).rejects.toMatchObject(incomplete)
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
