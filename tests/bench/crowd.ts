import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { sql } from 'drizzle-orm'
import type { Database } from '../../server/database/open.ts'
import { sha256 } from '../../server/people/cookies.ts'
import { appUrl, dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { startPostgres } from '../relay/postgres.ts'
import { metricsToken, startServer } from '../relay/process.ts'
import { onNewDatabase, openTarget, seedUsers, type Target } from './seed.ts'

// Measures what a crowd costs the others: a message beside channels that wait, a webhook beside a user whose rules skip
// very much, and the disconnect of a user for whom very much waits. tests/simulation/crowd.ts holds the same in virtual
// time. `--database` measures one database, `--rows` how much waits.

const { values } = parseArgs({
  options: {
    database: { type: 'string' },
    rows: { type: 'string', default: '200000' },
  },
})
const kinds = values.database ? [values.database] : ['PostgreSQL', 'PGlite']
const rows = Number(values.rows)
const healthy = 20
const team = 'crowd'

const postgres = await startPostgres()
for (const kind of kinds) {
  for (const channels of [10, 10_000])
    await onNewDatabase(kind, postgres.url, (target) => waiting(kind, target, channels))
  await onNewDatabase(kind, postgres.url, (target) => skipped(kind, target))
  await onNewDatabase(kind, postgres.url, (target) => disconnected(kind, target))
}
await postgres.stop()

/** Messages beside channels whose first delivery waits for minutes. */
async function waiting(kind: string, target: Target, channels: number): Promise<void> {
  await seed(target, async (database) => {
    const id = sql`('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid`
    const all = sql`generate_series(1, ${channels}::int) as n`
    await database.execute(
      sql`insert into users (id, crm, crm_account_id, crm_user_id) select ${id}, 'hubspot', 'c' || n, '1' from ${all}`,
    )
    await addDeliveries(
      database,
      sql`select n, ${id} as user_id, ${team} || n || '/C' as channel from ${all}`,
      true,
    )
  })
  await withServer(target, async ({ server, latencies }) => {
    // At first, the relay looks at each of them once.
    const { messages: first } = await latencies(server, 5_000)
    console.log(kind, `a message while ${channels} channels are looked at:`, shown(first))
    const isDue = async () => {
      const metrics = await (
        await fetch(`${server.url}/metrics`, {
          headers: { Authorization: `Bearer ${metricsToken}` },
        })
      ).text()
      return /^dealbell_channels_due\{.*\} [1-9]/m.test(metrics)
    }
    while (await isDue()) await delay(500)
    const { messages } = await latencies(server, 10_000)
    console.log(kind, `a message beside ${channels} channels that wait:`, shown(messages))
  })
}

/** Webhooks and messages beside a user whose rules need none of very many changes. */
async function skipped(kind: string, target: Target): Promise<void> {
  await seed(target, async (database) => {
    const [user] = await ownerOf(database)
    await database.execute(
      sql`update rules set rule_ids = '["deal-closed"]' where user_id = ${user}`,
    )
    await addDeliveries(
      database,
      sql`select n, ${user}::uuid as user_id, 'T1/C1' as channel from generate_series(1, ${rows}::int) as n`,
      false,
    )
  })
  await withServer(target, async ({ server, latencies }) => {
    const { webhooks, messages } = await latencies(server, 15_000)
    console.log(kind, `a webhook beside ${rows} that a user's rules skip:`, shown(webhooks))
    console.log(kind, `a message beside ${rows} that a user's rules skip:`, shown(messages))
  })
}

/** The disconnect of a user for whom very much waits. */
async function disconnected(kind: string, target: Target): Promise<void> {
  await seed(target, async (database) => {
    const [user] = await ownerOf(database)
    await database.execute(sql`insert into sessions (token_hash, user_id, created_at, expires_at)
      values (${sha256('crowd')}, ${user}, now(), now() + interval '1 day')`)
    await addDeliveries(
      database,
      sql`select n, ${user}::uuid as user_id, 'T1/C1' as channel from generate_series(1, ${rows}::int) as n`,
      true,
    )
  })
  await withServer(target, async ({ server, latencies }) => {
    await delay(3_000)
    const others = latencies(server, 15_000)
    const begun = performance.now()
    const answer = await fetch(`${server.url}/api/hubspot/disconnect`, {
      method: 'DELETE',
      headers: { Cookie: '__Host-dealbell=crowd', Origin: appUrl, 'Sec-Fetch-Site': 'same-origin' },
    })
    const tookMs = Math.round(performance.now() - begun)
    console.log(kind, `a disconnect with ${rows} that wait: ${tookMs} ms, ${answer.status}`)
    const { webhooks, messages } = await others
    console.log(kind, 'a webhook beside it:', shown(webhooks), ' a message:', shown(messages))
  })
}

/** The user of the account 1. */
async function ownerOf(database: Database): Promise<[string]> {
  const { rows: found } = (await database.execute(
    sql`select id from users where crm_account_id = '1'`,
  )) as unknown as { rows: Array<{ id: string }> }
  return [found[0]?.id ?? '']
}

async function addDeliveries(database: Database, each: ReturnType<typeof sql>, isPutOff: boolean) {
  await database.execute(sql`with one as (${each}), change as (
      insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
      select 'crowd ' || n, 'hubspot', '1', 1000000 + n, 'stage', 'next', now() - interval '5 minutes'
      from one returning id, key, occurred_at
    )
    insert into deliveries (event_id, user_id, channel, occurred_at, attempts, not_before)
    select change.id, user_id, channel, occurred_at, ${isPutOff ? 3 : 0}::int,
           case when ${isPutOff} then now() + interval '14 minutes' end
    from change join one on key = 'crowd ' || n order by change.id`)
  await database.execute(
    sql`insert into channels (id, due_at) select distinct channel, now() from deliveries where state = 'pending'`,
  )
  await database.execute(sql`analyze`)
}

async function seed(target: Target, add: (database: Database) => Promise<void>): Promise<void> {
  // The statements of the set-up have no limit of time.
  const open = await openTarget(target, { statementMs: 0 })
  await seedUsers(open.database, healthy)
  await add(open.database)
  await open.close()
}

async function withServer(
  database: Target,
  measure: (stage: {
    server: Awaited<ReturnType<typeof startServer>>
    latencies: (
      server: Awaited<ReturnType<typeof startServer>>,
      forMs: number,
    ) => Promise<{ webhooks: number[]; messages: number[] }>
  }) => Promise<void>,
): Promise<void> {
  const outside = await openOutside()
  let lastDeal = 0
  const server = await startServer({ outside, database })
  try {
    await measure({
      server,
      /** Tells of one change every 100 ms, of the accounts from 2 on in turn. */
      async latencies(some, forMs) {
        const told = new Map<number, number>()
        const webhooks: number[] = []
        const telling: Array<Promise<void>> = []
        const until = performance.now() + forMs
        while (performance.now() < until) {
          const deal = ++lastDeal
          const begun = performance.now()
          told.set(deal, begun)
          const portal = 2 + (deal % (healthy - 1))
          telling.push(
            some.tell([stageChange(deal, { portal })]).then(() => {
              webhooks.push(performance.now() - begun)
            }),
          )
          await delay(100)
        }
        await Promise.all(telling)
        const end = performance.now() + 30_000
        const isTold = () =>
          outside.posts.flatMap(dealsIn).filter((deal) => told.has(deal)).length >= told.size
        while (!isTold() && performance.now() < end) await delay(100)
        const at = new Map(
          outside.posts.flatMap((post) => dealsIn(post).map((deal) => [deal, post.atMs])),
        )
        const messages = [...told].map(
          ([deal, begun]) => (at.get(deal) ?? Number.POSITIVE_INFINITY) - begun,
        )
        return { webhooks, messages }
      },
    })
  } finally {
    await server.kill()
    await outside.close()
  }
}

function shown(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b)
  const at = (part: number) => Math.round(sorted[Math.ceil(sorted.length * part) - 1] ?? 0)
  return `${at(0.5)} ms, the longest ${at(1)} ms`
}
