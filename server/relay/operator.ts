import { createHmac, timingSafeEqual } from 'node:crypto'
import { and, eq, ne, sql } from 'drizzle-orm'
import { Hono } from 'hono'
import * as v from 'valibot'
import { type Database, rowsOf } from '../database/open.ts'
import { deliveries } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import { lockChannels } from './inbox.ts'
import type { WakeQueue } from './wake-queue.ts'

/** How many deliveries stand how; the dead ones by reason. */
export const relayStatus = v.object({
  pending: v.number(),
  sent: v.number(),
  ignored: v.number(),
  dead: v.number(),
  reasons: v.record(v.string(), v.number()),
})
export type RelayStatus = v.InferOutput<typeof relayStatus>

export const replayAnswer = v.object({ replayed: v.number() })

export async function countDeliveries(database: Database): Promise<RelayStatus> {
  const rows = await rowsOf<{ state: string; reason: string | null; count: number }>(
    database,
    sql`select state, case when state = 'dead' then reason end as reason, count(*)::int as count
        from deliveries group by 1, 2 order by 3 desc`,
  )
  const count = (state: string) =>
    rows.filter((row) => row.state === state).reduce((sum, row) => sum + row.count, 0)
  return {
    pending: count('pending'),
    sent: count('sent'),
    ignored: count('ignored'),
    dead: count('dead'),
    reasons: Object.fromEntries(
      rows.filter(({ state }) => state === 'dead').map((row) => [row.reason ?? '', row.count]),
    ),
  }
}

// What a disconnect ended stays ended: its user was told that nothing more is sent.
const revivable = and(eq(deliveries.state, 'dead'), ne(deliveries.reason, 'disconnected'))

/** Makes the dead deliveries pending again, in their old order. @returns how many. */
export async function replayDead({
  database,
  queue,
}: {
  database: Database
  queue: WakeQueue
}): Promise<number> {
  return await database.transaction(async (tx) => {
    const dead = await tx
      .selectDistinct({ channel: deliveries.channel })
      .from(deliveries)
      .where(revivable)
    await lockChannels(
      tx,
      dead.map(({ channel }) => channel),
    )
    const revived = await tx
      .update(deliveries)
      .set({ state: 'pending', attempts: 0, reason: null, notBefore: null, finishedAt: null })
      .where(revivable)
      .returning({ channel: deliveries.channel })
    await queue.wake([...new Set(revived.map(({ channel }) => channel))], { within: tx })
    return revived.length
  })
}

/** What `npm run relay` asks a server that holds the data folder. Only who has its key may ask. */
export function operatorRoutes({
  database,
  queue,
  token,
  onReplayed,
}: {
  database: Database
  queue: WakeQueue
  token: string
  onReplayed: () => void
}) {
  return new Hono()
    .use(async (c, next) => {
      const given = Buffer.from(c.req.header('Authorization') ?? '')
      const expected = Buffer.from(`Bearer ${token}`)
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        throw new ApiError(401, 'unauthorized', 'This is for the operator of the server.')
      }
      await next()
    })
    .get('/status', async (c) => c.json(await countDeliveries(database)))
    .post('/replay', async (c) => {
      const replayed = await replayDead({ database, queue })
      onReplayed()
      return c.json({ replayed })
    })
}

/** Follows from the newest encryption key, which server and operator both read. */
export function operatorToken([newest]: readonly Buffer[]): string {
  if (newest === undefined) throw new Error('There is no encryption key.')
  return createHmac('sha256', newest).update('dealbell operator').digest('base64url')
}
