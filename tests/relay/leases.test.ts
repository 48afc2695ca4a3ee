import { randomBytes, randomUUID } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { channels, deliveries } from '../../server/database/schema.ts'
import { nextDelivery } from '../../server/relay/pick/next.ts'
import { leaseDue, releaseLeases, renewLeases } from '../../server/relay/schedule/leases.ts'
import { pauseWorkspace } from '../../server/relay/schedule/pauses.ts'
import { moveToChannel } from '../../server/relay/send/record.ts'
import { databaseKinds, openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { intercepted } from './intercepted.ts'
import { type Outside, openOutside } from './outside.ts'

// Each process is a backend of its own, on one database.
describe.each(databaseKinds)('on %s', (kind) => {
  let open: OpenDatabase
  let outside: Outside
  let processes: Backend[]
  let portal = 2000
  let channel = ''
  const key = randomBytes(32)

  beforeAll(async () => {
    open = await openTestDatabase(kind)
    outside = await openOutside()
  })
  beforeEach(() => {
    processes = []
    portal += 1
    channel = `C${portal}`
  })
  afterEach(async () => {
    outside.answerPost = () => undefined
    outside.answerRead = () => undefined
    await Promise.all(processes.map((each) => each.stop()))
  })
  afterAll(async () => {
    await open.close()
    await outside.close()
  })

  async function startProcess(database: OpenDatabase = open): Promise<Backend> {
    const started = await startBackend(database, outside, { alone: false, key })
    processes.push(started)
    return started
  }

  async function leaseEnd(id: string): Promise<number> {
    const [row] = await open.database.select().from(channels).where(eq(channels.id, id))
    return row?.leasedUntil?.getTime() ?? 0
  }

  /** Time passes on the clock of the processes. */
  function passHere(seconds: number): void {
    const before = performance.now.bind(performance)
    vi.spyOn(performance, 'now').mockImplementation(() => before() + seconds * 1000)
  }

  /** Time passes, for the database and for all processes. */
  async function pass(seconds: number): Promise<void> {
    passHere(seconds)
    const interval = sql`make_interval(secs => ${seconds})`
    await open.database.execute(
      sql`update channels set leased_until = leased_until - ${interval}, next_at = next_at - ${interval}`,
    )
    await open.database.execute(
      sql`update deliveries set sending_until = sending_until - ${interval}`,
    )
  }

  async function deliveryOf(userId: string) {
    const [row] = await open.database.select().from(deliveries).where(eq(deliveries.userId, userId))
    if (row === undefined) throw new Error('There is no delivery.')
    return row
  }

  const calls = () => outside.calls.filter((call) => call.channel === channel)

  test('a process renews no lease that it does not know of', async () => {
    const [busy, lost] = [channel, `${channel}-lost`]
    const accept = Promise.withResolvers<undefined>()
    outside.answerPost = (call) => (call.channel === busy ? accept.promise : undefined)
    let losesLease = false
    const own = intercepted(open, async (statement) => {
      if (!losesLease || !statement.includes('for update skip locked')) return
      if ((await leaseEnd(`T1/${lost}`)) === 0) return
      losesLease = false
      throw new Error('The answer was lost.')
    })
    const process = await startProcess(own)
    await process.connect({ portal, channel: busy })
    await process.connect({ portal: portal + 500_000, channel: lost })
    await process.tell([stageChange(1, { portal })])
    await vi.waitFor(
      () => expect(outside.calls.some((call) => call.channel === busy)).toBe(true),
      5_000,
    )
    losesLease = true
    await process.tell([stageChange(2, { portal: portal + 500_000 })])
    await vi.waitFor(() => expect(losesLease).toBe(false), 5_000)

    const [busyUntil, lostUntil] = await Promise.all([busy, lost].map((id) => leaseEnd(`T1/${id}`)))
    await vi.waitFor(
      async () => expect(await leaseEnd(`T1/${busy}`)).toBeGreaterThan(busyUntil ?? 0),
      5_000,
    )
    expect(await leaseEnd(`T1/${lost}`)).toBe(lostUntil)
    // So the lease ends, and the channel is leased again.
    await open.database.execute(
      sql`update channels set leased_until = now() where id = ${`T1/${lost}`}`,
    )
    await outside.accepted((posts) => posts.some((post) => post.channel === lost))
    accept.resolve(undefined)
    await process.settled()
    expect(outside.posts.map(dealIn).toSorted()).toEqual([1, 2])
  })

  test('a process whose lease has ended does not begin a second time with the same channel', async () => {
    const accept = Promise.withResolvers<undefined>()
    outside.answerPost = (call) => (call.channel === channel ? accept.promise : undefined)
    let leases = 0
    const own = intercepted(open, (statement) => {
      if (statement.includes('for update skip locked')) leases++
    })
    const process = await startProcess(own)
    for (const each of [portal, portal + 500_000]) await process.connect({ portal: each, channel })
    await process.tell([stageChange(1, { portal })])
    await vi.waitFor(() => expect(calls()).toHaveLength(1), 5_000)
    await open.database.execute(
      sql`update channels set leased_until = now() - interval '1 second', next_at = now()
          where id = ${`T1/${channel}`}`,
    )
    await process.tell([stageChange(2, { portal: portal + 500_000 })])
    const leasesBefore = leases
    await vi.waitFor(() => expect(leases).toBeGreaterThan(leasesBefore + 5), 5_000)
    expect(calls().map(dealIn)).toEqual([1])
    accept.resolve(undefined)
    await process.settled()
    expect(calls().map(dealIn)).toEqual([1, 2])
  })

  test('a process that stalls before it posts does not send what another process has sent', async () => {
    const stall = Promise.withResolvers<void>()
    const claimed = Promise.withResolvers<void>()
    let isStalled = false
    const own = intercepted(open, async (statement) => {
      if (statement.includes('claimed_until')) {
        isStalled = true
        claimed.resolve()
      }
      if (isStalled) await stall.promise
    })
    const stalled = await startProcess(own)
    const userId = await stalled.connect({ portal, channel })
    await stalled.tell([stageChange(1, { portal })])
    await claimed.promise
    await pass(25)
    const other = await startProcess()
    await other.settled()
    expect(calls()).toHaveLength(1)
    stall.resolve()
    await stalled.stop()
    expect(calls()).toHaveLength(1)
    expect(await other.outcomes(userId)).toEqual([['sent', null]])
  })

  test('a process that takes too long to post gives its claim back, and the try does not count', async () => {
    let claims = 0
    const own = intercepted(open, (statement) => {
      if (statement.includes('claimed_until') && ++claims === 1) passHere(10)
    })
    const process = await startProcess(own)
    const userId = await process.connect({ portal, channel })
    await process.tell([stageChange(1, { portal })])
    await process.settled(5_000)
    expect([claims, calls().length]).toEqual([2, 1])
    expect(await deliveryOf(userId)).toMatchObject({ state: 'sent', attempts: 1, reason: null })
  })

  test.each([
    ['ends', { status: 404, body: { status: 'error', category: 'OBJECT_NOT_FOUND' } }],
    ['puts off', { status: 502 }],
    ['puts off at the wish of HubSpot', { status: 429, headers: { 'Retry-After': '1' } }],
  ])('a process that lost its lease %s nothing that another one is posting', async (_, answer) => {
    const [read, post] = [
      Promise.withResolvers<typeof answer>(),
      Promise.withResolvers<undefined>(),
    ]
    let reads = 0
    outside.answerRead = (path) =>
      path.includes('0-3/1?') && ++reads === 1 ? read.promise : undefined
    outside.answerPost = (call) => (call.channel === channel ? post.promise : undefined)
    const slow = await startProcess()
    const userId = await slow.connect({ portal, channel })
    await slow.tell([stageChange(1, { portal })])
    await vi.waitFor(() => expect(reads).toBe(1), 5_000)
    await pass(25)
    const other = await startProcess()
    await vi.waitFor(() => expect(calls()).toHaveLength(1), 5_000)
    const before = await deliveryOf(userId)
    read.resolve(answer)
    await slow.stop()
    expect(await deliveryOf(userId)).toEqual(before)
    post.resolve(undefined)
    await other.settled()
    expect(await other.outcomes(userId)).toEqual([['sent', null]])
    expect(calls()).toHaveLength(1)
  })

  test('a process that lost its lease moves nothing to another channel', async () => {
    const process = await startBackend(open, outside, { alone: false, key, working: false })
    const userId = await process.connect({ portal, channel })
    await process.tell([stageChange(1, { portal })])
    const [owner, other] = [randomUUID(), randomUUID()]
    await leaseDue(open.database, owner, 1, [])
    const next = await nextDelivery(open.database, process.providers, `T1/${channel}`)
    if (next.kind !== 'delivery') throw new Error('There is no delivery.')
    const move = () => moveToChannel(open.database, owner, next.delivery, `T1/${channel}-new`)
    await pass(25)
    await leaseDue(open.database, other, 1, [])
    expect(await move()).toBe(false)
    expect(await deliveryOf(userId)).toMatchObject({ channel: `T1/${channel}` })
    await pass(25)
    await leaseDue(open.database, owner, 1, [])
    expect(await move()).toBe(true)
    expect(await deliveryOf(userId)).toMatchObject({ channel: `T1/${channel}-new` })
    await process.disconnect(userId, 'slack')
  })

  // PGlite has one connection, so nothing waits for a lock there.
  test.runIf(kind === 'PostgreSQL')(
    'webhooks, renewals and releases of a hundred channels never wait for each other in a circle',
    async () => {
      const process = await startBackend(open, outside, { alone: false, key, working: false })
      const portals = Array.from({ length: 100 }, (_, n) => 10_000 + n)
      const held = portals.map((each) => `T1/C${each}`)
      for (const each of portals) await process.connect({ portal: each, channel: `C${each}` })
      // The rows are stored in the order opposite to that of their ids.
      await open.database.execute(
        sql`insert into channels (id)
            select unnest(${sql.param(held)}::text[]) as id order by id desc`,
      )
      const owner = randomUUID()
      const releases = held.map((id) => ({ channel: id, againMs: 0 }))
      const refusals: string[] = []
      const at = (round: number) => Date.now() - (60 - round) * 10 * 60_000
      for (let round = 0; round < 60; round++) {
        await leaseDue(open.database, owner, held.length, [])
        // Half of the deals have a change that a search found. Their webhooks take another way.
        await open.database.execute(
          sql`update deal_events set found_by = 'search' where account_id::int % 2 = 0`,
        )
        const [answer, ...others] = await Promise.allSettled([
          process.tell(portals.map((each) => stageChange(1, { portal: each, at: at(round) }))),
          renewLeases(open.database, owner, held),
          renewLeases(open.database, owner, held.toReversed()),
          releaseLeases(open.database, owner, releases),
          open.database.execute(pauseWorkspace(held[0] ?? '', 1)),
        ])
        expect(answer).toEqual({ status: 'fulfilled', value: 204 })
        for (const other of others) {
          if (other.status === 'rejected') refusals.push(String(other.reason.cause))
        }
      }
      expect(refusals).toEqual([])
    },
  )
})
