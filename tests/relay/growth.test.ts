import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { expect, test, vi } from 'vitest'
import { countActivity } from '../../server/activity/find.ts'
import { readActivity } from '../../server/activity/list.ts'
import { readBroken } from '../../server/activity/retry-all.ts'
import { readSummary } from '../../server/activity/summary.ts'
import { forgetDealsOfDisconnected } from '../../server/clean/deal-names.ts'
import { deleteOld } from '../../server/clean/deliveries.ts'
import { deleteUnused } from '../../server/clean/people.ts'
import { type Database, rowsOf } from '../../server/database/open.ts'
import { logTo } from '../../server/log.ts'
import { checkKeys, checkSharedKey, sealWithNewestKey } from '../../server/people/keys.ts'
import { forgetStandIns } from '../../server/people/stand-ins.ts'
import { createVault } from '../../server/people/vault.ts'
import { createProviders } from '../../server/providers/create.ts'
import { type Group, isOfDeal } from '../../server/relay/pick/delivery.ts'
import { nextPage } from '../../server/relay/pick/following.ts'
import { nextDelivery } from '../../server/relay/pick/next.ts'
import { createInbox } from '../../server/relay/receive/inbox.ts'
import { leaseDue, releaseLeases, renewLeases } from '../../server/relay/schedule/channels.ts'
import { pauseAccount } from '../../server/relay/schedule/pauses.ts'
import { accountsAtOnce, createCatchUp } from '../../server/relay/search/schedule.ts'
import { claim } from '../../server/relay/send/claim.ts'
import { endWaiting, lookAtWaiting } from '../../server/relay/send/disconnect.ts'
import * as record from '../../server/relay/send/record.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { readStored, readTotals } from '../../server/watch/stored.ts'
import { openTestDatabase } from '../database.ts'

const pace = { channelMs: 1_000, perSecond: 5, burst: 20 }

// How the cost of each statement grows with what is stored. The server's own functions run on a database that records
// their statements. PostgreSQL then explains these, in a transaction that is rolled back. Pages that a statement reads
// do not depend on what else the machine does.

interface Statement {
  text: string
  params: unknown[]
}

/** What a statement costs, the sum of all its executions in one call of the function. */
interface Cost {
  of: string
  text: string
  /** That it returned. */
  rows: number
  pages: number
}

/** Parts of the statements that may grow, each with what it grows with. */
const mayGrow = [
  'case when sent > 0', // messages of the days
  'array(select distinct reason', // failed messages, up to 2,000
  'count(*)::int as looked', // messages, up to 1,000 of each state
  'update "connections" set "connected_since"', // connections, each hour
  'insert into crm_accounts', // connections, each hour
  'max(searched_at)', // accounts, at a start
  'delete from "channels"', // channels, each day
  'delete from "crm_accounts"', // accounts, each day
  'with recursive head', // the users whose messages wait in a channel
  'as "oldestSearchS"', // connections and accounts, each minute
  // Waiting messages, up to 10,000: an index has them all, but what was changed since the last vacuum is read in the table.
  'as "oldestPendingS"',
]
/** What comes so seldom that it may read all users, connections, channels or accounts. */
const seldom = ['start', 'clean-up, people', 'clean-up, names']

const processId = idOf(0)
const vault = createVault([randomBytes(32)])
const log = logTo(() => {})
const addresses = parseEnv({
  HUBSPOT_CLIENT_ID: 'id',
  HUBSPOT_CLIENT_SECRET: 'secret',
  SLACK_CLIENT_ID: 'id',
  SLACK_CLIENT_SECRET: 'secret',
}).addressesAt(1)
const providers = createProviders(addresses.providers)

/** The id of the nth user. */
function idOf(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}

/**
 * Stores `size` users, each with an account, a workspace, a channel that is due and a message. User 1 has `size` messages
 * of 30 days. As many wait in the channel of user 2, whose workspace has `size` channels. Of a hundredth of the users, each has
 * one that waits in the channel of user 3. The number of rows that the functions change does not depend on the size.
 */
