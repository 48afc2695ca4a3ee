import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, isNull, or, sql } from 'drizzle-orm'
import { isOver } from '../database/clock.ts'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import type { Crm, CrmAccess, Providers, Secrets, Urgency } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import type { CrmId } from '../providers/registry.ts'
import { type Connection, openSecrets, sealSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/** A token that expires within this time is refreshed, so that it does not expire during a call. */
const marginMs = 2 * 60_000

/** Longer than a refresh may take. If the process dies, other processes wait this long at most. */
const lockSeconds = 15

export type CrmConnection = Connection & { provider: CrmId }

/**
 * Makes a call to the CRM with a connection's access token.
 * @throws ProviderError of the call, or of a refresh. The kind is `refused` if the CRM refuses the refresh,
 * or if a permission is missing. The connection is then broken.
 */
export type WithAccess = <Result>(
  connection: CrmConnection,
  urgency: Urgency,
  call: (access: CrmAccess) => Promise<Result>,
) => Promise<Result>

/** What a call with a connection needs. */
export interface AccessDependencies {
  database: Database
  vault: Vault
  providers: Providers
}

/** Who shares what is read with a connection (`CrmAccess.sharedBy`). A connection keeps its id if its account changes. */
export const sharedBy = (
  { readsAs }: Pick<Crm, 'readsAs'>,
  { accountId, id }: Pick<Connection, 'accountId' | 'id'>,
) => (readsAs === 'user' ? `${accountId}/${id}` : accountId)

/**
 * Creates a function that calls the CRM with a connection's access token. It refreshes a token that
 * will expire soon. A 401 alone proves nothing, so after a 401 it refreshes the token and calls once
 * more. Only one process at a time refreshes a connection, because two refreshes would race.
 */
export function createWithAccess({ database, vault, providers }: AccessDependencies): WithAccess {
  const refreshing = new Map<string, Promise<Secrets>>()

  async function load({ id, provider }: CrmConnection): Promise<CrmConnection> {
    const [row] = await database.select().from(connections).where(eq(connections.id, id))
    if (row === undefined) throw new ProviderError(provider, 'refresh', 'refused', 'disconnected')
    return { ...row, provider }
  }

  async function refresh(connection: CrmConnection): Promise<Secrets> {
    for (;;) {
      const [locked] = await database
        .update(connections)
        .set({ refreshingUntil: sql`now() + make_interval(secs => ${lockSeconds})` })
        .where(
          and(
            eq(connections.id, connection.id),
            eq(connections.secrets, connection.secrets),
            or(
              isNull(connections.refreshingUntil),
              isOver(connections.refreshingUntil, lockSeconds * 1000),
            ),
          ),
        )
        .returning({ id: connections.id })
      if (locked !== undefined) return await refreshLocked(connection)

      // Another process is refreshing, or has just refreshed. Wait for the token that it stores.
      const current = await load(connection)
      if (current.secrets !== connection.secrets) return openSecrets(vault, current)
      await delay(100)
    }
  }

  async function refreshLocked(connection: CrmConnection): Promise<Secrets> {
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
      return secrets
    } catch (error) {
      await database.update(connections).set({ refreshingUntil: null }).where(unchanged)
      throw error
    }
  }

  function refreshOnce(connection: CrmConnection): Promise<Secrets> {
    const running = refreshing.get(connection.id)
    if (running !== undefined) return running
    const started = refresh(connection).finally(() => refreshing.delete(connection.id))
    refreshing.set(connection.id, started)
    return started
  }

  return async function withAccess(connection, urgency, call) {
    const accessWith = ({ accessToken, mayReadOwners, apiUrl }: Secrets): CrmAccess => ({
      accountId: connection.accountId,
      accessToken,
      urgency,
      mayReadOwners,
      apiUrl,
      sharedBy: sharedBy(providers[connection.provider], connection),
    })
    const secrets = endsSoon(connection)
      ? await refreshOnce(connection)
      : openSecrets(vault, connection)
    try {
      return await call(accessWith(secrets))
    } catch (error) {
      if (!(error instanceof ProviderError && error.kind === 'unauthorized')) throw error
      const current = await load(connection)
      const newest = openSecrets(vault, current)
      const isStale = newest.accessToken !== secrets.accessToken
      return await call(accessWith(isStale ? newest : await refreshOnce(current)))
    }
  }
}

export function endsSoon({ accessExpiresAt }: Pick<Connection, 'accessExpiresAt'>): boolean {
  return accessExpiresAt !== null && accessExpiresAt.getTime() - Date.now() < marginMs
}
