import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, isNull, lt, or, sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import { ProviderError, type Providers } from '../providers/provider.ts'
import type { CrmId } from '../providers/registry.ts'
import { type Connection, isOfConfigured, openSecrets, sealSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/** A token that expires within this time is refreshed, so that it does not expire during a call. */
const marginMs = 2 * 60_000

/** Longer than a refresh may take. If the process dies, other processes wait this long at most. */
const lockSeconds = 15

export type CrmConnection = Connection & { provider: CrmId }

/**
 * Creates a function that returns the access token of a CRM connection. It refreshes a token that
 * will expire soon. It never refreshes because of a 401. Only one process at a time refreshes a
 * connection, because two refreshes would race.
 */
export function createAccessTokens({
  database,
  vault,
  providers,
}: {
  database: Database
  vault: Vault
  providers: Providers
}) {
  const refreshing = new Map<string, Promise<string>>()

  async function load({ id, provider }: CrmConnection): Promise<CrmConnection> {
    const [row] = await database
      .select()
      .from(connections)
      .where(and(eq(connections.id, id), isOfConfigured(providers, connections)))
    if (row === undefined) throw new ProviderError(provider, 'refresh', 'refused', 'disconnected')
    return { ...row, provider }
  }

  async function refresh(connection: CrmConnection): Promise<string> {
    for (;;) {
      const [locked] = await database
        .update(connections)
        .set({ refreshingUntil: sql`now() + make_interval(secs => ${lockSeconds})` })
        .where(
          and(
            eq(connections.id, connection.id),
            eq(connections.secrets, connection.secrets),
            or(isNull(connections.refreshingUntil), lt(connections.refreshingUntil, sql`now()`)),
          ),
        )
        .returning({ id: connections.id })
      if (locked !== undefined) return await refreshLocked(connection)

      // Another process is refreshing. Wait for the token that it stores.
      await delay(100)
      const current = await load(connection)
      if (!endsSoon(current)) return openSecrets(vault, current).accessToken
      connection = current
    }
  }

  async function refreshLocked(connection: CrmConnection): Promise<string> {
    const { id, userId, provider } = connection
    // The user may have connected again in the meantime. Do not overwrite the new connection.
    const unchanged = and(eq(connections.id, id), eq(connections.secrets, connection.secrets))
    try {
      const tokens = await providers[provider].refresh(openSecrets(vault, connection))
      const { secrets, accessExpiresAt } = tokens
      const sealed = sealSecrets(vault, { userId, provider }, secrets)
      await database
        .update(connections)
        .set({ secrets: sealed, accessExpiresAt, refreshingUntil: null })
        .where(unchanged)
      return secrets.accessToken
    } catch (error) {
      await database.update(connections).set({ refreshingUntil: null }).where(unchanged)
      throw error
    }
  }

  /** @throws ProviderError when the CRM refuses the refresh or cannot be reached. */
  return function accessToken(connection: CrmConnection): Promise<string> {
    if (!endsSoon(connection)) {
      return Promise.resolve(openSecrets(vault, connection).accessToken)
    }
    const running = refreshing.get(connection.id)
    if (running !== undefined) return running
    const started = refresh(connection).finally(() => refreshing.delete(connection.id))
    refreshing.set(connection.id, started)
    return started
  }
}

function endsSoon({ accessExpiresAt }: CrmConnection): boolean {
  return accessExpiresAt !== null && accessExpiresAt.getTime() - Date.now() < marginMs
}