async function seed(database: Database, size: number): Promise<void> {
  const id = sql`('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid`
  const all = sql`generate_series(1, ${size}::int) as n`
  const sealed = vault.seal('{}', '')
  await database.execute(sql`insert into users (id, crm, crm_account_id, crm_user_id)
    select ${id}, 'hubspot', n::text, '1' from ${all}`)
  await database.execute(sql`insert into connections
      (user_id, provider, secrets, account_id, grant_id, channel_id, connected_at, connected_since)
    select ${id}, provider, ${sealed}, account, account, channel, now(), now() - interval '40 days' from ${all}
    cross join lateral (values ('hubspot', n::text, null), ('slack', 'T' || n, 'C' || n))
      as each(provider, account, channel)`)
  await database.execute(sql`insert into sessions (token_hash, user_id, created_at, expires_at)
    select md5(n::text), ${id}, now(), now() + interval '100 days' from ${all}`)
  await database.execute(sql`insert into crm_accounts (crm, account_id, searched_until, search_at)
    select 'hubspot', n::text, now(), now() - make_interval(secs => n) from ${all}`)
  await database.execute(sql`insert into channels (id, due_at, leased_by, leased_until)
    select 'T' || n || '/C' || n, case when n > 20 then now() - make_interval(secs => n) end,
           case when n <= 20 then ${processId}::uuid end,
           case when n <= 20 then now() + interval '10 seconds' end
    from ${all}`)
  await database.execute(sql`insert into channels (id) select 'T2/' || n from ${all}`)
  const store = async (of: string, values: ReturnType<typeof sql>) => {
    await database.execute(sql`with made as (
        select n, user_n, channel_n, state, at, gen_random_uuid()::text as key from ${values}
      ), events as (
        insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at, received_at)
        select key, 'hubspot', user_n::text, ${of} || n, 'stage', 'next', at, at from made order by n
        returning id, key
      )
      insert into deliveries (event_id, user_id, channel, state, occurred_at, reason, finished_at, not_before,
        rule_id, deal_name)
      select events.id, ('00000000-0000-4000-8000-' || lpad(user_n::text, 12, '0'))::uuid,
             'T' || channel_n || '/C' || channel_n, state, at, case state when 'dead' then 'is_archived' end,
             case when state <> 'pending' then at end,
             case ${of} when 'waits' then now() + interval '10 minutes' end,
             case when state in ('sent', 'dead') then 'deal-closed' end, 'Renewal ' || n
      from made join events using (key) order by n`)
  }
  const inDays = (days: number) =>
    sql`now() - make_interval(secs => ${days * 86_400} * n::float8 / ${size})`
  await store(
    'history',
    sql`(select n, 1 as user_n, 1 as channel_n, (array['sent', 'sent', 'dead', 'ignored'])[1 + n % 4] as state,
                ${inDays(29)} as at from ${all}) as one`,
  )
  const later = sql`'pending' as state, now() - interval '1 hour' + make_interval(secs => n::float8 / 100) as at`
  await store('backlog', sql`(select n, 2 as user_n, 2 as channel_n, ${later} from ${all}) as one`)
  await store(
    'waits',
    sql`(select n, 10 + n as user_n, 3 as channel_n, ${later} from generate_series(1, ${size / 100}::int) as n) as one`,
  )
  await store(
    'own',
    sql`(select n, n as user_n, n as channel_n, 'sent' as state, ${inDays(20)} as at from ${all} where n > 10) as one`,
  )
  const few = sql`generate_series(1, 50) as n`
  await store('few', sql`(select n, 1 as user_n, 1 as channel_n, ${later} from ${few}) as one`)
  await store(
    'old',
    sql`(select n, 4 as user_n, 4 as channel_n, 'sent' as state, now() - interval '31 days' as at from ${few}) as one`,
  )
  // While autovacuum analyzes a table of this database, a vacuum finds none of these rows visible to all. PostgreSQL then takes
  // other plans.
  await vi.waitFor(async () => {
    await database.execute(sql`vacuum analyze`)
    const unseen = sql`select relname from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and relallvisible < relpages`
    expect(await rowsOf(database, unseen)).toEqual([])
  })
}

