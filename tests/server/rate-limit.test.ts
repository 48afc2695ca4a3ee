import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import type { PgTable } from 'drizzle-orm/pg-core'
import { Hono } from 'hono'
import { beforeEach, describe, expect, test } from 'vitest'
import { authorizations, sessions, users } from '../../server/database/schema.ts'
import {
  Counter,
  clientAddress,
  createRateLimits,
  rateLimits,
} from '../../server/http/rate-limit.ts'
import { fromAddress, listenInTest, openBrowser, refusal, shareHarness, signIn } from './harness.ts'

/** More than any limit of calls from one address. */
const flood = 1_200
/** It counts like every call, and needs no database. */
const unknownPath = '/api/unknown'
const attacker = '192.0.2.66'
const elsewhere = '198.51.100.1'

const harness = await shareHarness()
let app: Hono
beforeEach(() => {
  // Each test counts from zero.
  app = appWith({ trustedProxies: 0 })
})

const appWith = ({ trustedProxies }: { trustedProxies: number }) =>
  harness.appWith({ limits: createRateLimits({ trustedProxies, log: () => undefined }) })
const browserAt = (address: string) => openBrowser({ app: fromAddress(app, address) })
const rowsIn = (table: PgTable) => harness.database.$count(table)

/** Sends a request many times. @returns how many answers had each status. */
async function send(times: number, one: (n: number) => Promise<Response> | Response) {
  const statuses: Record<number, number> = {}
  for (let n = 0; n < times; n++) {
    const { status } = await one(n)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  return statuses
}

const begin = (address: string, headers: Record<string, string> = {}) =>
  fromAddress(app, address).request('/api/hubspot/auth', { headers })

describe('a flood from one address', () => {
  test('of new authorizations stores a bounded number of rows, says when to come back, and stops nobody else', async () => {
    const { times, seconds } = rateLimits.newSessionsOfAddress
    const colleague = browserAt(attacker)
    await colleague.send('/api/slack/auth')
    const invented = { Cookie: `dealbell=${'A'.repeat(43)}` }
    const statuses = await send(flood, (n) => begin(attacker, n % 2 === 0 ? {} : invented))
    // The colleague's session is one of those that the address may begin.
    expect(statuses).toEqual({ 302: times - 1, 429: flood - times + 1 })
    for (const table of [users, sessions, authorizations]) expect(await rowsIn(table)).toBe(times)

    const answer = await begin(attacker)
    const retryAfter = Number(answer.headers.get('Retry-After'))
    expect(retryAfter).toBeGreaterThan(0)
    expect(retryAfter).toBeLessThanOrEqual(seconds)
    expect(answer.headers.get('Set-Cookie')).toBeNull()
    expect(await refusal(answer)).toBe('429 too_many_requests')

    const from = fromAddress(app, attacker)
    expect(await send(flood, () => from.request('/health'))).toEqual({ 200: flood })
    const webhook = () => from.request('/webhooks/hubspot', { method: 'POST', body: '[]' })
    expect(await send(flood, webhook)).toEqual({ 401: flood })
    for (const browser of [colleague, browserAt(elsewhere)]) {
      await signIn(browser)
      expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
    }
  })

  test('with a new invented cookie each time is still one flood', async () => {
    const { times } = rateLimits.callsOfAddress
    const statuses = await send(times + 10, (n) =>
      fromAddress(app, attacker).request(unknownPath, {
        headers: { Cookie: `dealbell=${String(n).padStart(43, 'A')}` },
      }),
    )
    expect(statuses).toEqual({ 404: times, 429: 10 })
  })

  test('through one session is refused, and a colleague is not', async () => {
    const [one, other] = [browserAt(attacker), browserAt(attacker)]
    for (const browser of [one, other]) await browser.send('/api/slack/auth')
    const { times } = rateLimits.callsOfSession
    expect(await send(times + 10, () => one.call(unknownPath))).toEqual({ 404: times, 429: 10 })
    expect((await one.call('/api/hubspot/status')).status).toBe(429)
    expect((await other.call('/api/hubspot/status')).status).toBe(200)
  })

  test.each([
    ['calls', 22, rateLimits.callsOfSession.times, unknownPath, 'callsOfNewSessionsAtAddress'],
    ['new authorizations', 30, 12, '/api/slack/auth', 'authorizationsOfNewSessionsAtAddress'],
  ] as const)(
    'of %s through many new sessions stops nobody who has connected a service',
    async (_, count, each, path, limit) => {
      const colleague = browserAt(attacker)
      await colleague.connect('hubspot')
      const sessions = Array.from({ length: count }, () => browserAt(attacker))
      for (const session of sessions) await session.send('/api/slack/auth')
      const call = (n: number) => (sessions[n % count] ?? colleague).send(path)
      const statuses = await send(count * each, call)
      expect(statuses[429]).toBeGreaterThanOrEqual(count * each - rateLimits[limit].times)

      await colleague.connect('slack')
      expect((await colleague.save(['deal-closed'])).status).toBe(204)
      // A browser without a session can begin too.
      expect((await browserAt(attacker).call('/api/hubspot/status')).status).toBe(200)
    },
  )

  test('of the stand-ins’ pages is refused, and the server’s own calls to them are not', async () => {
    const from = fromAddress(app, attacker)
    const { times } = rateLimits.standInsOfAddress
    const page = () => from.request('/sandbox/hubspot/deals')
    expect(await send(times + 10, page)).toEqual({ 200: times, 429: 10 })
    const call = () => from.request('/sandbox/slack/api/chat.postMessage', { method: 'POST' })
    expect(await send(times + 10, call)).not.toHaveProperty('429')
  })
})

test('a flood from all networks of one customer leaves new sessions to everybody else', async () => {
  const { times } = rateLimits.newSessions
  await send(times, (n) => begin(`2001:db8:66:${n.toString(16)}::1`))
  expect(await rowsIn(users)).toBeLessThan(times / 2)
  for (const address of [elsewhere, '2001:db8:67::1']) {
    expect((await begin(address)).status).toBe(302)
  }
})

test('a flood from thousands of addresses stores a bounded number of rows, and stops no session', async () => {
  const known = browserAt(elsewhere)
  for (const provider of ['hubspot', 'slack'] as const) await known.connect(provider)
  await send(flood, (n) => begin(`10.0.${n >> 8}.${n & 255}`))
  expect(await rowsIn(users)).toBe(rateLimits.newSessions.times)
  expect((await known.save([])).status).toBe(204)
  await known.connect('slack')
})

// authorization.test.ts: a callback that nobody began causes no call.
test('callbacks with an invented code cause no more calls to the provider than authorizations may begin', async () => {
  const before = harness.calls.length
  const { times } = rateLimits.newSessionsOfAddress
  await send(times + 50, async () => {
    const { send: sendAs } = browserAt(attacker)
    const begun = await sendAs('/api/hubspot/auth')
    const state = new URL(begun.headers.get('Location') ?? 'http://none').searchParams.get('state')
    return sendAs(`/api/hubspot/callback?code=invented&state=${state}`)
  })
  expect(harness.calls.length - before).toBeLessThanOrEqual(2 * times)
})

describe('the client’s address', () => {
  test.each([
    ['the socket’s', '192.0.2.1', undefined, 0, '192.0.2.1'],
    ['not one that the client writes', '192.0.2.1', '203.0.113.9', 0, '192.0.2.1'],
    ['what the one proxy adds', '10.0.0.1', '203.0.113.9, 192.0.2.1', 1, '192.0.2.1'],
    ['what the first of two adds', '10.0.0.1', '203.0.113.9, 192.0.2.1, 10.0.0.2', 2, '192.0.2.1'],
    ['the socket’s when a proxy is missing', '10.0.0.1', '192.0.2.1', 2, '10.0.0.1'],
    ['the socket’s when the proxy tells none', '10.0.0.1', undefined, 1, '10.0.0.1'],
    ['the socket’s when the proxy tells nonsense', '10.0.0.1', 'unknown', 1, '10.0.0.1'],
    ['without a port', '10.0.0.1', '192.0.2.1:4711', 1, '192.0.2.1'],
    ['without a port and brackets', '10.0.0.1', '[2001:db8::1]:4711', 1, '2001:0db8:0000:0000'],
    ['the network of IPv6', '2001:DB8:1:2:3:4:5:6', undefined, 0, '2001:0db8:0001:0002'],
    ['IPv4 in IPv6', '::ffff:192.0.2.1', undefined, 0, '192.0.2.1'],
    ['without a zone', 'fe80::1%eth0', undefined, 0, 'fe80:0000:0000:0000'],
    ['one for all that cannot be told', undefined, undefined, 0, 'unknown'],
  ] as const)('is %s', async (_what, socket, forwarded, proxies, expected) => {
    const one = new Hono().get('/', (c) => c.text(String(clientAddress(c, proxies))))
    const headers = new Headers(forwarded === undefined ? {} : { 'X-Forwarded-For': forwarded })
    const env = { incoming: { socket: { remoteAddress: socket } } }
    const answer = await one.request('/', { headers }, env)
    expect(await answer.text()).toBe(expected)
  })

  test('cannot be changed by a header, except by a trusted proxy', async () => {
    const { times } = rateLimits.newSessionsOfAddress
    for (const trustedProxies of [0, 1]) {
      app = appWith({ trustedProxies })
      const port = await listenInTest(createServer(getRequestListener(app.fetch)))
      const statuses = await send(times + 10, (n) =>
        fetch(`http://127.0.0.1:${port}/api/slack/auth`, {
          redirect: 'manual',
          headers: { 'X-Forwarded-For': `10.1.0.${n}` },
        }),
      )
      expect(statuses).toEqual(trustedProxies === 0 ? { 302: times, 429: 10 } : { 302: times + 10 })
    }
  })
})

test('a counter remembers a bounded number of keys', async () => {
  const counter = new Counter({ times: 1, seconds: 60 })
  for (let n = 0; n < 20_000; n++) await counter.count(`address ${n}`)
  expect(counter.size).toBe(10_000)
  // The newest are remembered.
  expect(await counter.count('address 19999')).toBeGreaterThan(0)
  expect(await counter.count('address 0')).toBe(0)
})
