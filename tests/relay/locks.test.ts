import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  type Database,
  type OpenDatabase,
  openPostgres,
  rowsOf,
} from '../../server/database/open.ts'
import { createWithAccess } from '../../server/people/access-token.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { routeOf } from '../../server/people/routes.ts'
import { createVault } from '../../server/people/vault.ts'
import { nextDelivery } from '../../server/relay/pick/next.ts'
import { createInbox } from '../../server/relay/receive/inbox.ts'
import { leaseDue } from '../../server/relay/schedule/channels.ts'
import { claim } from '../../server/relay/send/claim.ts'
import { moveToChannel, recordSent } from '../../server/relay/send/record.ts'
import { newPostgresDatabase } from '../database.ts'
import { type Account, type Backend, startBackend } from './backend.ts'
import { type Outside, openOutside } from './outside.ts'

// Two sessions of PostgreSQL do things at once, in all orders. The server's own functions run in them. Each session
// stops before each of its statements, and before it changes a channel, so also in the middle of a statement that has
// taken its first locks. A third session lets one of the two go on at a time.

/** What a session stops before. Other statements do not matter. */
const isStep = (text: string) => !/^begin|sessions/.test(text)
/** After so many decisions, the sides take turns: one that polls could go on for ever. */
const mostDecisions = 9
const mostSteps = 80

const [processA, processB] = [randomUUID(), randomUUID()] as const
const key = randomBytes(32)
const quiet = { working: false, key }
const account: Account = { portal: 1, team: 'T1', channel: 'C1' }
const change = { accountId: '1', dealId: '7', property: 'stage', value: 'next' } as const

let open: OpenDatabase
let outside: Outside
let backend: Backend
let sides: readonly [Side, Side]
const ended: Array<() => Promise<unknown>> = []

interface Stopped {
  side: Side
  step: number
}

interface Side {
  name: string
  pid: number
  database: Database
  /** Stops before what is no statement. */
  step: () => Promise<unknown>
}

beforeAll(async () => {
  const url = await newPostgresDatabase()
  open = await openPostgres(url, () => undefined, { poolSize: 1 })
  outside = await openOutside()
  backend = await startBackend(open, outside, quiet)
  await open.database.execute(sql`create function step(side int) returns void language plpgsql as $$
    declare n int := nextval('step_' || side); begin
      perform pg_advisory_lock(side, n);
      perform pg_advisory_unlock(side, n);
    end $$`)
  await open.database.execute(sql`create function step_of_session() returns trigger language plpgsql as $$ begin
      if current_setting('step.side', true) <> '' then perform step(current_setting('step.side')::int); end if;
      return new;
    end $$`)
  await open.database.execute(
    sql`create trigger step before update on channels for each row execute function step_of_session()`,
  )
  sides = [await openSide(url, 1), await openSide(url, 2)]
  ended.push(() => backend.stop(), () => open.close(), () => outside.close())
})
afterAll(async () => {
  for (const end of ended) await end()
})

async function openSide(url: string, side: number): Promise<Side> {
  await open.database.execute(sql.raw(`create sequence step_${side}`))
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  ended.push(() => client.end())
  await client.query(`set step.side = ${side}`)
  const { rows } = await client.query('select pg_backend_pid() as pid')
  const query = client.query.bind(client) as (...parts: unknown[]) => Promise<unknown>
  const step = () => query(`select step(${side})`)
    // Drizzle calls it in one way.
  client.query = async (...parts: unknown[]) => {
    const [asked] = parts
    if (isStep(typeof asked === 'string' ? asked : Object(asked).text)) await step()
    return await query(...parts)
  }
  return { name: 'AB'[side - 1] ?? '', pid: rows[0].pid, database: drizzle(client), step }
}

type Task = (side: Side) => Promise<unknown>

