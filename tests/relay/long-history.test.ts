import { monitorEventLoopDelay } from 'node:perf_hooks'
import { afterEach, expect, test, vi } from 'vitest'
import { crmAccounts, dealEvents } from '../../server/database/schema.ts'
import {
  backend,
  connect,
  connectedSince,
  createUserPreview,
  hour,
  outside,
  portal,
  searchedUntil,
  shareBackend,
  startSearch,
} from './shared.ts'

// A deal may have been changed thousands of times, for example by a script. That must not hold up others.
shareBackend('PGlite', { working: false })

const long = 10_000
const soon = { timeout: 110_000, interval: 50 }
/** The promise is 50 ms. A busy machine adds to it. A scan for each change takes more than ten seconds. */
const mostBlockedMs = 3_000

/**
 * Gives the deal a history in HubSpot: it changes between two stages every `everyMs`, and the last change was an
 * hour ago.
 */
function toggle(deal: number, { changes = long, everyMs = 1_000 } = {}): void {
  const endMs = Math.floor(Date.now() / 1_000) * 1_000 - hour
  const times = Array.from({ length: changes }, (_, n) => endMs - (changes - 1 - n) * everyMs)
  const history = times.map((at, n) => ({
    value: n % 2 ? 'w1' : 'next',
    timestamp: new Date(at).toISOString(),
  }))
  outside.deals.set(String(deal), { history: history.reverse() })
}

const delays = monitorEventLoopDelay({ resolution: 5 })
afterEach(() => delays.disable())

/** Fails if nothing else could run for long during this work. */
async function expectToLetOthersRun(work: () => Promise<unknown>): Promise<void> {
  delays.reset()
  delays.enable()
  await work()
  expect(delays.max / 1e6).toBeLessThan(mostBlockedMs)
}

async function expectPreview(userId: string, counts: { moved: number; closed: number }) {
  const preview = createUserPreview(backend)
  const rules = { 'deal-stage-changed': counts.moved, 'deal-closed': counts.closed }
  await vi.waitFor(async () => {
    expect(await preview(userId)).toMatchObject({ complete: true, rules })
  }, soon)
}

test('a preview counts deals with long histories, and other work goes on', async () => {
  const userId = await connect()
  for (const deal of [1, 2]) toggle(deal)
  await expectToLetOthersRun(() =>
    // The first change of each deal created it.
    expectPreview(userId, { moved: 2 * long, closed: long }),
  )
}, 120_000)

test('a deal with too large a history is left out, and those read with it are not', async () => {
  const userId = await connect()
  for (const deal of [1, 2, 3, 4, 6, 7]) toggle(deal, { changes: 4 })
  toggle(5, { changes: 60_000 })
  await expectPreview(userId, { moved: 6 * 3, closed: 6 * 2 })
}, 120_000)

test('a search finds many changes of one deal within ten seconds once, and other work goes on', async () => {
  const since = Date.now() - 80 * hour
  await connectedSince(await connect(), since)
  toggle(1, { everyMs: 1 })
  const stored = await backend.database.$count(dealEvents)

  async function search() {
    await searchedUntil(since)
    const search = startSearch()
    await vi.waitFor(async () => {
      const accounts = await backend.database.select().from(crmAccounts)
      const own = accounts.find(({ accountId }) => accountId === String(portal))
      expect(own?.searchedUntil.getTime()).toBeGreaterThan(since)
    }, soon)
    await search.stop()
  }
  await expectToLetOthersRun(search)
  expect(await backend.database.$count(dealEvents)).toBe(stored + long)
  // All are known now.
  await expectToLetOthersRun(search)
  expect(await backend.database.$count(dealEvents)).toBe(stored + long)
}, 180_000)
