import { type Context as Call, Hono } from 'hono'
import {
  type Activity,
  activityCall,
  activityStates,
  retryCall,
  type Summary,
  summaryCall,
} from '../../contract/features/activity.ts'
import { type RetryAllAnswer, retryAllCall } from '../../contract/features/retry-all.ts'
import { type ActivityFilter, countActivity, readPosition } from '../activity/find.ts'
import { isItemId, readActivity, readItems } from '../activity/list.ts'
import {
  countRetryable,
  readBroken,
  readConnectFirst,
  sendAllAgain,
} from '../activity/retry-all.ts'
import { sendAgain } from '../activity/send-again.ts'
import { type Day, readSummary } from '../activity/summary.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { registry } from '../providers/registry.ts'

const dayMs = 24 * 60 * 60 * 1000
const minuteMs = 60 * 1000

export function activityRoutes({ database, providers, sessions, limits, wakeRelay, now }: Context) {
  return new Hono()
    .get(summaryCall.path, async (c) => {
      const count = wholeNumber(c, 'days', { most: 30, otherwise: 14 })
      const days = lastDays(count, dateFormat(c.req.query('zone')), now())
      const session = await sessions.find(c)
      if (session === undefined) {
        const daily = days.map(({ date }) => ({ date, sent: 0, failed: 0 }))
        const none = { waiting: 0, failedWhileBroken: null, connectFirst: null }
        return c.json<Summary>({ days: count, rules: {}, daily, ...none })
      }
      const { userId } = session
      const [summary, broken] = await Promise.all([
        readSummary(database, userId, days),
        readBroken({ database, providers }, userId),
      ])
      return c.json<Summary>({ ...summary, ...broken })
    })
    .get(activityCall.path, async (c) => {
      const limit = wholeNumber(c, 'limit', { most: 100, otherwise: 25 })
      const next = c.req.query('before')
      const before = next === undefined ? undefined : readPosition(next)
      if (next !== undefined && before === undefined) {
        throw new ApiError(400, 'invalid_query', '`before` must be the `next` of another answer.')
      }
      const wanted = c.req.query('state')
      const state = activityStates.find((each) => each === wanted)
      if (wanted !== undefined && state === undefined) {
        const names = activityStates.join(', ')
        throw new ApiError(400, 'invalid_query', `\`state\` must be one of: ${names}.`)
      }
      const ids = c.req.query('ids')?.split(',')
      if (ids !== undefined && (ids.length > 100 || !ids.every(isItemId))) {
        throw new ApiError(400, 'invalid_query', '`ids` must be at most 100 ids of messages.')
      }
      const filter = { state, ...filterOf(c) }
      const isCounted = c.req.query('counts') === 'true'
      const session = await sessions.find(c)
      let page: Activity = { items: [], next: null }
      if (session !== undefined) {
        const { userId } = session
        if (ids === undefined) {
          const [read, counts, retryable] = await Promise.all([
            readActivity({ database, providers }, userId, { limit, before, filter }),
            isCounted ? countActivity(database, userId, filter) : undefined,
            isCounted && state === 'failed'
              ? countRetryable({ database, providers }, userId, filter)
              : undefined,
          ])
          page = { ...read, ...(counts && { counts }), ...(retryable && { retryable }) }
        } else {
          page = { items: await readItems({ database, providers }, userId, ids), next: null }
        }
      }
      return c.json(page)
    })
    .post(retryCall.path, async (c) => {
      const session = await sessions.find(c)
      const outcome =
        session === undefined
          ? 'unknown'
          : await sendAgain(database, session.userId, c.req.param('id'))
      if (outcome === 'unknown') {
        throw new ApiError(404, 'no_such_message', 'There is no such message.')
      }
      if (outcome === 'not failed') {
        throw new ApiError(409, 'not_failed', 'The message has not failed.')
      }
      wakeRelay()
      return c.body(null, 202)
    })
    .post(retryAllCall.path, async (c) => {
      const because = c.req.query('because')
      if (because !== undefined && because !== 'broken') {
        throw new ApiError(400, 'invalid_query', '`because` must be `broken`.')
      }
      const which = { filter: filterOf(c), onlyBroken: because !== undefined }
      const session = await sessions.find(c)
      let answer: RetryAllAnswer = { queued: 0, more: false }
      if (session !== undefined) {
        const { userId } = session
        await limits.retryAll(c, userId)
        const [missing] = await readConnectFirst({ database, providers }, userId)
        // Otherwise the relay would end them all again, and perhaps for another reason.
        if (missing !== undefined) {
          throw new ApiError(409, 'not_connected', `Connect ${registry[missing].name} first`)
        }
        answer = await sendAllAgain({ database, providers }, userId, which)
      }
      if (answer.queued > 0) wakeRelay()
      return c.json(answer, 202)
    })
}

