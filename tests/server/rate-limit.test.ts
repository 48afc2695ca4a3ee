import { setImmediate as nextTurn } from 'node:timers/promises'
import type { PgTable } from 'drizzle-orm/pg-core'
import { Hono } from 'hono'
import { beforeEach, describe, expect, test } from 'vitest'
import { sessions, usedTokens, users } from '../../server/database/schema.ts'
import { answerError } from '../../server/http/errors.ts'
import { clientAddress, createRateLimits, rateLimits } from '../../server/http/rate-limit.ts'
import { logTo } from '../../server/log.ts'
import { registry } from '../../server/watch/metrics.ts'
import { fromAddress, openBrowser, refusal, shareHarness, signIn } from './harness.ts'

/** More than may begin at one address. */
const flood = rateLimits.authorizationsOfAddress.times + 10
/** It counts like every call, and needs no database. */
const unknownPath = '/api/unknown'
const attacker = '192.0.2.66'
const elsewhere = '198.51.100.1'

const harness = await shareHarness()
let app: Hono
beforeEach(() => {
  // Each test counts from zero.
  app = harness.appWith({ limits: newLimits() })
})

const newLimits = () => createRateLimits({ trustedProxies: 0, log: logTo(() => undefined) })
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

const begin = (address: string) => fromAddress(app, address).request('/api/hubspot/auth')

describe('a flood from one address', () => {
  test('of new authorizations stores nothing, says when to come back, and stops nobody else', async () => {
    const { times, seconds } = rateLimits.authorizationsOfAddress
    expect(await send(flood, () => begin(attacker))).toEqual({ 302: times, 429: flood - times })
    for (const table of [users, sessions, usedTokens]) expect(await rowsIn(table)).toBe(0)

    const answer = await begin(attacker)
    const retryAfter = Number(answer.headers.get('Retry-After'))
    expect(retryAfter).toBeGreaterThan(0)
    expect(retryAfter).toBeLessThanOrEqual(seconds)
    expect(answer.headers.get('Set-Cookie')).toBeNull()
    expect(await refusal(answer)).toBe('429 too_many_requests')

    const from = fromAddress(app, attacker)
    expect((await from.request('/health')).status).toBe(200)
    const webhook = { method: 'POST', body: '[]' }
    expect((await from.request('/webhooks/hubspot', webhook)).status).toBe(401)
    const other = browserAt(elsewhere)
    await signIn(other)
    expect(await other.rules()).toEqual({ rules: ['deal-closed'] })
  })

  test('of calls is refused, and an invented cookie or another address of its network does not help', async () => {
    const limits = newLimits()
    // The app itself would take ten times as long for so many.
    const counting = new Hono().use(limits.calls).all('*', (c) => c.text(''))
    const addressOf = (n: number) => `2001:db8:66:1:${n.toString(16)}::1`
    const { times } = rateLimits.callsOfAddress
    const statuses = await send(times, (n) => fromAddress(counting, addressOf(n)).request('/'))
    expect(statuses).toEqual({ 200: times })
    const limited = harness.appWith({ limits })
    const invented = { headers: { Cookie: `dealbell-0123abcd=${'A'.repeat(43)}` } }
    const again = await fromAddress(limited, addressOf(9_999)).request(unknownPath, invented)
    expect(again.status).toBe(429)
    expect((await fromAddress(limited, elsewhere).request(unknownPath)).status).toBe(404)
  })

  test('of the stand-ins’ pages is refused, and the server’s own calls to them are not', async () => {
    const from = fromAddress(app, attacker)
    const { times } = rateLimits.standInsOfAddress
    const page = () => from.request('/sandbox/hubspot/deals')
    expect(await send(times + 10, page)).toEqual({ 200: times, 429: 10 })
    const call = () => from.request('/sandbox/slack/api/chat.postMessage', { method: 'POST' })
    expect((await call()).status).not.toBe(429)
  })
})

