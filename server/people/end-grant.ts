import { and, eq, type SQL } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import type { Log } from '../log.ts'
import { type Crm, ProviderError, type Providers } from '../providers/provider.ts'
import { isCrmId } from '../providers/registry.ts'
import { endsSoon } from './access-token.ts'
import { type Connection, openSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/**
 * Creates the function that ends at the provider what a deleted connection may do there. It throws
 * nothing. If no user has connected the CRM's account any more, it uninstalls the app there, because
 * after a revocation it would still send its events. It does not wait for that.
 */
export function createEndGrant({
  database,
  vault,
  providers,
  log,
}: {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
}): (removed: Connection) => Promise<void> {
  async function isConnected({ provider, standIn }: Connection, which: SQL): Promise<boolean> {
    const ofProvider = and(eq(connections.provider, provider), eq(connections.standIn, standIn))
    return (await database.$count(connections, and(ofProvider, which))) > 0
  }
  const isAccountConnected = (removed: Connection) =>
    isConnected(removed, eq(connections.accountId, removed.accountId))

  async function revoke(removed: Connection): Promise<void> {
    try {
      // Revoke only if no other user shares the token: Slack has one token for each workspace.
      if (await isConnected(removed, eq(connections.grantId, removed.grantId))) return
      await providers[removed.provider].revoke(openSecrets(vault, removed))
    } catch (error) {
      logFailure('revoke failed', removed, error)
    }
  }

  async function uninstall(crm: Crm, removed: Connection): Promise<void> {
    try {
      const secrets = openSecrets(vault, removed)
      const { accessToken } = endsSoon(removed) ? (await crm.refresh(secrets)).secrets : secrets
      // Somebody may have connected the account again in the meantime.
      if (await isAccountConnected(removed)) {
        log('app still used', { provider: removed.provider, connection: removed.id })
        return await revoke(removed)
      }
      await crm.uninstall(accessToken)
      log('app uninstalled', { provider: removed.provider, connection: removed.id })
    } catch (error) {
      logFailure('uninstall failed', removed, error)
      await revoke(removed)
    }
  }

  function logFailure(event: string, { provider, id }: Connection, error: unknown): void {
    log(event, {
      provider,
      connection: id,
      kind: error instanceof ProviderError ? error.kind : 'internal',
      reason: error instanceof ProviderError ? error.reason : undefined,
    })
  }

  return async function endGrant(removed) {
    const { provider, standIn } = removed
    // The real provider never sees a token that its stand-in issued.
    if (standIn !== providers[provider].standIn) return
    // If the database does not say whether it is the last one, the app stays installed.
    const isLast = async () => !(await isAccountConnected(removed).catch(() => true))
    if (isCrmId(provider) && (await isLast())) void uninstall(providers[provider], removed)
    else await revoke(removed)
  }
}