/** The functions, each with what it is called with. */
async function callsOf(
  database: Database,
): Promise<Record<string, (tx: Database, recorded: readonly Statement[]) => Promise<unknown>>> {
  const next = async (channel: string) => {
    const found = await nextDelivery(database, channel)
    if (found.kind !== 'delivery' || !isOfDeal(found.delivery)) throw new Error(found.kind)
    return found.delivery
  }
  const first = await next('T2/C2')
  const { crm, chat } = first
  if (crm === null || chat === null) throw new Error('The user has connected nothing.')
  const group: Group = [first]
  const change = (n: number) => ({
    accountId: '7',
    dealId: String(n),
    key: `new ${n}`,
    property: 'stage' as const,
    value: 'next',
    occurredAt: new Date(Date.now() - n * 60_000),
  })
  const ten = Array.from({ length: 10 }, (_, n) => change(n))
  const held = Array.from({ length: 10 }, (_, n) => `T${n + 1}/C${n + 1}`)
  const user = idOf(1)
  const none = { state: undefined, q: undefined, rule: undefined, day: undefined }
  const list = (tx: Database, filter: object, before?: { at: string; id: string }) =>
    readActivity({ database: tx, providers }, user, {
      limit: 25,
      before,
      filter: { ...none, ...filter },
    })
  const days = Array.from({ length: 14 }, (_, n) => ({
    date: '',
    start: new Date(Date.now() - (14 - n) * 86_400_000),
  }))
  const inbox = (tx: Database) => createInbox(tx, () => {})
  return {
    webhook: (tx) => inbox(tx).store('hubspot', ten),
    lease: (tx) => leaseDue(tx, idOf(9), { all: 10, failing: 10, last: 3 }, held),
    'renewal of leases': (tx) => renewLeases(tx, processId, held),
    'release of leases': (tx) =>
      releaseLeases(
        tx,
        processId,
        held.map((channel) => ({ channel })),
      ),
    pick: (tx) => nextDelivery(tx, 'T2/C2'),
    'pick behind others': (tx) => nextDelivery(tx, 'T3/C3'),
    'pick for a digest': (tx) => nextPage(tx, first, undefined),
    claim: (tx) => claim(tx, processId, group, [crm, chat], pace),
    'record sent': (tx) => record.recordSent(tx, group, pace),
    'record what is said': (tx) => record.endSaid(tx, group, true),
    'record an end': (tx) =>
      record.recordEnd(tx, processId, group, { state: 'dead', reason: 'x', countTry: true }),
    'record a pause': async (tx) => {
      await pauseAccount(tx, first.channel, 9_000)
      await record.recordPutOff(tx, processId, group, { afterMs: 0, reason: 'rate_limited' })
    },
    'record a backlog': (tx) => record.endBacklog(tx, processId, first, crm),
    'record a move': (tx) => record.moveToChannel(tx, processId, first, 'T2/new'),
    disconnect: async (tx) => {
      await endWaiting(tx, user)
      await lookAtWaiting(tx, user)
    },
    list: (tx) => list(tx, {}),
    'list, failed': (tx) => list(tx, { state: 'failed' }),
    'list, searched': (tx) => list(tx, { q: 'nothing' }),
    'list, counted': (tx) => countActivity(tx, user, none),
    summary: (tx) => readSummary(tx, user, days),
    'summary of failures': (tx) => readBroken({ database: tx, providers }, user),
    'search, found': (tx) => inbox(tx).storeFound('hubspot', ten, 0),
    'search, schedule': searchFirst,
    start: async (tx) => {
      const keys = await checkKeys(tx, vault)
      await checkSharedKey(tx, vault)
      await sealWithNewestKey(tx, vault, keys)
      await forgetStandIns(tx, addresses.providers, log)
    },
    'clean-up, people': (tx) => deleteUnused(tx, new Date()),
    'clean-up, deliveries': (tx) => deleteOld(tx),
    'clean-up, names': (tx) => forgetDealsOfDisconnected(tx),
    metrics: (tx) => readStored(tx),
    'metrics, totals': (tx) => readTotals(tx),
  }
}

/** The first search of each account that is searched at once. No rule needs one, so they make no call. */
async function searchFirst(tx: Database, recorded: readonly Statement[]): Promise<void> {
  const never = { pollMs: 1e9, pauseMs: 1e9, everyMs: 3_600_000, retryMs: 1, afterErrorMs: 1 }
  const inbox = createInbox(tx, () => {})
  const search = createCatchUp({ database: tx, vault, providers, inbox, log }, never)
  search.start()
  // All of them: how many have ended at a moment is chance.
  const ended = () => recorded.filter(({ text }) => text.includes('searched_at = now()'))
  while (ended().length < accountsAtOnce) await delay(5)
  await search.stop()
}

/**
 * The user 2 disconnects, for whom `size` messages wait, and the relay ends them all.
 * @returns the pages that are read for each of them, in all batches.
 */
