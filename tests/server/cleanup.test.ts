import { randomUUID } from 'node:crypto'
import { eq, ne, sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startCleanup } from '../../server/clean/clean.ts'
import { deleteOld } from '../../server/clean/deliveries.ts'
import { deleteUnused } from '../../server/clean/people.ts'
import { batchRows } from '../../server/database/batches.ts'
import { type OpenDatabase, openPostgres, rowsOf } from '../../server/database/open.ts'
import {
  connections,
  crmBudgets,
  dealEvents,
  deliveries,
  rules,
  sessions,
  users,
} from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { databaseKinds, newPostgresDatabase, openTestDatabase } from '../database.ts'
import { openOutside } from '../relay/outside.ts'
import { startServer } from '../relay/process.ts'
import { type Harness, openBrowser, shareHarness, start, storeDeliveries } from './harness.ts'

const dayMs = 24 * 60 * 60 * 1000
const at = (days: number, ms = 0) => new Date(start.getTime() + days * dayMs + ms)
const never = 2 ** 31 - 1

const harness = await shareHarness()

/** A new browser that stores something. @returns its session. */
async function browserWith(what: 'rules' | 'hubspot' | 'slack', now: Date) {
  harness.clock.now = now
  const browser = openBrowser(harness)
  if (what === 'hubspot' || what === 'slack') await browser.connect(what)
  else await browser.keep(['deal-closed'])
  return { tokenHash: browser.tokenHash(), userId: await browser.userId() }
}
const hashes = (rows: ReadonlyArray<{ tokenHash: string }>) =>
  rows.map(({ tokenHash }) => tokenHash).toSorted()
const userIds = (rows: ReadonlyArray<{ userId: string }>) =>
  rows.map(({ userId }) => userId).toSorted()
const sessionsLeft = async () => hashes(await harness.database.select().from(sessions))
const usersLeft = async () =>
  (await harness.database.select().from(users)).map(({ id }) => id).toSorted()

test('the clean-up deletes expired sessions, and users whom no browser can be any more with all that they have', async () => {
  await browserWith('rules', start)
  await browserWith('slack', start)
  // Connecting HubSpot again finds this person.
  const named = await browserWith('hubspot', start)
  const later = await browserWith('rules', at(1))
  // A session ends at its time. This one is over, and the next clean-up deletes it.
  const endingNow = await browserWith('rules', at(0, 1))

  await deleteUnused(harness.database, at(180, 1))
  expect(await sessionsLeft()).toEqual(hashes([later, endingNow]))
  expect(await usersLeft()).toEqual(userIds([named, later, endingNow]))
  const { database } = harness
  expect(userIds(await database.select().from(connections))).toEqual([named.userId])
  expect(userIds(await database.select().from(rules))).toEqual(userIds([later, endingNow]))
})

test('the clean-up deletes a person who has had no session and no connection for a year, but nobody sooner', async () => {
  const { database } = harness
  /** The stand-in knows one person. The next one who signs in is somebody else. */
  const person = async (crmUserId: string) => {
    const { userId } = await browserWith('hubspot', start)
    await database.update(users).set({ crmUserId }).where(eq(users.id, userId))
    return userId
  }
  const left = await person('left')
  const connected = await person('connected')
  const { userId: back } = await browserWith('hubspot', start)
  const disconnect = () => database.delete(connections).where(ne(connections.userId, connected))
  await disconnect()
  /** The clean-up runs now and then. */
  const cleanUntil = async (from: number, until: number) => {
    for (let day = from; day <= until; day += 7) await deleteUnused(database, at(day))
  }
  // All sessions end after 180 days.
  await cleanUntil(0, 544)
  expect(await usersLeft()).toEqual([left, connected, back].toSorted())
  expect((await browserWith('hubspot', at(544))).userId).toBe(back)
  // Signs out before any clean-up.
  await database.delete(sessions)
  await disconnect()
  await cleanUntil(545, 600)
  expect(await usersLeft()).toEqual([connected, back].toSorted())
  await cleanUntil(600, 1_000)
  expect(await usersLeft()).toEqual([connected])
})

/** Expired sessions, each of a user of its own. */
async function storeExpired(database: Harness['database'], count: number): Promise<void> {
  await database.execute(
    sql`with made as (
          insert into users (id) select gen_random_uuid() from generate_series(1, ${count}::int)
          returning id
        )
        insert into sessions (token_hash, user_id, created_at, expires_at)
        select encode(sha256(id::text::bytea), 'hex'), id, '2026-01-01', '2026-07-01' from made`,
  )
}

