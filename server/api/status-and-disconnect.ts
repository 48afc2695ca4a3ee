import { and, eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { type ConnectionStatus, endpoints, pathOf } from '../../contract/endpoints.ts'
import { forgetDeals } from '../activity/forget-deals.ts'
import { waitAtMost } from '../background.ts'
import type { Context } from '../context.ts'
import { connections } from '../database/schema.ts'
import { errorFields } from '../log.ts'
import { connectionStatus } from '../people/connections.ts'
import { createEndGrant } from '../people/end-grant.ts'
import { checkBroken } from '../people/refusals.ts'
import { isCrmId, type ProviderId } from '../providers/registry.ts'
import { endWaiting, lookAtWaiting, sendingEnded } from '../relay/send/disconnect.ts'

/** The answer does not wait for a long list. */
const forgetMs = 500

/** The status of a user's connection to one provider, and disconnecting it (§7). */
export function statusAndDisconnectRoutes(provider: ProviderId, context: Context) {
  const { database, providers, wakeRelay, log } = context
  const endGrant = createEndGrant(context)

  return new Hono()
    .get(pathOf(endpoints.status, provider), async (c) => {
      const session = await context.sessions.find(c)
      if (session === undefined) return c.json<ConnectionStatus>({ connected: false })
      const { userId } = session
      const status = await connectionStatus({ database, providers }, { userId, provider })
      // The answer does not wait. If this fails, the daily check comes anyway.
      if (status.reason) void checkBroken(database, { userId, provider }).catch(() => {})
      return c.json<ConnectionStatus>(status)
    })
    .delete(pathOf(endpoints.disconnect, provider), async (c) => {
      const session = await context.sessions.find(c)
      if (session === undefined) return c.body(null, 204)

      const { userId } = session
      // Remove it here first. Whatever the provider answers, nothing is sent or read from now on.
      const removed = await database.transaction(async (tx) => {
        const [row] = await tx
          .delete(connections)
          .where(and(eq(connections.userId, userId), eq(connections.provider, provider)))
          .returning()
        if (row !== undefined) await endWaiting(tx, userId)
        return row
      })
      // If another tab's call has removed it, this call also waits until nothing is being sent.
      await lookAtWaiting(database, userId)
      wakeRelay()
      await sendingEnded(database, userId)
      if (isCrmId(provider)) {
        // Not earlier: the message that was being sent has just stored its names.
        const forgotten = forgetDeals(database, userId, provider).catch((error) => {
          log.error('names of deals not deleted', errorFields(error))
        })
        // What is left goes on after the answer. If the process dies, the clean-up deletes it.
        await waitAtMost(forgetMs, forgotten)
      }
      if (removed === undefined) return c.body(null, 204)
      await endGrant(removed)
      return c.body(null, 204)
    })
}
