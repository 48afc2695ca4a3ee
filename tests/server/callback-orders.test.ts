import { sql } from 'drizzle-orm'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { rowsOf } from '../../server/database/open.ts'
import { databaseKinds } from '../database.ts'
import { shareBackend } from '../relay/shared.ts'
import { newSeed } from '../seed.ts'
import { allOrders, fixedOrders, playAll } from './callback-model.ts'
import { type Browser, type Harness, openBrowser, openHarness } from './harness.ts'

describe.each(databaseKinds)(
  'on %s, a callback is completed only for the session and the person that began it',
  (kind) => {
    shareBackend(kind, { working: false })

    test(`whatever steps come before, during and after it (${kind === 'PGlite' ? 'fixed' : 'new'} orders)`, async () => {
      const newOrders = () =>
        fc.sample(fc.constantFrom(...allOrders), { seed: newSeed(1), numRuns: 60 })
      await playAll(kind === 'PGlite' ? fixedOrders : newOrders())
    }, 300_000)
  },
)

// PGlite has one connection, so nothing happens at once there.
describe.runIf(databaseKinds.includes('PostgreSQL'))(
  'while a callback stores its connection',
  () => {
    let harness: Harness
    beforeAll(async () => {
      harness = await openHarness('PostgreSQL')
      // A new connection waits until nobody holds the lock 1.
      await harness.database.execute(sql`
        create function wait() returns trigger language plpgsql as
        $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$`)
      await harness.database.execute(
        sql`create trigger wait before insert on connections for each row execute function wait()`,
      )
    })
    afterAll(() => harness.close())

    /** Runs `change` while a callback of Slack in `own` has stored everything and has not committed. */
    async function during(change: (own: Browser, other: Browser) => Promise<Response>) {
      const [own, other] = [openBrowser(harness), openBrowser(harness)]
      for (const browser of [own, other]) await browser.connect('hubspot')
      await own.connected('hubspot')
      const way = await own.authorize('slack')
      const answers = await harness.database.transaction(async (tx) => {
        const waiting = sql`select 1 from pg_stat_activity
                            where datname = current_database() and wait_event_type = 'Lock'`
        const areWaiting = (count: number) =>
          vi.waitFor(
            async () => expect(await rowsOf(harness.database, waiting)).toHaveLength(count),
            10_000,
          )
        await tx.execute(sql`select pg_advisory_xact_lock(1)`)
        const callback = own.call(`/api/slack/callback?${way}`)
        await areWaiting(1)
        const changed = change(own, other)
        await areWaiting(2)
        return [callback, changed] as const
      })
      const [callback, changed] = await Promise.all(answers)
      return { own, callback: callback.status, status: changed.status }
    }

    test('a sign-out in another tab waits for it, and then ends the session', async () => {
      const { own, ...statuses } = await during((own) =>
        own.call('/api/session', { method: 'DELETE' }),
      )
      expect(statuses).toEqual({ callback: 204, status: 204 })
      expect(await own.connected('slack')).toEqual({ connected: false })
    })
  },
)
