import { and, eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { type ConnectionStatus, endpoints, pathOf } from '../../contract/endpoints.ts'
import type { Context } from '../context.ts'
import { connections } from '../database/schema.ts'
import { connectionStatus, openSecrets } from '../people/connections.ts'
import { ProviderError } from '../providers/provider.ts'
import type { ProviderId } from '../providers/registry.ts'
import { stopSendingTo } from '../relay/deliveries.ts'

/** The status of a user's connection to one provider, and disconnecting it (§7). */
export function connectionRoutes(
  provider: ProviderId,
  { database, vault, providers, sessions, log }: Context,
) {
  return new Hono()
    .get(pathOf(endpoints.status, provider), async (c) => {
      const session = await sessions.find(c)
      const status: ConnectionStatus =
        session === undefined
          ? { connected: false }
          : await connectionStatus({ database, providers }, { userId: session.userId, provider })
      return c.json(status)
    })
    .delete(pathOf(endpoints.disconnect, provider), async (c) => {
      const session = await sessions.find(c)
      if (session === undefined) return c.body(null, 204)

      // Remove it here first. Whatever the provider answers, nothing is sent or read from now on.
      const [removed] = await database
        .delete(connections)
        .where(and(eq(connections.userId, session.userId), eq(connections.provider, provider)))
        .returning()
      // If another tab's call has removed it, this call also waits until nothing is being sent.
      await stopSendingTo(database, session.userId)
      if (removed === undefined) return c.body(null, 204)
      // The real provider never sees a token that its stand-in issued.
      if (removed.standIn !== providers[provider].standIn) return c.body(null, 204)

      try {
        const [sharing] = await database
          .select({ id: connections.id })
          .from(connections)
          .where(
            and(
              eq(connections.provider, provider),
              eq(connections.standIn, removed.standIn),
              eq(connections.grantId, removed.grantId),
            ),
          )
          .limit(1)
        // Revoke only if no other user shares the token: Slack has one token for each workspace.
        if (sharing === undefined) await providers[provider].revoke(openSecrets(vault, removed))
      } catch (error) {
        log('revoke failed', {
          provider,
          connection: removed.id,
          kind: error instanceof ProviderError ? error.kind : 'internal',
          reason: error instanceof ProviderError ? error.reason : undefined,
        })
      }
      return c.body(null, 204)
    })
}