describe.each(databaseKinds)('on %s', (kind) => {
  let open: OpenDatabase
  beforeAll(async () => {
    open = await openTestDatabase(kind)
  })
  afterAll(() => open.close())

  test('a clean-up of thousands of rows holds up no request', async () => {
    const { database } = open
    const [named, unnamed] = [randomUUID(), randomUUID()]
    const person = { crm: 'hubspot', crmAccountId: '1', crmUserId: '1' } as const
    await database.insert(users).values([{ id: named, ...person }, { id: unnamed }])
    await storeExpired(database, 2_000)
    const now = () => ({ occurredAt: new Date() })
    await storeDeliveries(database, named, 2_000, now)
    await storeDeliveries(database, unnamed, 1_000, now)
    const aMonthAgo = { receivedAt: sql`now() - interval '31 days'` }
    await database.update(dealEvents).set(aMonthAgo).where(sql`id % 2 = 0`)

    const app = harness.appWith({ database })
    const done = new AbortController()
    const cleanup = startCleanup(
      {
        database,
        vacuum: kind === 'PGlite',
        log: logTo((_level, event, fields) => done.abort(JSON.stringify({ event, ...fields }))),
      },
      { firstMs: 0, everyMs: never, afterErrorMs: never },
    )
    onTestFinished(() => cleanup.stop())
    const counts = new Set<number>()
    const events = new Set<number>()
    while (!done.signal.aborted) {
      expect((await app.request('/health')).status).toBe(200)
      counts.add(await database.$count(sessions))
      events.add(await database.$count(dealEvents))
      // Timers and other requests get a turn.
      await new Promise((resolve) => setImmediate(resolve))
    }

    expect(done.signal.reason).toContain('"cleaned up"')
    expect(await database.$count(sessions)).toBe(0)
    expect((await database.select().from(users)).map(({ id }) => id)).toEqual([named])
    // Those of the last 30 days stay.
    expect(await database.$count(deliveries)).toBe(1_000)
    expect(await database.$count(dealEvents)).toBe(1_500)
    // Requests are answered between the batches, so they see how sessions and events become fewer.
    expect(counts.size).toBeGreaterThan(2_000 / batchRows / 2)
    expect(events.size).toBeGreaterThan(3)
  })

  test('deletes what a day has cost only if the day is over and nobody has connected the account', async () => {
    const { database } = open
    const [user] = await database.insert(users).values({}).returning()
    await database.insert(connections).values({
      ...{ userId: user?.id ?? '', provider: 'pipedrive', accountId: 'connected', secrets: '' },
      ...{ grantId: '', connectedAt: new Date() },
    })
    const today = sql`(now() at time zone 'utc')::date`
    const row = (accountId: string, day = sql`${today} - 1`) => ({
      ...{ crm: 'pipedrive' as const, accountId, day, spent: 1 },
    })
    await database.insert(crmBudgets).values([row('connected'), row('left'), row('today', today)])
    await deleteOld(database)
    const left = await database.select().from(crmBudgets)
    expect(left.map(({ accountId }) => accountId).toSorted()).toEqual(['connected', 'today'])
  })

  // Deleting a row looks for rows that refer to it. A partial index does not serve that search.
  test('every foreign key has a full index that begins with its columns', async () => {
    const foreignKeys = sql`select conname as name, conrelid, conkey from pg_constraint
                            where contype = 'f' and connamespace = 'public'::regnamespace`
    const indexed = sql`select from pg_index i
                        where i.indrelid = key.conrelid and i.indisvalid and i.indpred is null
                          and (i.indkey::int2[])[0:cardinality(key.conkey) - 1] = key.conkey`
    expect(await rowsOf(open.database, foreignKeys)).not.toEqual([])
    const slow = sql`select name from (${foreignKeys}) as key where not exists (${indexed})`
    expect(await rowsOf(open.database, slow)).toEqual([])
  })
})

test.runIf(databaseKinds.includes('PostgreSQL'))(
  'a server starts and serves while its clean-up cannot work',
  async () => {
    const url = await newPostgresDatabase()
    const { database, close } = await openPostgres(url, () => undefined)
    const outside = await openOutside()
    // Waiting for the lock takes longer than a start may take, and ends in an error.
    await database.transaction(async (tx) => {
      // A start may take long on a busy machine.
      await tx.execute(sql`set local idle_in_transaction_session_timeout = 0`)
      await tx.execute(sql`lock table users, used_tokens, deliveries in share mode`)
      const server = await startServer({ outside, database: { url } })
      expect((await fetch(`${server.url}/health`)).status).toBe(200)
      await server.stop()
    })
    await outside.close()
    await close()
  },
)
