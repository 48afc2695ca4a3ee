import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newPostgresDatabase } from '../database.ts'
import { droppedIndex, nextIndexes, nextServer } from '../next-release.ts'
import { dealsIn, stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { connectAccount, drained, type ServerProcess, startServer } from './process.ts'

/** `UPGRADE_DELIVERIES=1000000` also limits how long each webhook waits. That needs a quiet machine. */
const deliveries = Number(process.env.UPGRADE_DELIVERIES ?? 200_000)
const portals = 20
const webhooksPerSecond = 100
const longestWaitMs = 2_000

vi.setConfig({ testTimeout: 3_600_000 })

/** Messages of the last four weeks. Most are sent. */
const seed = `
  insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
    select 'seed ' || n, 'hubspot', n % ${portals}, n / ${portals}, 'dealstage', 'next', now() - interval '28 days' * n / ${deliveries}
    from generate_series(1, ${deliveries}) as n;
  insert into deliveries (event_id, user_id, channel, state, occurred_at, finished_at, rule_id)
    select event.id, user_id, 'T/C', case when event.id % 50 = 0 then 'ignored' else 'sent' end, occurred_at, occurred_at, 'deal-stage-changed'
    from deal_events as event join connections on provider = crm and connections.account_id = event.account_id;
  analyze`

/** How long those who read and write rows wait for a lock of a table or of a row now. */
const lockWaits = `select coalesce(max(extract(epoch from clock_timestamp() - waitstart) * 1000), 0)::float8 as ms
  from pg_locks join pg_stat_activity using (pid)
  where not granted and datname = current_database() and (locktype in ('transactionid', 'tuple')
    or locktype = 'relation' and mode in ('AccessShareLock', 'RowExclusiveLock'))`

/** Built, and the one that they replace is dropped. */
const isBuilt = `select to_regclass('${droppedIndex}') is null and not exists (
  select from unnest($1::text[]) as name
  where not exists (select from pg_index where indexrelid = to_regclass(name) and indisvalid)) as yes`

test('a rolling upgrade and a step back: no webhook fails or waits for long, no message is lost or doubled', async () => {
  const outside = await openOutside()
  const database = { url: await newPostgresDatabase() }
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  const start = (version = '') => startServer({ outside, database, version })
  const servers: ServerProcess[] = [await start()]
  onTestFinished(async () => {
    await Promise.all(servers.map((each) => each.kill()))
    await client.end()
    await outside.close()
  })
  const server = () => servers.at(-1) as ServerProcess
  const people: Array<{ cookie: string }> = []
  const connect = async (to = server()) => {
    const portal = people.length
    people.push(await connectAccount(to, { portal, channel: `C${portal}` }))
  }
  while (people.length < portals) await connect()
  await client.query(seed)

  const waitsMs: number[] = []
  const told: Array<Promise<void>> = []
  const statuses = new Set<number | undefined>()
  const webhook = async (deal: number) => {
    const one = servers[deal % servers.length] ?? server()
    const beganMs = performance.now()
    statuses.add(await one.tell([stageChange(deal, { portal: deal % people.length })]))
    waitsMs.push(performance.now() - beganMs)
  }
  const tell = () => told.push(webhook(1_000_000 + told.length))
  const telling = setInterval(tell, 1_000 / webhooksPerSecond)
  onTestFinished(() => clearInterval(telling))
  await vi.waitFor(() => expect(told.length).toBeGreaterThan(200), { timeout: 60_000 })
  const before = Math.max(...waitsMs)
  const beganMs = performance.now()
  let longestLockMs = 0
  const looking = setInterval(async () => {
    const { rows } = await client.query(lockWaits)
    longestLockMs = Math.max(longestLockMs, rows[0].ms)
  }, 50)
  onTestFinished(() => clearInterval(looking))
  servers.push(await start(await nextServer()))
  const listenedMs = performance.now()
  for (const each of servers) await connect(each)
  for (const { cookie } of people) {
    for (const { url } of servers) {
      const answer = await fetch(`${url}/api/notifications/rules`, { headers: { Cookie: cookie } })
      expect(await answer.json()).toEqual({ rules: ['deal-stage-changed'] })
    }
  }
  await vi.waitFor(
    async () => expect((await client.query(isBuilt, [nextIndexes])).rows[0].yes).toBe(true),
    { timeout: 3_000_000, interval: 200 },
  )
  const builtMs = performance.now()
  clearInterval(telling)
  clearInterval(looking)
  await Promise.all(told)

  const sorted = waitsMs.toSorted((a, b) => a - b)
  console.log(`Upgrade with ${deliveries} deliveries:`, {
    webhooks: told.length,
    longestBeforeMs: before,
    medianMs: sorted[Math.floor(sorted.length / 2)],
    longestMs: sorted.at(-1),
    longestLockMs,
    startMs: listenedMs - beganMs,
    indexesMs: builtMs - listenedMs,
  })
  const { rows } = await client.query(
    `select count(*)::int as changed from deliveries where made_up = 'former'`,
  )
  expect(rows[0].changed).toBeGreaterThanOrEqual(deliveries)
  expect([...statuses]).toEqual([204])
  expect(longestLockMs).toBeLessThan(longestWaitMs)
  if (process.env.UPGRADE_DELIVERIES) expect(sorted.at(-1)).toBeLessThan(longestWaitMs)

  // The former release works alone again.
  const [former, next] = servers.splice(0)
  await former?.stop()
  await next?.stop()
  servers.push(await start())
  await connect()
  for (let n = 0; n < people.length; n++) tell()
  await Promise.all(told)
  expect([...statuses]).toEqual([204])
  await drained(server(), 120_000)
  expect(outside.posts.flatMap(dealsIn).toSorted((a, b) => a - b)).toEqual(
    told.map((_, n) => 1_000_000 + n),
  )
  for (const each of [former, next, server()]) expect(each?.output.join('\n')).not.toMatch(/failed/)
})
