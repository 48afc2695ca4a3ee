import { type SQL, type SQLWrapper, sql } from 'drizzle-orm'

// The clock may have been ahead, and was put right. Whatever was to wait until a time that was stored before would then
// wait for as long as the clock was wrong, also after a restart. So no stored time counts for longer than the code can
// have asked for: one that lies further ahead is wrong, and whatever waits for it goes on.

/** A statement that has waited for a lock may compare with a time that was stored after its own `now()`. */
const lockWaitMs = 10_000

/** The condition that a stored time lies further ahead than `mostMs`. */
export const isTooFarAhead = (time: SQLWrapper, mostMs: number, now: SQL = sql`now()`): SQL =>
  sql`${time} > ${now} + make_interval(secs => ${(mostMs + lockWaitMs) / 1000})`

/** The condition that nothing waits for a stored time any more. An index of the time serves it. */
export const isOver = (time: SQLWrapper, mostMs: number): SQL =>
  sql`(${time} <= now() or ${isTooFarAhead(time, mostMs)})`

/** Until when something waits; null if the stored time is wrong. */
export const waitsUntil = (time: SQLWrapper, mostMs: number, now?: SQL): SQL =>
  sql`case when not (${isTooFarAhead(time, mostMs, now)}) then ${time} end`

/**
 * Until when a row of `channels` waits; null if this wait began while the clock was wrong. A pause may last for an hour,
 * so the start of each wait is stored, too.
 * @param row its name.
 */
export const rowWaitsUntil = (row: SQLWrapper, now?: SQL): SQL =>
  sql`case when not (${isTooFarAhead(sql`${row}.waits_since`, 0, now)}) then ${row}.next_at end`

/** Until when a channel accepts no message, because it waits or its account does. @param channel the name of its row. */
export const pausedUntil = (channel: SQLWrapper, now?: SQL): SQL =>
  sql`greatest(${rowWaitsUntil(channel, now)}, (
    select ${rowWaitsUntil(sql`account`, now)} from channels as account
    where account.id = split_part(${channel}.id, '/', 1) || '/'))`