/** Runs two tasks in one order. @returns the decisions, and at which of them the other side could go on, too. */
async function play(order: string, tasks: readonly [Task, Task]) {
  await open.database.execute(sql`select setval('step_1', 1, false), setval('step_2', 1, false)`)
  await open.database.execute(
    sql`select pg_advisory_lock(side, n) from generate_series(1, 2) as side, generate_series(1, ${mostSteps}::int) as n`,
  )
  const done = new Set<number>()
  const running = sides.map((side, at) =>
    (tasks[at] ?? (async () => {}))(side).finally(() => done.add(side.pid)),
  )
  const settled = Promise.allSettled(running)
  let taken = ''
  const forks: number[] = []
  while (done.size < 2) {
    const stopped = await stoppedSides(done)
    const wanted = order[taken.length]
    const isWanted = ({ side }: Stopped) =>
      wanted === undefined ? side.name !== taken.at(-1) : side.name === wanted
    const next = stopped.find(isWanted) ?? stopped[0]
    if (next === undefined) continue
    if (stopped.length === 2 && taken.length < mostDecisions) forks.push(taken.length)
    taken += next.side.name
    await open.database.execute(
      sql`select pg_advisory_unlock(${sides.indexOf(next.side) + 1}::int, ${next.step}::int)`,
    )
  }
  await open.database.execute(sql`select pg_advisory_unlock_all()`)
  for (const each of await settled) if (each.status === 'rejected') throw each.reason
  return { taken, forks }
}

/** The sides that may go on. Undecided as long as one is still under way: it neither stops nor waits for the other. */
async function stoppedSides(done: ReadonlySet<number>): Promise<readonly Stopped[]> {
  const pids = sides.map(({ pid }) => pid)
  const waiting = await rowsOf<{ pid: number; step: number | null }>(
    open.database,
    sql`select pid, case when locktype = 'advisory' and objsubid = 2 then objid::int end as step
        from pg_locks where not granted and pid = any(${sql.param(pids)}::int[])`,
  )
  const stopped = sides.flatMap((side) => {
    const step = waiting.find(({ pid }) => pid === side.pid)?.step ?? null
    return step === null ? [] : [{ side, step }]
  })
  const isUnderWay = pids.some((pid) => !done.has(pid) && !waiting.some((each) => each.pid === pid))
  return isUnderWay ? [] : stopped
}

/** Runs two tasks in all orders. `begin` makes the state in which they begin, and returns them and what must hold. */
async function inAllOrders(
  begin: () => Promise<{ tasks: readonly [Task, Task]; check: () => Promise<void> | void }>,
): Promise<number> {
  const orders = ['']
  const played = new Set<string>()
  for (let order = orders.pop(); order !== undefined; order = orders.pop()) {
    await open.database.execute(sql`truncate users, channels, deal_events, crm_accounts cascade`)
    const { tasks, check } = await begin()
    const { taken, forks } = await play(order, tasks).catch((error) => {
      throw new Error(`In the order ${order}`, { cause: error })
    })
    played.add(taken)
    for (const at of forks.filter((each) => each >= (order ?? '').length)) {
      orders.push(taken.slice(0, at) + (taken[at] === 'A' ? 'B' : 'A'))
    }
    try {
      await check()
    } catch (error) {
      throw new Error(`In the order ${taken}: ${error}`)
    }
  }
  console.log(played.size)
  return played.size
}

/** A user with one message that is about to be sent. Process A holds the lease of the channel. */
async function withMessage() {
  const { database } = open
  const user = await backend.connect(account)
  await createInbox(database, () => {}).store('hubspot', [
    { ...change, key: 'one', occurredAt: new Date() },
  ])
  await database.execute(
    sql`update channels set leased_by = ${processA}, leased_until = now() + interval '10 seconds'`,
  )
  const next = await nextDelivery(database, 'T1/C1')
  if (next.kind !== 'delivery') throw new Error(next.kind)
  const { delivery } = next
  const { crm, chat } = delivery
  if (crm === null || chat === null) throw new Error('Nothing is connected.')
  const events: string[] = []
  const send: Task = async ({ database, step }) => {
    const claimed = await claim(database, processA, [delivery], [crm, chat])
    if (claimed.kind !== 'claimed') return
    await step()
    events.push('posted')
    await recordSent(database, [{ ...delivery, claimedUntil: claimed.claimedUntil }])
  }
  return { user, delivery, events, send }
}

