import { sql } from 'drizzle-orm'
import { type Database, rowsOf } from './open.ts'
import { recentCalls } from './schema.ts'

/**
 * Counts a call, unless `most` calls with this key were made in the last `intervalMs`. Returns 0 if it counted the call.
 * Otherwise returns in how many ms there is room.
 */
export type CountCall = (key: string, most: number, intervalMs: number) => Promise<number>

/** The wait if another process took the last room while this one asked. */
const againMs = 20
/** A caller that waited longer for other callers' statements does not ask in its turn, because the database is slow. */
const slowAskMs = 1_500

interface Call {
  key: string
  most: number
  intervalMs: number
  calledAt: number
  resolve: (ms: number) => void
  reject: (error: unknown) => void
}

/**
 * Creates the function that counts the calls of all processes on a database together. A process asks with one statement
 * at a time, for many keys: calls that are made during one share the next one.
 */
export function createCallCounter(
  database: Database,
  now: () => number = () => performance.now(),
): CountCall {
  let waiting: Call[] = []
  let isAsking = false

  /** Counts a call of each key. @returns in how many ms there is room, for each key without room. */
  async function ask(keys: string[], most: number, intervalMs: number) {
    // Use clock_timestamp(). now() is the start of the statement, before it waited for locks.
    const since = sql`clock_timestamp() - make_interval(secs => ${intervalMs / 1000})`
    // If the database's clock was set back, do not count the calls that then seem to come later.
    const isRecent = sql`at > ${since} and at <= clock_timestamp()`
    const asked = sql`unnest(${sql.param(keys)}::text[]) as asked (key)`
    const rows = await rowsOf<{ key: string; wait_ms: number | null }>(
      database,
      // All processes lock the rows in the same order, to avoid a deadlock.
      sql`with counted as (
            insert into ${recentCalls} as calls (key, made)
            select key, array[clock_timestamp()] from ${asked} order by key
            on conflict (key) do update
            set made = array(
              select at from unnest(calls.made) as at where ${isRecent} order by at
            ) || clock_timestamp()
            where (select count(*) from unnest(calls.made) as at where ${isRecent}) < ${most}
            returning key
          )
          select key, (
            select extract(epoch from at - (${since}))::float8 * 1000
            from ${recentCalls} as calls cross join unnest(made) as at
            where calls.key = asked.key and ${isRecent}
            order by at desc offset ${most - 1} limit 1
          ) as wait_ms
          from ${asked} where key not in (select key from counted)`,
    )
    const waitOf = (ms: number | null) => Math.min(Math.max(ms ?? 0, againMs), intervalMs)
    return new Map(rows.map(({ key, wait_ms }) => [key, waitOf(wait_ms)]))
  }

  async function askForAll(): Promise<void> {
    isAsking = true
    for (let [first] = waiting; first !== undefined; [first] = waiting) {
      const { most, intervalMs } = first
      /** The first call of each key. */
      const asked = new Map<string, Call>()
      for (const call of waiting) {
        const isAlike = call.most === most && call.intervalMs === intervalMs
        if (isAlike && !asked.has(call.key)) asked.set(call.key, call)
      }
      const isAsked = (call: Call) => asked.get(call.key) === call
      try {
        const refused = await ask([...asked.keys()], most, intervalMs)
        // What refuses a call also refuses those that wait behind it.
        answer((call) => {
          const ms = call.most <= most ? refused.get(call.key) : undefined
          return ms ?? (isAsked(call) ? 0 : undefined)
        })
      } catch (error) {
        for (const call of asked.values()) call.reject(error)
        waiting = waiting.filter((call) => !isAsked(call))
      }
      answer(({ calledAt }) => (now() - calledAt > slowAskMs ? againMs : undefined))
    }
    isAsking = false
  }

  /** Answers the calls whose wait is known. */
  function answer(waitOf: (call: Call) => number | undefined): void {
    waiting = waiting.filter((call) => {
      const ms = waitOf(call)
      if (ms !== undefined) call.resolve(ms)
      return ms === undefined
    })
  }

  return (key, most, intervalMs) =>
    new Promise((resolve, reject) => {
      waiting.push({ key, most, intervalMs, calledAt: now(), resolve, reject })
      if (!isAsking) void askForAll()
    })
}
