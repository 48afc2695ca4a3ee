import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { type Database, rowsOf } from '../../server/database/open.ts'

// Two sessions of PostgreSQL do things at once, in all orders. Each stops before each of its statements, and before it
// changes channels: so it also stops in the middle of a statement that has read but has not locked yet. A third session
// lets one of the two go on at a time.

/** What a session stops before. Other statements do not matter. */
const isStep = (text: string) => !/^begin|sessions/.test(text)
/** In an order, so often a session is stopped for the other one although it could go on. */
const mostInterrupted = 2
const mostSteps = 80

interface Side {
  database: Database
  /** Stops before what is no statement. */
  step: () => Promise<unknown>
}

export type Task = (side: Side) => Promise<unknown>

interface Session extends Side {
  name: string
  pid: number
  /** The statements so far. Whoever makes one for the third time polls. */
  made: string[]
}

interface Stopped {
  side: Session
  step: number
}

/** @param database has one connection only, which holds the locks that stop the others. */
export async function openTwoSessions(url: string, database: Database) {
  const clients: pg.Client[] = []
  await database.execute(sql`
    create function step(side int) returns void language plpgsql as $$
      declare n int := nextval('step_' || side); begin
        perform pg_advisory_lock(side, n);
        perform pg_advisory_unlock(side, n);
      end $$;
    create function step_of_session() returns trigger language plpgsql as $$ begin
      if current_setting('step.side', true) <> '' then perform step(current_setting('step.side')::int); end if;
      return null;
    end $$;
    create trigger step before update on channels for each statement execute function step_of_session();
    create sequence step_1;
    create sequence step_2`)
  const sides = [await openSide(1), await openSide(2)] as const

  async function openSide(side: number): Promise<Session> {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    clients.push(client)
    await client.query(`set step.side = ${side}`)
    const { rows } = await client.query('select pg_backend_pid() as pid')
    const query = client.query.bind(client) as (...parts: unknown[]) => Promise<unknown>
    const step = () => query(`select step(${side})`)
    const made: string[] = []
    // Drizzle calls it in one way only.
    client.query = (async (...parts: unknown[]) => {
      const [asked] = parts
      const text: string = typeof asked === 'string' ? asked : Object(asked).text
      made.push(text)
      if (isStep(text)) await step()
      return await query(...parts)
    }) as typeof client.query
    return { name: 'AB'[side - 1] ?? '', pid: rows[0].pid, database: drizzle(client), made, step }
  }

  /**
   * Runs two tasks in an order that begins as given. Then each side goes on as long as it can and does not poll.
   * @returns the order, and where the other side could have gone on, too.
   */
  async function play(order: string, tasks: readonly [Task, Task]) {
    await database.execute(sql`select setval('step_1', 1, false), setval('step_2', 1, false)`)
    await database.execute(
      sql`select pg_advisory_lock(side, n) from generate_series(1, 2) as side, generate_series(1, ${mostSteps}::int) as n`,
    )
    const done = new Set<number>()
    const running = sides.map((side, at) => {
      side.made.length = 0
      return tasks[at]?.(side).finally(() => done.add(side.pid))
    })
    const settled = Promise.allSettled(running)
    let taken = ''
    const forks: number[] = []
    while (done.size < 2) {
      const stopped = await stoppedSides(done)
      const wanted = order[taken.length] ?? taken.at(-1)
      const isWanted = ({ side }: Stopped) => side.name === wanted
      const mustStop =
        order.length <= taken.length && stopped.some((each) => isWanted(each) && polls(each))
      const next = stopped.find((each) => isWanted(each) !== mustStop) ?? stopped[0]
      if (next === undefined) continue
      if (stopped.length === 2) forks.push(taken.length)
      taken += next.side.name
      await database.execute(
        sql`select pg_advisory_unlock(${sides.indexOf(next.side) + 1}::int, ${next.step}::int)`,
      )
    }
    await database.execute(sql`select pg_advisory_unlock_all()`)
    for (const each of await settled) if (each.status === 'rejected') throw each.reason
    return { taken, forks }
  }

  const polls = ({ side: { made } }: Stopped) =>
    made.filter((text) => text === made.at(-1)).length > 2

  /** The sides that may go on. Undecided as long as one is still under way: it neither stops nor waits for the other. */
  async function stoppedSides(done: ReadonlySet<number>): Promise<readonly Stopped[]> {
    const pids = sides.map(({ pid }) => pid)
    const waiting = await rowsOf<{ pid: number; step: number | null }>(
      database,
      sql`select pid, case when locktype = 'advisory' and objsubid = 2 then objid::int end as step
        from pg_locks where not granted and pid = any(${sql.param(pids)}::int[])`,
    )
    const stopped = sides.flatMap((side) => {
      const step = waiting.find(({ pid }) => pid === side.pid)?.step ?? null
      return step === null ? [] : [{ side, step }]
    })
    const isUnderWay = pids.some(
      (pid) => !done.has(pid) && !waiting.some((each) => each.pid === pid),
    )
    return isUnderWay ? [] : stopped
  }

  /** Runs two tasks in all orders. `begin` makes the state in which they begin, and returns them and what must hold. */
  async function inAllOrders(
    begin: () => Promise<{ tasks: readonly [Task, Task]; check: () => Promise<void> | void }>,
  ): Promise<number> {
    const orders = [{ order: '', interrupted: 0 }]
    let played = 0
    for (let next = orders.pop(); next !== undefined; next = orders.pop()) {
      const { order, interrupted } = next
      const { tasks, check } = await begin()
      try {
        const { taken, forks } = await play(order, tasks)
        for (const at of forks.filter((each) => each >= order.length)) {
          const other = taken.slice(0, at) + (taken[at] === 'A' ? 'B' : 'A')
          // Which of them begins is no interruption.
          const count = interrupted + Number(at > 0)
          if (count <= mostInterrupted) orders.push({ order: other, interrupted: count })
        }
        await check()
      } catch (error) {
        throw new Error(`In the order ${order}: ${error}`, { cause: error })
      }
      played++
    }
    return played
  }

  return {
    inAllOrders,
    async close(): Promise<void> {
      for (const client of clients) await client.end()
    },
  }
}
