import { and, eq } from 'drizzle-orm'
import { Hono } from 'hono'
import type { ConnectionStatus } from '../../contract/endpoints.ts'
import type { Dependencies } from '../app.ts'
import { connections } from '../database/schema.ts'
import { connectionStatus, openSecrets } from '../people/connections.ts'
import type { Sessions } from '../people/session.ts'
import { ProviderError, type ProviderId } from '../providers/provider.ts'
import { stopSendingTo } from '../relay/deliveries.ts'

/** The status of a user's connection to one provider, and its end (§7). */
export function connectionRoutes(
  provider: ProviderId,
  { database, vault, providers, log }: Dependencies,
  sessions: Sessions,
) {
  return new Hono()
    .get('/status', async (c) => {
      const session = await sessions.find(c)
      const status: ConnectionStatus =
        session === undefined
          ? { connected: false }
          : await connectionStatus(database, session.userId, provider)
      return c.json(status)
    })
    .delete('/disconnect', async (c) => {
      const session = await sessions.find(c)
      if (session === undefined) return c.body(null, 204)

      // Removed here first: whatever the provider answers, nothing is sent or read from now on.
      const [removed] = await database
        .delete(connections)
        .where(and(eq(connections.userId, session.userId), eq(connections.provider, provider)))
        .returning()
      // Also when another tab's call removed it: what that one still waits for, this one waits for.
      await stopSendingTo(database, session.userId)
      if (removed === undefined) return c.body(null, 204)

      try {
        const [sharing] = await database
          .select({ id: connections.id })
          .from(connections)
          .where(and(eq(connections.provider, provider), eq(connections.grantId, removed.grantId)))
          .limit(1)
        // Another user here holds the same token (Slack has one a workspace), who did not disconnect.
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
