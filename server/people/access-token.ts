import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, isNull, lt, or, sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import { type Crm, ProviderError } from '../providers/provider.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/** Refreshed so long before its end that no call can begin with it and arrive after. */
const marginMs = 2 * 60_000

/** Longer than a refresh may take, so that a dead process holds the others up for as long at most. */
const lockSeconds = 15

export type HubspotConnection = typeof connections.$inferSelect

/**
 * The access token of a HubSpot connection, refreshed before it ends: never because of a 401, and by
 * one process at a time for a connection, since two refreshes race.
 */
export function createAccessTokens({
  database,
  vault,
  crm,
}: {
  database: Database
  vault: Vault
  crm: Pick<Crm, 'refresh'>
}) {
  const refreshing = new Map<string, Promise<string>>()

  async function load(id: string): Promise<HubspotConnection> {
    const [row] = await database.select().from(connections).where(eq(connections.id, id))
    if (row === undefined) throw new ProviderError('hubspot', 'refresh', 'refused', 'disconnected')
    return row
  }

  async function refresh(connection: HubspotConnection): Promise<string> {
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

      // Another process has it; what it stores is ours too.
      await delay(100)
      const current = await load(connection.id)
      if (!endsSoon(current)) return openSecrets(vault, current).accessToken
      connection = current
    }
  }

  async function refreshLocked(connection: HubspotConnection): Promise<string> {
    const { id, userId, provider } = connection
    // Of a connection that was made anew meanwhile nothing is overwritten.
    const still = and(eq(connections.id, id), eq(connections.secrets, connection.secrets))
    try {
      const { secrets, accessExpiresAt } = await crm.refresh(openSecrets(vault, connection))
      const sealed = sealSecrets(vault, { userId, provider }, secrets)
      await database
        .update(connections)
        .set({ secrets: sealed, accessExpiresAt, refreshingUntil: null })
        .where(still)
      return secrets.accessToken
    } catch (error) {
      await database.update(connections).set({ refreshingUntil: null }).where(still)
      throw error
    }
  }

  /** @throws ProviderError when HubSpot refuses the refresh, or cannot be reached. */
  return function accessToken(connection: HubspotConnection): Promise<string> {
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

function endsSoon({ accessExpiresAt }: HubspotConnection): boolean {
  return accessExpiresAt !== null && accessExpiresAt.getTime() - Date.now() < marginMs
}