const stored = async () =>
  await rowsOf<{ channel: string; state: string }>(
    open.database,
    sql`select channel, state from deliveries`,
  )

test('nothing is posted after a disconnect has answered', async () => {
  const orders = await inAllOrders(async () => {
    const { user, events, send } = await withMessage()
    const disconnect: Task = async ({ database }) => {
      const { disconnect } = await startBackend({ ...open, database }, outside, quiet)
      await disconnect(user, 'slack')
      events.push('answered')
    }
    return {
      tasks: [send, disconnect],
      check: async () => {
        expect(events).toSatisfy(() => events.length === 1 || events[0] === 'posted')
        expect((await stored())[0]?.state).toBe(events.includes('posted') ? 'sent' : 'pending')
      },
    }
  })
  expect(orders).toBeGreaterThan(20)
})

test('what another process moves to another channel is not sent in the former one', async () => {
  await inAllOrders(async () => {
    const { delivery, events, send } = await withMessage()
    // Process A has stood still.
    await open.database.execute(sql`update channels set leased_until = now() - interval '1 second'`)
    const move: Task = async ({ database }) => {
      await leaseDue(database, processB, { all: 1, failing: 1 }, [])
      await moveToChannel(database, processB, delivery, 'T1/C2')
    }
    return {
      tasks: [send, move],
      check: async () => {
        const isSent = events.includes('posted')
        const one = isSent ? ['T1/C1', 'sent'] : ['T1/C2', 'pending']
        expect((await stored()).map(({ channel, state }) => [channel, state])).toEqual([one])
      },
    }
  })
})

test('what a webhook and a search tell at once is stored once', async () => {
  await inAllOrders(async () => {
    await backend.connect(account)
    const at = Date.now() + 60_000
    const event = (key: string, occurredAt: number) => [
      { ...change, key, occurredAt: new Date(occurredAt) },
    ]
    return {
      tasks: [
        ({ database }) => createInbox(database, () => {}).store('hubspot', event('told', at)),
        ({ database }) =>
          createInbox(database, () => {}).storeFound('hubspot', event('found', at + 9), 0),
      ],
      check: async () => expect(await stored()).toHaveLength(1),
    }
  })
})

test.each(['refresh', 'connect', 'disconnect'] as const)(
  'a refreshed token is neither lost nor stored over a newer one: %s',
  async (other) => {
    await inAllOrders(async () => {
      const user = await backend.connect({ ...account, accessEndsInMs: 1_000 })
      const { crm } = await routeOf(open.database, user)
      if (crm === undefined) throw new Error('Nothing is connected.')
      const vault = createVault([key])
      const used: string[] = []
      let refreshes = 0
      const read: Task = async ({ database, step }) => {
        const refresh = async () => {
          await step()
          const secrets = { accessToken: `refreshed ${++refreshes}`, refreshToken: 'next' }
          return { secrets, accessExpiresAt: new Date(Date.now() + 1e7) }
        }
        const hubspot = { ...backend.providers.hubspot, refresh }
        const providers = { ...backend.providers, hubspot }
        const withAccess = createWithAccess({ database, vault, providers })
        await withAccess(crm, 'fresh', async ({ accessToken }) => used.push(accessToken)).catch(
          (error) => expect(error).toMatchObject({ reason: 'disconnected' }),
        )
      }
      const others: Record<typeof other, Task> = {
        refresh: read,
        connect: async ({ database }) => {
          const { connectAgain } = await startBackend({ ...open, database }, outside, quiet)
          await connectAgain(user, account)
        },
        disconnect: async ({ database }) => {
          const { disconnect } = await startBackend({ ...open, database }, outside, quiet)
          await disconnect(user, 'hubspot')
        },
      }
      return {
        tasks: [read, others[other]],
        check: async () => {
          const { crm: after } = await routeOf(open.database, user)
          const token = after && openSecrets(vault, after).accessToken
          if (other === 'disconnect') expect(token).toBeUndefined()
          if (other === 'connect') expect(token).toBe('hubspot-access-secret-1')
          if (other === 'refresh') expect([token, ...used]).toEqual(Array(3).fill('refreshed 1'))
        },
      }
    })
  },
)
