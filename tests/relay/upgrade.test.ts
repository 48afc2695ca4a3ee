import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newPostgresDatabase } from '../database.ts'
import { versionBefore } from '../former-release.ts'
import { stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { connectAccount, type ServerProcess, startServer } from './process.ts'

/**
 * `UPGRADE_DELIVERIES=5000000` takes ten minutes, and then a webhook may not wait for two seconds by the clock, either: that
 * needs a quiet machine.
 */
const deliveries = Number(process.env.UPGRADE_DELIVERIES ?? 200_000)
const portals = 20
const webhooksPerSecond = 100
const longestWaitMs = 2_000

vi.setConfig({ testTimeout: 3_600_000 })

/** Messages of the last four weeks: most are sent, and some wait in a channel that Slack has paused. */
const seed = `
  insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
    select 'seed ' || n, 'hubspot', n % ${portals}, n / ${portals}, 'dealstage', 'next', now() - interval '28 days' * n / ${deliveries}
    from generate_series(1, ${deliveries}) as n;
  insert into deliveries (event_id, user_id, channel, state, occurred_at, finished_at, rule_id)
    select event.id, user_id, 'T/C', case when event.id % 50 = 0 then 'ignored' else 'sent' end, occurred_at, occurred_at, 'deal-stage-changed'
    from deal_events as event join connections on provider = crm and connections.account_id = event.account_id;
  analyze`

/** How long those who read and write rows wait for a lock of a table now. */
const lockWaits = `select coalesce(max(extract(epoch from clock_timestamp() - waitstart) * 1000), 0)::float8 as ms
  from pg_locks where not granted and locktype = 'relation' and mode in ('AccessShareLock', 'RowExclusiveLock')
    and database = (select oid from pg_database where datname = current_database())`

const unfinished = `select name from unnest($1::text[]) as name
  where not exists (select from pg_index where indexrelid = to_regclass(name) and indisvalid)`

test.each([
  ['0018', ['channels_due_first', 'deliveries_next', 'deliveries_oldest']],
  ['0015', ['deal_events_same', 'deliveries_claimed', 'deliveries_next', 'deliveries_oldest']],
])(
  'during an upgrade from the version before migration %s, no webhook fails or waits for long',
  async (migration, indexes) => {
    const version = await versionBefore(migration)
    if (version === undefined) return
    const outside = await openOutside()
    const database = { url: await newPostgresDatabase() }
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    const former = await startServer({ outside, database, version })
    const servers: ServerProcess[] = [former]
    onTestFinished(async () => {
      await Promise.all(servers.map((each) => each.kill()))
      await client.end()
      await outside.close()
    })
    for (let portal = 0; portal < portals; portal++) {
      await connectAccount(former, { portal, channel: `C${portal}` })
    }
    await client.query(seed)

    const waitsMs: number[] = []
    const told: Array<Promise<void>> = []
    const statuses = new Set<number | undefined>()
    const webhook = async (deal: number) => {
      const server = servers[deal % servers.length] ?? former
      const beganMs = performance.now()
      statuses.add(await server.tell([stageChange(deal, { portal: deal % portals })]))
      waitsMs.push(performance.now() - beganMs)
    }
    const telling = setInterval(
      () => told.push(webhook(1_000_000 + told.length)),
      1_000 / webhooksPerSecond,
    )
    onTestFinished(() => clearInterval(telling))
    // As it was before.
    await delay(2_000)
    const before = Math.max(...waitsMs)
    const beganMs = performance.now()
    let longestLockMs = 0
    const looking = setInterval(async () => {
      const { rows } = await client.query(lockWaits)
      longestLockMs = Math.max(longestLockMs, rows[0].ms)
    }, 50)
    onTestFinished(() => clearInterval(looking))
    servers.push(await startServer({ outside, database }))
    const listenedMs = performance.now()
    await vi.waitFor(
      async () => expect((await client.query(unfinished, [indexes])).rows).toEqual([]),
      { timeout: 3_000_000, interval: 200 },
    )
    const builtMs = performance.now()
    clearInterval(telling)
    clearInterval(looking)
    await Promise.all(told)

    const sorted = waitsMs.toSorted((a, b) => a - b)
    const shown = {
      webhooks: told.length,
      longestBeforeMs: before,
      medianMs: sorted[Math.floor(sorted.length / 2)],
      longestMs: sorted.at(-1),
      longestLockMs,
      startMs: listenedMs - beganMs,
      indexesMs: builtMs - listenedMs,
    }
    console.log(`Upgrade from before ${migration} with ${deliveries} deliveries:`, shown)
    expect([...statuses]).toEqual([204])
    expect(longestLockMs).toBeLessThan(longestWaitMs)
    if (process.env.UPGRADE_DELIVERIES) expect(sorted.at(-1)).toBeLessThan(longestWaitMs)
  },
)
