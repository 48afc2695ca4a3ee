import { monitorEventLoopDelay } from 'node:perf_hooks'
import { eq } from 'drizzle-orm'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { connections, crmAccounts, dealEvents } from '../../server/database/schema.ts'
import { createInbox } from '../../server/relay/receive/inbox.ts'
import { createCatchUp } from '../../server/relay/search/schedule.ts'
import { createPreview } from '../../server/relay/show/preview.ts'
import { openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'

// A deal may have been changed thousands of times, for example by a script. That must not hold up others.

const portal = 7
const hour = 60 * 60_000
const long = 10_000
const soon = { timeout: 110_000, interval: 50 }
/** The promise is 50 ms. A busy machine adds to it. A scan for each change takes more than ten seconds. */
const mostBlockedMs = 3_000

let open: OpenDatabase
let outside: Outside
let backend: Backend
beforeEach(async () => {
  open = await openTestDatabase('PGlite')
  outside = await openOutside()
})
afterEach(async () => {
  await backend.stop()
  await open.close()
  await outside.close()
})

const log = () => undefined

/**
 * Gives the deal a history in HubSpot: it changes between two stages every `everyMs`, and the last change was an
 * hour ago.
 */
function toggle(deal: number, { changes = long, everyMs = 1_000 } = {}): number[] {
  const endMs = Math.floor(Date.now() / 1_000) * 1_000 - hour
  const times = Array.from({ length: changes }, (_, n) => endMs - (changes - 1 - n) * everyMs)
  const history = times.map((at, n) => ({
    value: n % 2 ? 'w1' : 'next',
    timestamp: new Date(at).toISOString(),
  }))
  outside.deals.set(String(deal), { history: history.reverse() })
  return times
}

/** The longest time for which nothing else could run during this work. */
async function longestBlock(work: () => Promise<unknown>): Promise<number> {
  const delays = monitorEventLoopDelay({ resolution: 5 })
  delays.enable()
  await work()
  delays.disable()
  return delays.max / 1e6
}

test('a preview counts deals with long histories, and other work goes on', async () => {
  backend = await startBackend(open, outside, { working: false })
  const userId = await backend.connect({ portal, channel: 'C1' })
  for (const deal of [1, 2, 3, 4, 5]) toggle(deal)
  const preview = createPreview({ ...backend, log })
  const blockedMs = await longestBlock(() =>
    vi.waitFor(async () => {
      // The first change of each deal created it.
      const rules = { 'deal-stage-changed': 5 * long, 'deal-closed': (5 * long) / 2 }
      expect(await preview(userId, 7)).toMatchObject({ complete: true, rules })
    }, soon),
  )
  expect(blockedMs).toBeLessThan(mostBlockedMs)
}, 120_000)

test('messages about a deal with a long history say the former stage, and other work goes on', async () => {
  backend = await startBackend(open, outside)
  await backend.connect({ portal, channel: 'C1', ruleIds: ['deal-closed'] })
  const times = toggle(1)
  const told = [1, long / 2 + 1, long - 1].map((n) =>
    stageChange(1, { portal, stage: 'w1', at: times[n] ?? 0 }),
  )
  const blockedMs = await longestBlock(async () => {
    expect(await backend.tell(told)).toBe(204)
    await backend.settled()
  })
  expect(outside.posts.length).toBeGreaterThan(0)
  for (const { blocks } of outside.posts) expect(blocks).toContain('Proposal sent → ')
  expect(blockedMs).toBeLessThan(mostBlockedMs)
}, 120_000)

test.each([
  ['within three days', 24_000],
  ['within ten seconds', 1],
])(
  'a search finds many changes of one deal %s once, and other work goes on',
  async (_, everyMs) => {
    backend = await startBackend(open, outside, { working: false })
    const userId = await backend.connect({ portal, channel: 'C1' })
    const ago = new Date(Date.now() - 80 * hour)
    await backend.database
      .update(connections)
      .set({ connectedSince: ago })
      .where(eq(connections.userId, userId))
    const account = { crm: 'hubspot', accountId: String(portal) } as const
    await backend.database
      .insert(crmAccounts)
      .values({ ...account, searchedUntil: ago, searchAt: new Date(0) })
    toggle(1, { everyMs })
    const inbox = createInbox(backend.database, backend.providers, () => undefined)
    const times = {
      ...{ pollMs: 20, pauseMs: 0, everyMs: hour, soonMs: 0, soonAgainMs: 0 },
      ...{ retryMs: 5, afterErrorMs: 20 },
    }

    async function search() {
      await backend.database.update(crmAccounts).set({ searchedUntil: ago, searchAt: new Date(0) })
      const catchUp = createCatchUp({ ...backend, inbox, log }, times)
      catchUp.start()
      await vi.waitFor(async () => {
        const [row] = await backend.database.select().from(crmAccounts)
        expect(row?.searchedUntil.getTime()).toBeGreaterThan(ago.getTime())
      }, soon)
      await catchUp.stop()
    }
    expect(await longestBlock(search)).toBeLessThan(mostBlockedMs)
    const stored = await backend.database.$count(dealEvents)
    expect(stored).toBe(long)
    // All are known now.
    expect(await longestBlock(search)).toBeLessThan(mostBlockedMs)
    expect(await backend.database.$count(dealEvents)).toBe(stored)
  },
  180_000,
)

test('a deal with too large a history is left out, and those read with it are not', async () => {
  backend = await startBackend(open, outside, { working: false })
  const userId = await backend.connect({ portal, channel: 'C1' })
  for (const deal of [1, 2, 3, 4]) toggle(deal, { changes: 4 })
  toggle(5, { changes: 60_000 })
  for (const deal of [6, 7]) toggle(deal, { changes: 4 })
  const preview = createPreview({ ...backend, log })
  await vi.waitFor(async () => {
    const rules = { 'deal-stage-changed': 6 * 3, 'deal-closed': 6 * 2 }
    expect(await preview(userId, 7)).toMatchObject({ complete: true, rules })
  }, soon)
}, 120_000)
