import { sql } from 'drizzle-orm'
import { createCache } from '../watch/cache.ts'
import { type Database, rowsOf } from './open.ts'
import { recentCalls } from './schema.ts'

/**
 * Counts a call, unless `most` calls with this key were made in the last `intervalMs`. Returns 0 if it counted the call.
 * Otherwise returns in how many ms there is room.
 */
export type CountCall = (key: string, most: number, intervalMs: number) => Promise<number>

/** More keys than a process uses within an interval. */
const mostKeys = 20_000
/** The wait if another process took the last room while this one asked. */
const againMs = 20
/** A caller that waited longer for other callers' statements does not ask in its turn, because the database is slow. */
const longestWaitMs = 1_500

interface Key {
  /** Ends when the statement that was asked last has ended. */
  asked: Promise<unknown>
  /** No room before `until`, for a limit of at most `most` calls. */
  full: { most: number; until: number }
}

/** Creates the function that counts the calls of all processes on a database together. */
export function createCallCounter(
  database: Database,
  now: () => number = () => performance.now(),
): CountCall {
  const keys = createCache<Key>('shared_calls', mostKeys)

  async function ask(key: string, most: number, intervalMs: number): Promise<number> {
    // Use clock_timestamp(). now() is the start of the statement, before it waited for locks.
    const since = sql`clock_timestamp() - make_interval(secs => ${intervalMs / 1000})`
    // If the database's clock was set back, do not count the calls that then seem to come later.
    const isRecent = sql`at > ${since} and at <= clock_timestamp()`
    const [row] = await rowsOf<{ counted: boolean; wait_ms: number | null }>(
      database,
      sql`with counted as (
            insert into ${recentCalls} as calls (key, made) values (${key}, array[clock_timestamp()])
            on conflict (key) do update
            set made = array(
              select at from unnest(calls.made) as at where ${isRecent} order by at
            ) || clock_timestamp()
            where (select count(*) from unnest(calls.made) as at where ${isRecent}) < ${most}
            returning key
          )
          select exists (select from counted) as counted, (
            select extract(epoch from at - (${since}))::float8 * 1000
            from ${recentCalls} cross join unnest(made) as at
            where key = ${key} and ${isRecent}
            order by at desc offset ${most - 1} limit 1
          ) as wait_ms`,
    )
    if (row?.counted === true) return 0
    return Math.min(Math.max(row?.wait_ms ?? 0, againMs), intervalMs)
  }

  return async function count(key, most, intervalMs) {
    let state = keys.get(key)
    if (state === undefined) {
      state = { asked: Promise.resolve(), full: { most: 0, until: 0 } }
      keys.set(key, state)
    }
    const { asked } = state
    const { promise, resolve } = Promise.withResolvers<void>()
    // One statement at a time for a key. So after a refusal, the callers that waited need not ask.
    state.asked = promise
    const calledAt = now()
    await asked
    try {
      if (now() - calledAt > longestWaitMs) return againMs
      const fullMs = most <= state.full.most ? state.full.until - now() : 0
      if (fullMs > 0) return fullMs
      const ms = await ask(key, most, intervalMs)
      if (ms > 0) state.full = { most, until: now() + ms }
      return ms
    } finally {
      resolve()
    }
  }
}
