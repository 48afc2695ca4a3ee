import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import project from '../../package.json' with { type: 'json' }
import { watchRoutes } from '../../server/api/watch.ts'
import { channels, connections, crmBudgets } from '../../server/database/schema.ts'
import { deliveriesEnded, watchProcess } from '../../server/watch/metrics.ts'
import { createWatch } from '../../server/watch/watch.ts'
import { databaseKinds } from '../database.ts'
import { storeDeliveries } from '../server/harness.ts'
import { metricsToken } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { backend, changes, channel, connect, holdPost, portal, shareBackend } from './shared.ts'

const incoming = { rawHeaders: [], socket: { remoteAddress: '127.0.0.1' } }
const withToken = { headers: { Authorization: `Bearer ${metricsToken}` } }
const operating = join(import.meta.dirname, '../../docs/operating')
const local = { appUrl: 'http://localhost:3000', apiUrl: 'http://localhost:3000' }

/** The series of a scrape, each with its value. */
async function scrape(): Promise<Map<string, number>> {
  const answer = await backend.app.request('/metrics', withToken, { incoming })
  expect(answer.headers.get('Content-Type')).toBe('text/plain; version=0.0.4; charset=utf-8')
  const lines = (await answer.text()).split('\n').filter((line) => /^[a-z]/.test(line))
  return new Map(lines.map((line) => [line.replace(/ \S+$/, ''), Number(/\S+$/.exec(line)?.[0])]))
}

let ageMs = 0
/** Sets the stopped clock to a time at which whatever was counted before is old, also in other tests. */
function outdate(): void {
  ageMs = 2 * ageMs + 1e10
  vi.advanceTimersByTime(ageMs)
}

