import { type Context as Call, Hono } from 'hono'
import {
  type Activity,
  activityEndpoints,
  activityStates,
  type RetryAllAnswer,
  type Summary,
} from '../../contract/activity.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { isItemId, readActivity, readItems, readPosition, sendAgain } from '../relay/show/list.ts'
import { readBroken, sendAllAgain } from '../relay/show/retry-all.ts'
import { type Day, readSummary } from '../relay/show/summary.ts'

const dayMs = 24 * 60 * 60 * 1000
const minuteMs = 60 * 1000

/** What became of the messages of a user, and sending a failed one again. */
export function activityRoutes({ database, providers, sessions, wakeRelay, now }: Context) {
  return new Hono()
    .get(activityEndpoints.summary.path, async (c) => {
      const count = wholeNumber(c, 'days', { most: 30, otherwise: 14 })
      const days = lastDays(count, dateFormat(c.req.query('zone') ?? 'UTC'), now())
      const session = await sessions.find(c)
      if (session === undefined) {
        const daily = days.map(({ date }) => ({ date, sent: 0, failed: 0 }))
        const none = {
          waiting: 0,
          failedSinceBroken: 0,
          failedWhileBroken: null,
          connectFirst: null,
        }
        return c.json<Summary>({ days: count, rules: {}, daily, ...none })
      }
      const { userId } = session
      const [summary, broken] = await Promise.all([
        readSummary({ database, providers }, userId, days),
        readBroken({ database, providers }, userId),
      ])
      return c.json<Summary>({ ...summary, ...broken })
    })
    .get(activityEndpoints.activity.path, async (c) => {
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
      const session = await sessions.find(c)
      let page: Activity = { items: [], next: null }
      if (session !== undefined) {
        const { userId } = session
        page =
          ids === undefined
            ? await readActivity({ database, providers }, userId, { limit, before, state })
            : { items: await readItems({ database, providers }, userId, ids), next: null }
      }
      return c.json(page)
    })
    .post(activityEndpoints.retry.path, async (c) => {
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
    .post(activityEndpoints.retryAll.path, async (c) => {
      const because = c.req.query('because')
      if (because !== undefined && because !== 'broken') {
        throw new ApiError(400, 'invalid_query', '`because` must be `broken`.')
      }
      const session = await sessions.find(c)
      const options = { onlyBroken: because !== undefined }
      const answer: RetryAllAnswer =
        session === undefined
          ? { queued: 0, more: false }
          : await sendAllAgain({ database, providers }, session.userId, options)
      if (answer.queued > 0) wakeRelay()
      return c.json(answer, 202)
    })
}

/** @throws ApiError if the query has another value than a number from 1 to `most`. */
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

/** Returns a function that formats a time as the date in a time zone. @throws ApiError */
function dateFormat(zone: string): (time: number) => string {
  try {
    // The Canadian form is 2026-11-21.
    const format = new Intl.DateTimeFormat('en-CA', {
      timeZone: zone,
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
    })
    return (time) => format.format(time)
  } catch {
    throw new ApiError(400, 'invalid_query', '`zone` must be a time zone, such as Europe/Berlin.')
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
    const date = new Date(midnight).toISOString().slice(0, 10)
    // Zones are up to 14 hours ahead and 12 behind. Where clocks change at midnight, a day starts later.
    let before = midnight - 16 * 60 * minuteMs
    let start = midnight + 16 * 60 * minuteMs
    while (start - before > minuteMs) {
      const middle = before + Math.floor((start - before) / 2 / minuteMs) * minuteMs
      if (dateOf(middle) < date) before = middle
      else start = middle
    }
    return { date, start: new Date(start) }
  })
}