describe('failed attempts at a provider', () => {
  const { times } = rateLimits.failuresOfAll
  const own = rateLimits.failuresOfPerson.times

  /** Attempts of somebody. @returns how many reached the provider. */
  function openAttempts() {
    const lines: string[] = []
    const log = logTo(
      (_level, event, fields) => void lines.push(JSON.stringify({ event, ...fields })),
    )
    const limits = createRateLimits({ trustedProxies: 0, log })
    async function attempts(count: number, provider: string, works: boolean, person?: string) {
      let reached = 0
      const one = new Hono().onError(answerError(log)).get('/', async (c) => {
        const call = async () => {
          reached++
          await nextTurn()
          return works
        }
        await limits.attempt(c, provider, person, call, (result) => result)
        return c.text('')
      })
      const calls = Array.from({ length: count }, () => one.request('/'))
      const answers = await Promise.all(calls)
      const refused = answers.filter(({ status }) => status === 429)
      expect(refused.length).toBe(count - reached)
      for (const { headers } of refused)
        expect(Number(headers.get('Retry-After'))).toBeGreaterThan(0)
      return reached
    }
    return { attempts, lines }
  }

  test('are limited for all together, and then only a person whom the CRM knows may go on', async () => {
    const { attempts, lines } = openAttempts()
    expect(await attempts(times - 1, 'one', true)).toBe(times - 1)
    expect(await attempts(times - 1, 'one', false)).toBe(times - 1)
    expect(await attempts(5, 'one', false, 'A')).toBe(5)
    expect(await attempts(9, 'one', true)).toBe(0)
    // One line for all that are refused.
    expect(lines).toEqual([
      '{"event":"rate limit reached","limit":"failuresOfAll","provider":"one"}',
    ])
    expect(await attempts(own, 'one', false, 'A')).toBe(own - 4)
    expect(await attempts(own - 1, 'one', true, 'B')).toBe(own - 1)
    expect(await attempts(own - 1, 'one', true, 'B')).toBe(own - 1)
    expect(await attempts(9, 'another', false)).toBe(9)
    const metrics = await registry.metrics()
    expect(metrics).toMatch(/^dealbell_requests_limited_total\{limit="failuresOfAll"\} \d+$/m)
  })

  test('are counted before they are answered, so many at once are no more', async () => {
    const { attempts } = openAttempts()
    expect(await attempts(times + 50, 'one', false)).toBe(times)
  })
})

describe('the client’s address', () => {
  test.each([
    ['the socket’s', '192.0.2.1', undefined, 0, '192.0.2.1'],
    ['not one that the client writes', '192.0.2.1', '203.0.113.9', 0, '192.0.2.1'],
    ['what the one proxy adds', '10.0.0.1', '203.0.113.9, 192.0.2.1', 1, '192.0.2.1'],
    ['what the first of two adds', '10.0.0.1', '203.0.113.9, 192.0.2.1, 10.0.0.2', 2, '192.0.2.1'],
    ['the socket’s when the proxy tells nonsense', '10.0.0.1', 'unknown', 1, '10.0.0.1'],
    ['without a port', '10.0.0.1', '192.0.2.1:4711', 1, '192.0.2.1'],
    ['the network of IPv6', '2001:DB8:1:2:3:4:5:6', undefined, 0, '2001:0db8:0001:0002'],
    ['IPv4 in IPv6', '::ffff:192.0.2.1', undefined, 0, '192.0.2.1'],
    ['one for all that cannot be told', undefined, undefined, 0, 'unknown'],
  ] as const)('is %s', async (_what, socket, forwarded, proxies, expected) => {
    const one = new Hono().get('/', (c) => c.text(String(clientAddress(c, proxies))))
    const headers = new Headers(forwarded === undefined ? {} : { 'X-Forwarded-For': forwarded })
    const env = { incoming: { socket: { remoteAddress: socket } } }
    const answer = await one.request('/', { headers }, env)
    expect(await answer.text()).toBe(expected)
  })
})