describe.each(databaseKinds)('on %s, the metrics', (kind) => {
  // Other files of this process may have counted.
  deliveriesEnded.reset()
  shareBackend(kind)
  // The counts go on from one database to the next.
  const testOnce = test.runIf(kind === 'PGlite')

  test('count the way of a webhook to its message, and what waits, and name nobody', async () => {
    const before = await scrape()
    const userId = await connect()
    const { accept } = holdPost()
    const unknown = { ...stageChange(2, { portal }), propertyValue: null }
    await backend.tell([...changes([1]), unknown])
    const waiting = await scrape()
    expect(waiting.get('dealbell_deliveries_pending')).toBe(1)
    expect(waiting.get(`dealbell_build_info{version="${project.version}"}`)).toBe(1)
    expect(waiting.get('dealbell_oldest_pending_seconds')).toBeGreaterThan(0)
    accept()
    await backend.settled()
    const unsigned = await backend.app.request('/webhooks/hubspot', { method: 'POST' })
    expect(unsigned.status).toBe(401)
    const more = await vi.waitFor(async () => {
      const differences = [...(await scrape())].map(
        ([name, value]) => [name, value - (before.get(name) ?? 0)] as const,
      )
      const found = new Map(differences)
      expect(found.get('dealbell_delivery_seconds_count')).toBe(1)
      return found
    })
    for (const [name, value] of Object.entries({
      'webhooks_total{provider="hubspot",outcome="stored"}': 1,
      'webhooks_total{provider="hubspot",outcome="missing"}': 1,
      'events_stored_total{found_by="webhook"}': 1,
      'events_not_understood_total{provider="hubspot"}': 1,
      'deliveries_ended_total{state="sent",reason=""}': 1,
      delivery_seconds_count: 1,
      'provider_calls_total{provider="slack",call="post",outcome="ok"}': 1,
      database_up: 0,
    })) {
      expect([name, more.get(`dealbell_${name}`)]).toEqual([name, value])
    }
    expect(more.get('dealbell_provider_call_seconds_count{provider="hubspot"}')).toBeGreaterThan(0)
    expect(more.get('dealbell_database_statements_total')).toBeGreaterThan(10)
    const text = [...more.keys()].join('\n')
    // 10015 is a code of a chat.
    const names = text.replaceAll('code_10015', '')
    for (const secret of [userId, channel, `${portal}`]) expect(names).not.toContain(secret)
  })

  testOnce('that the dashboard, the alerts and the page of docs/operating name exist', async () => {
    watchProcess()
    const answer = await backend.app.request('/metrics', withToken, { incoming })
    const types = [...(await answer.text()).matchAll(/^# TYPE (\S+) (\S+)$/gm)]
    const names = types.flatMap(([, name = '', type]) =>
      type === 'histogram' ? [name, `${name}_bucket`] : [name],
    )
    for (const file of ['dashboard.json', 'alerts.yml', 'watching.md']) {
      const used = readFileSync(join(operating, file), 'utf8').match(
        /\b(dealbell|nodejs|process)_[a-z0-9_]+/g,
      )
      expect(used?.length).toBeGreaterThan(5)
      expect(used?.filter((name) => !names.includes(name))).toEqual([])
    }
  })
})

describe('of what is stored, the metrics', () => {
  shareBackend('PGlite', { working: false })
  const working = 'dealbell_connections{provider="hubspot",state="working"}'

  test('know the message that waits longest among those of a thousand channels, and why some wait', async () => {
    const user = await backend.newUser()
    const hourAgo = new Date(Date.now() - 3_600_000)
    await storeDeliveries(backend.database, user, 1_100, (n) => ({
      state: 'pending',
      channel: n === 1 ? 'T/z' : `T/${n}`,
      reason: { 1: 'hubspot_unreachable', 2: 'paused', 3: 'a word of Slack' }[n] ?? null,
      ...(n === 1 && { receivedAt: hourAgo }),
    }))
    const metrics = await scrape()
    expect(metrics.get('dealbell_deliveries_pending')).toBe(1_100)
    expect(metrics.get('dealbell_oldest_pending_seconds')).toBeCloseTo(3_600, -2)
    const waiting = [...metrics].filter(([name]) => name.startsWith('dealbell_deliveries_waiting'))
    const of = (reason: string) => `dealbell_deliveries_waiting{reason="${reason}"}`
    expect(Object.fromEntries(waiting)).toEqual({
      ...{ [of('')]: 997, [of('hubspot_unreachable')]: 1, [of('paused')]: 1, [of('other')]: 1 },
    })
  })

  test('tell how far the schedule lags behind, apart for channels that fail', async () => {
    const due = (id: string, seconds: number, more = {}) => ({
      ...{ id, dueAt: sql`now() - make_interval(secs => ${seconds})`, ...more },
    })
    const leased = { leasedBy: crypto.randomUUID(), leasedUntil: new Date(Date.now() + 1e6) }
    await backend.database
      .insert(channels)
      .values([
        ...[due('T/1', 100), due('T/2', 200), due('T/leased', 900, leased), due('T/later', -900)],
        due('T/failing', 500, { failing: true }),
      ])
    const metrics = await scrape()
    const both = (name: string) =>
      ['working', 'failing'].map((state) => metrics.get(`dealbell_${name}{state="${state}"}`))
    expect(both('channels_due')).toEqual([2, 1])
    expect(both('schedule_lag_seconds').map((lag) => Math.round((lag ?? 0) / 100))).toEqual([2, 5])
  })

  test('count all connections at most once a minute', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    outdate()
    const before = (await scrape()).get(working) ?? 0
    await connect()
    vi.advanceTimersByTime(59_999)
    expect((await scrape()).get(working)).toBe(before)
    vi.advanceTimersByTime(2)
    expect((await scrape()).get(working)).toBe(before + 1)
    await backend.database.delete(connections)
  })

  test('tell the smallest share of a budget that an account has left of this day', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const share = async () => {
      outdate()
      return (await scrape()).get('dealbell_crm_budget_left_ratio{crm="pipedrive"}')
    }
    expect(await share()).toBeUndefined()
    const today = sql`(now() at time zone 'utc')::date`
    const account = (accountId: string, spent: number, more = {}) => ({
      ...{ crm: 'pipedrive' as const, accountId, day: today, spent, most: 30_000, ...more },
    })
    const add = async (row: ReturnType<typeof account>) => {
      await backend.database.insert(crmBudgets).values(row)
      return await share()
    }
    expect(await add(account('former day', 30_000, { day: sql`${today} - 1` }))).toBe(1)
    expect(await add(account('own count', 15_000))).toBe(0.5)
    expect(await add(account('others spend', 3_000, { remaining: 6_000 }))).toBe(0.2)
    expect(await add(account('more than all', 30_001))).toBe(0)
    await backend.database.delete(crmBudgets)
  })
})

