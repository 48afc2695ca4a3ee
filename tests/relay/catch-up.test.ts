import { randomBytes } from 'node:crypto'
import { eq, gt, sql } from 'drizzle-orm'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { crmAccounts, dealEvents, deliveries, users } from '../../server/database/schema.ts'
import { databaseKinds } from '../database.ts'
import { stageChange } from './hubspot-webhook.ts'
import {
  ago,
  backend,
  channel,
  connect,
  connectedSince,
  hour,
  minute,
  moved,
  open,
  outside,
  portal,
  range,
  searchedUntil,
  second,
  shareBackend,
  soon,
  startSearch,
  team,
} from './shared.ts'

const key = randomBytes(32)

describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind, { working: false, key })
  // Both databases get the same statements. What is not about them is tested on one.
  const describeOnce = describe.runIf(kind === 'PGlite')

  let running: Array<{ stop(): Promise<void> }> = []
  afterEach(async () => {
    await Promise.all(running.map((each) => each.stop()))
    running = []
    outside.hubspotAheadMs = 0
    outside.mostFound = 10_000
    await open.database.execute(sql`truncate users, deal_events, crm_accounts, channels cascade`)
  })

  function search(times?: Parameters<typeof startSearch>[0]) {
    const started = startSearch(times)
    running.push(started)
    return started
  }

  /** A user who has been connected for four days. The account was searched at `searchedMs`. */
  async function connectUser(searchedMs = ago(2 * hour)): Promise<string> {
    const userId = await connect()
    await connectedSince(userId, ago(96 * hour))
    await searchedUntil(searchedMs)
    return userId
  }

  const move = (deal: number, ...stages: Array<[stage: string, atMs: number]>) =>
    moved(deal, stages)

  const account = async () => {
    const own = eq(crmAccounts.accountId, String(portal))
    const [row] = await backend.database.select().from(crmAccounts).where(own)
    if (row === undefined) throw new Error('There is no account.')
    return row
  }

  /** Resolves when a search that began after this call is complete. */
  async function searched(began = Date.now() + outside.hubspotAheadMs): Promise<void> {
    await vi.waitFor(async () => {
      if ((await account()).searchedUntil.getTime() >= began) return
      // If a search that began before is still under way, the next one follows it.
      await backend.database
        .update(crmAccounts)
        .set({ searchAt: sql`now()` })
        .where(gt(crmAccounts.searchAt, new Date(Date.now() + hour / 2)))
      throw new Error('No search is complete.')
    }, soon)
  }

  const stored = async () =>
    (await backend.database.select().from(dealEvents).orderBy(dealEvents.id)).map(
      ({ dealId, value, foundBy }) => `${dealId} ${value} ${foundBy}`,
    )

  test('a young change is left to its webhook, and nobody gets a change from before the connection', async () => {
    await connectUser()
    const newcomer = await connect()
    // Was connected for long, but to another account.
    const mover = await connect({ portal: 999 })
    await connectedSince(mover, ago(96 * hour))
    await backend.connectAgain(mover, { portal, team, channel })
    move(1, ['next', ago(minute)])
    move(2, ['next', ago(5 * minute)])
    search()
    await searched()
    expect(await stored()).toEqual(['2 next search'])
    expect(await backend.outcomes(newcomer)).toEqual([])
    expect(await backend.outcomes(mover)).toEqual([])
    expect(await backend.database.$count(deliveries)).toBe(1)
  })

  describeOnce('whatever the database,', () => {
    test('a start searches all accounts two minutes later if the service was away, and none earlier after a restart', async () => {
      await connectUser()
      const inAnHour = new Date(Date.now() + hour)
      const { database } = backend
      /** In how many minutes the account is searched if a process starts, and the last search ended then. */
      async function searchedIn(lastMs: number): Promise<number> {
        await database.update(crmAccounts).set({ searchAt: inAnHour, searchedAt: new Date(lastMs) })
        // The start adds this account before it brings searches forward.
        const added = await backend.connect({ portal: 998, team, channel })
        const catchUp = search()
        await vi.waitFor(async () => {
          expect(await database.$count(crmAccounts)).toBe(2)
        }, soon)
        await catchUp.stop()
        const { searchAt } = await account()
        await database.delete(users).where(eq(users.id, added))
        await database.delete(crmAccounts).where(eq(crmAccounts.accountId, '998'))
        return Math.round((searchAt.getTime() - Date.now()) / minute)
      }
      expect(await searchedIn(ago(3 * minute))).toBe(2)
      expect(await searchedIn(ago(30 * second))).toBe(60)
      // Another process has stored a webhook.
      await backend.tell([stageChange(1, { portal, at: ago(minute) })])
      expect(await searchedIn(ago(3 * minute))).toBe(60)
    })

    test('only the last three days count, and no more than the ticked rules need is read', async () => {
      const userId = await connectUser(ago(90 * hour))
      move(1, ['next', ago(73 * hour)])
      move(2, ['next', ago(71 * hour)])
      await backend.tick(userId)
      const catchUp = search()
      // Without an answer of HubSpot, a search counts only until an hour ago: our clock may be ahead.
      await searched(ago(hour))
      expect((await account()).searchedUntil.getTime()).toBeLessThanOrEqual(Date.now() - hour)
      expect(outside.reads).toEqual([])
      await catchUp.stop()

      await backend.tick(userId, 'deal-closed')
      await searchedUntil(ago(90 * hour))
      search()
      await searched()
      expect(await stored()).toEqual(['2 next search'])
    })

    test('a search in many pages finds everything, also after it failed in the middle', async () => {
      await connectUser(ago(4 * hour))
      // Two pages, then more deals with the same time than a page has.
      for (let deal = 1; deal <= 250; deal++)
        move(deal, ['next', ago(3 * hour - deal * 5 * second)])
      const together = ago(2 * hour)
      for (let deal = 251; deal <= 500; deal++) move(deal, ['next', together])
      // These changed early and once more late, so the first page does not have them.
      move(501, ['next', ago(3 * hour)], ['w1', ago(hour)])
      move(502, ['next', ago(hour)])
      outside.missing.add('502')
      outside.mostFound = 400
      let failing = true
      let searches = 0
      outside.answerRead = (path) => {
        if (!path.endsWith('/search')) return undefined
        searches++
        return failing && searches > 1 ? { status: 500 } : undefined
      }

      const before = await account()
      const catchUp = search()
      await vi.waitFor(() => {
        expect(backend.lines.join()).toContain('search for missed changes failed')
      }, soon)
      // What it has read counts only once it is complete.
      expect((await account()).searchedUntil).toEqual(before.searchedUntil)
      expect((await stored()).length).toBeGreaterThan(0)
      // Another process goes on.
      await catchUp.stop()
      failing = false
      search()
      await searched()
      const expected = range(1, 501).map((deal) => `${deal} next search`)
      expect((await stored()).toSorted()).toEqual([...expected, '501 w1 search'].toSorted())
    })
  })
})