async function pagesOfDisconnect(database: Database, size: number): Promise<number> {
  const pages = async () => {
    await database.execute(sql`select pg_stat_force_next_flush()`)
    const [row] = await rowsOf<{ pages: number }>(
      database,
      sql`select pg_stat_get_db_blocks_fetched(oid)::int as pages from pg_database where datname = current_database()`,
    )
    return row?.pages ?? 0
  }
  const next = await nextDelivery(database, 'T2/C2')
  if (next.kind !== 'delivery') throw new Error(next.kind)
  const before = await pages()
  await endWaiting(database, idOf(2))
  await lookAtWaiting(database, idOf(2))
  let ended = 0
  for (let batch: number | undefined = 1; batch; ended += batch ?? 0) {
    batch = await record.endBacklog(database, processId, next.delivery, 'disconnected')
  }
  expect(ended).toBe(size)
  return ((await pages()) - before) / size
}

/** Stores `size` users in an empty database, and measures each statement of the functions. */
async function costsAt(size: number): Promise<{ costs: Cost[]; pagesOfEach: number }> {
  const { database: stored, close } = await openTestDatabase('PostgreSQL')
  const recorded: Statement[] = []
  const database: Database = drizzle(Reflect.get(stored, '$client'), {
    logger: {
      logQuery(text, params) {
        if (/^\s*(select|insert|update|delete|with)/i.test(text)) recorded.push({ text, params })
      },
    },
  })
  await seed(stored, size)
  const costs: Cost[] = []
  for (const [of, call] of Object.entries(await callsOf(stored))) {
    recorded.length = 0
    await undone(database, (tx) => call(tx, recorded))
    const statements = [...recorded]
    await undone(stored, async (tx) => {
      for (const { text, params } of statements) {
        const { rows, pages } = await explained(tx, text, params)
        const known = costs.find((cost) => cost.of === of && cost.text === text)
        const cost = known ?? { of, text, rows: 0, pages: 0 }
        if (known === undefined) costs.push(cost)
        cost.rows += rows
        cost.pages += pages
      }
    })
  }
  const pagesOfEach = await pagesOfDisconnect(stored, size)
  await close()
  return { costs, pagesOfEach }
}

async function undone(database: Database, work: (tx: Database) => Promise<unknown>): Promise<void> {
  const undo = new Error('undo')
  await database
    .transaction(async (tx) => {
      await work(tx)
      throw undo
    })
    .catch((error: unknown) => {
      if (error !== undo) throw error
    })
}

interface Plan {
  'Actual Rows': number
  'Shared Hit Blocks': number
  'Shared Read Blocks': number
  Plans?: Plan[]
}

/** Executes a statement, and returns what it cost. */
async function explained(tx: Database, text: string, params: unknown[]) {
  // Drizzle sends a text with its parameters as they are.
  const parts = text
    .split(/\$(\d+)/)
    .map((part, n) => (n % 2 ? sql`${sql.param(params[Number(part) - 1])}` : sql.raw(part)))
  const [row] = await rowsOf(tx, sql`explain (analyze, buffers, format json) ${sql.join(parts)}`)
  const [{ Plan: plan }] = Object(row)['QUERY PLAN']
  return { rows: plan['Actual Rows'], pages: pagesOf(plan) }
}

/** What changes rows beside a query may go on after it. Then its pages are not among those of the query. */
function pagesOf(plan: Plan): number {
  const own = plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
  return Math.max(own, ...[(plan.Plans ?? []).reduce((sum, each) => sum + pagesOf(each), 0)])
}

test('what a statement reads does not grow with what is stored', async () => {
  const [few, many] = [await costsAt(1_500), await costsAt(15_000)]
  const small = few.costs
  const growing = many.costs.flatMap((large) => {
    const { of, text, rows, pages } = large
    const none = { rows: 0, pages: 0 }
    const before = small.find((cost) => cost.of === of && cost.text === text) ?? none
    // A row of the answer may take some pages: of a small table, they are read as a whole. An index becomes deeper.
    const most = Math.max(2 * before.pages, before.pages + 10, 5 * rows)
    const isFlat = pages <= most && rows <= 2 * before.rows
    const mayBe = seldom.includes(of) || mayGrow.some((part) => text.includes(part))
    return isFlat || mayBe ? [] : { before, large }
  })
  expect(growing).toEqual([])
  expect(many.pagesOfEach).toBeLessThan(2 * few.pagesOfEach)
}, 900_000)