describe('a load balancer that asks /ready', () => {
  shareBackend('PGlite', { working: false })
  const never = new Promise<never>(() => {})

  /** What a server whose parts are in this state answers, and whether its metrics say that the database is up. */
  async function ask({ answers = true, turnedMsAgo = 0, isStopping = false, session = '' } = {}) {
    const turnedAt = performance.now() - turnedMsAgo
    const database = answers ? backend.database : { execute: () => never }
    const watch = createWatch({
      // It is only asked for statements.
      database: database as typeof backend.database,
      hasRoom: () => true,
      providers: backend.providers,
      pool: undefined,
      turnedAt: () => turnedAt,
      log: backend.log,
    })
    if (isStopping) watch.stopping()
    if (session !== '') await backend.database.execute(session)
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const asking = watchRoutes({ watch, metricsToken: undefined, ...local }).request('/ready')
    const scraping = watch.metrics()
    if (!answers) await vi.advanceTimersByTimeAsync(3_000)
    vi.useRealTimers()
    const answer = await asking
    const up = /^dealbell_database_up (.)$/m.exec(await scraping)?.[1]
    await backend.database.execute('reset all')
    return [answer.status, await answer.text(), up].join(' ')
  }

  const readOnly = 'set default_transaction_read_only = on'
  test.each([
    [{ turnedMsAgo: 20_000 }, '200 {"status":"ready"} 1'],
    [{ turnedMsAgo: 30_000 }, '503 {"status":"not ready","failing":["relay"]} 1'],
    [{ answers: false }, '503 {"status":"not ready","failing":["database"]} 0'],
    // As on a standby.
    [{ session: readOnly }, '503 {"status":"not ready","failing":["database"]} 0'],
    [{ isStopping: true }, '503 {"status":"not ready","failing":["stopping"]} 1'],
  ])('of a server in the state %j hears %s', async (state, expected) => {
    expect(await ask(state)).toBe(expected)
  })
})

describe('the metrics are for', () => {
  shareBackend('PGlite', { working: false })
  const token = metricsToken
  const without = { metricsToken: undefined }
  const elsewhere = { remoteAddress: '203.0.113.9' }

  type From = { host?: string; remoteAddress?: string } & Partial<Parameters<typeof watchRoutes>[0]>
  const ask = async (headers: Record<string, string>, from: From) => {
    const { host = '127.0.0.1:3000', remoteAddress = '127.0.0.1', ...settings } = from
    const watch = { ...backend.watch, metrics: async () => 'figures' }
    const app = watchRoutes({ watch, metricsToken, ...local, ...settings })
    const env = { incoming: { rawHeaders: [], socket: { remoteAddress } } }
    return await app.request(`http://${host}/metrics`, { headers }, env)
  }
  const proxied = { 'X-Forwarded-For': '203.0.113.9' }
  const bearer = (text: string) => ({ Authorization: `Bearer ${text}` })

  test.each([
    ['a program on this machine, where no token is set', {}, without],
    ['a proxy that has the token', { ...proxied, ...bearer(token) }, {}],
    ['another machine that has it', bearer(token), { ...elsewhere, host: 'bell.example' }],
  ])('%s', async (_, headers, from) => {
    expect(await (await ask(headers, from)).text()).toBe('figures')
  })

  test.each([
    ['a proxy', proxied, without],
    // It may be a proxy that adds no header.
    ['this machine at a public address', {}, { appUrl: 'https://bell.example', ...without }],
    ['this machine, where a token is set', {}, {}],
    ['the beginning of it', { ...proxied, ...bearer(token.slice(0, -1)) }, {}],
    ['the word undefined, where no token is set', { ...proxied, ...bearer('undefined') }, without],
  ])('not for %s', async (_, headers, from) => {
    const answer = await ask(headers, from)
    expect(answer.status).toBe(404)
    expect(await answer.text()).not.toContain('figures')
  })
})