function wholeNumber(
  c: Call,
  name: string,
  { most, otherwise }: { most: number; otherwise: number },
): number {
  const text = c.req.query(name)
  if (text === undefined) return otherwise
  const number = /^\d{1,3}$/.test(text) ? Number(text) : 0
  if (number < 1 || number > most) {
    throw new ApiError(400, 'invalid_query', `\`${name}\` must be a number from 1 to ${most}.`)
  }
  return number
}

/** Returns what a query narrows the list by, apart from the state. @throws ApiError */
const filterOf = (c: Call): Omit<ActivityFilter, 'state'> => ({
  // Without anything but spaces, it would find every deal that has a name.
  q: shortText(c, 'q')?.trim() || undefined,
  rule: shortText(c, 'rule'),
  day: dayOf(c),
})

/** @throws ApiError if the query has a text that is too long, or that PostgreSQL cannot store. */
function shortText(c: Call, name: string): string | undefined {
  const text = c.req.query(name)
  if (text !== undefined && (text.length > 100 || text.includes('\0'))) {
    throw new ApiError(400, 'invalid_query', `\`${name}\` must have at most 100 characters.`)
  }
  return text
}

/** Returns when the day begins and ends that the query asks for. @throws ApiError */
function dayOf(c: Call): ActivityFilter['day'] {
  const date = c.req.query('day')
  const dateOf = dateFormat(c.req.query('zone'))
  if (date === undefined) return undefined
  const day = new Date(/^2\d{3}-\d{2}-\d{2}$/.test(date) ? date : Number.NaN)
  if (Number.isNaN(day.getTime()) || isoDate(day.getTime()) !== date) {
    throw new ApiError(400, 'invalid_query', '`day` must be a date, such as 2026-11-21.')
  }
  const [start, end] = [day.getTime(), day.getTime() + dayMs].map((time) => startOf(time, dateOf))
  return start === undefined || end === undefined ? undefined : { start, end }
}

/**
 * Returns a function that formats a time as the date in a time zone: UTC if this server does not know the zone, because
 * the browser may know newer ones.
 */
function dateFormat(timeZone = 'UTC'): (time: number) => string {
  try {
    // The Canadian form is 2026-11-21.
    const format = new Intl.DateTimeFormat('en-CA', {
      timeZone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
    })
    return (time) => format.format(time)
  } catch {
    return dateFormat()
  }
}

/**
 * Returns the last days, the oldest first, and when each starts. The server computes this itself, because
 * databases know other names of time zones than browsers.
 */
function lastDays(count: number, dateOf: (time: number) => string, now: Date): Day[] {
  const today = Date.parse(dateOf(now.getTime()))
  return Array.from({ length: count }, (_, n) => {
    const midnight = today - (count - 1 - n) * dayMs
    return { date: isoDate(midnight), start: startOf(midnight, dateOf) }
  })
}

const isoDate = (time: number) => new Date(time).toISOString().slice(0, 10)

/** Returns when a date starts in a time zone, from its midnight in UTC. */
function startOf(midnight: number, dateOf: (time: number) => string): Date {
  const date = isoDate(midnight)
  // Zones are up to 14 hours ahead and 12 behind. Where clocks change at midnight, a day starts later.
  let before = midnight - 16 * 60 * minuteMs
  let start = midnight + 16 * 60 * minuteMs
  while (start - before > minuteMs) {
    const middle = before + Math.floor((start - before) / 2 / minuteMs) * minuteMs
    if (dateOf(middle) < date) before = middle
    else start = middle
  }
  return new Date(start)
}
