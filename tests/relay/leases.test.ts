import { randomBytes, randomUUID } from 'node:crypto'
import { eq, sql } from 'drizzle-orm'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { deliveries } from '../../server/database/schema.ts'
import {
  leaseDue,
  pauseWorkspace,
  releaseLeases,
  renewLeases,
} from '../../server/relay/schedule/channels.ts'
import { databaseKinds } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { intercepted } from './intercepted.ts'
import {
  answerPosts,
  backend,
  calls,
  connect,
  open,
  outside,
  portal,
  posts,
  shareBackend,
  tell,
} from './shared.ts'

const key = randomBytes(32)

// Each process is a backend of its own, on one database. The shared one only takes what HubSpot tells.
describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind, { working: false, key })

  let processes: Backend[] = []
  afterEach(async () => {
    await Promise.all(processes.map((each) => each.stop()))
    processes = []
  })

  async function startProcess(database: OpenDatabase = open): Promise<Backend> {
    const started = await startBackend(database, outside, { alone: false, key })
    processes.push(started)
    return started
  }

  /** Time passes, for the database and for all processes. */
  async function pass(seconds: number): Promise<void> {
    const before = performance.now.bind(performance)
    vi.spyOn(performance, 'now').mockImplementation(() => before() + seconds * 1000)
    const interval = sql`make_interval(secs => ${seconds})`
    await open.database.execute(
      sql`update channels set leased_until = leased_until - ${interval}, next_at = next_at - ${interval}`,
    )
    await open.database.execute(
      sql`update deliveries set sending_until = sending_until - ${interval}`,
    )
  }

  test('a process that stalls before it posts does not send what another process has sent', async () => {
    const stall = Promise.withResolvers<void>()
    const claimed = Promise.withResolvers<void>()
    let isStalled = false
    const stalled = await startProcess(
      intercepted(open, async (statement) => {
        if (statement.includes('claimed_until')) {
          isStalled = true
          claimed.resolve()
        }
        if (isStalled) await stall.promise
      }),
    )
    const userId = await connect()
    await tell([1])
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

  test.each([
    ['ends', { status: 404, body: { status: 'error', category: 'OBJECT_NOT_FOUND' } }],
    ['puts off', { status: 502 }],
    ['puts off at the wish of HubSpot', { status: 429, headers: { 'Retry-After': '1' } }],
  ])('a process that lost its lease %s nothing that another one is posting', async (_, answer) => {
    const read = Promise.withResolvers<typeof answer>()
    const post = Promise.withResolvers<undefined>()
    let reads = 0
    outside.answerRead = (path) =>
      path.includes('0-3/1?') && ++reads === 1 ? read.promise : undefined
    answerPosts(() => post.promise)
    const slow = await startProcess()
    const userId = await connect()
    await tell([1])
    await vi.waitFor(() => expect(reads).toBe(1), 5_000)
    await pass(25)
    const other = await startProcess()
    await vi.waitFor(() => expect(calls()).toHaveLength(1), 5_000)
    const stored = async () =>
      await open.database.select().from(deliveries).where(eq(deliveries.userId, userId))
    const before = await stored()
    read.resolve(answer)
    await slow.stop()
    expect(await stored()).toEqual(before)
    post.resolve(undefined)
    await other.settled()
    expect(await other.outcomes(userId)).toEqual([['sent', null]])
    expect(calls()).toHaveLength(1)
  })

  test('two processes that need an access token at once refresh it once', async () => {
    const refresh = Promise.withResolvers<undefined>()
    outside.answerRefresh = () => refresh.promise
    const process = await startProcess()
    const userId = await connect({ accessEndsInMs: 0 })
    await tell([1])
    const refreshes = () => outside.refreshes.filter((token) => token.endsWith(`-${portal}`))
    await vi.waitFor(() => expect(refreshes()).toHaveLength(1), 5_000)
    const preview = async () =>
      await (await backend.call(userId, '/api/notifications/preview')).json()
    // A process that did not wait for the other would refresh before this answer.
    expect(await preview()).toMatchObject({ complete: false })
    refresh.resolve(undefined)
    await process.settled()
    expect(posts()).toHaveLength(1)
    await vi.waitFor(async () => expect(await preview()).toMatchObject({ complete: true }), 5_000)
    expect(refreshes()).toHaveLength(1)
  })

  // PGlite has one connection, so nothing waits for a lock there.
  test.runIf(kind === 'PostgreSQL')(
    'webhooks, renewals and releases of a hundred channels never wait for each other in a circle',
    async () => {
      const portals = Array.from({ length: 100 }, (_, n) => 10_000 + n)
      const held = portals.map((each) => `T1/C${each}`)
      for (const each of portals) {
        await connect({ portal: each, team: 'T1', channel: `C${each}` })
      }
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
          backend.tell(portals.map((each) => stageChange(1, { portal: each, at: at(round) }))),
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
