import { and, eq, type SQL } from 'drizzle-orm'
import { waitAtMost } from '../background.ts'
import { connections } from '../database/schema.ts'
import { errorFields, type Log } from '../log.ts'
import type { Crm, Grant } from '../providers/provider.ts'
import { ProviderError } from '../providers/provider-error.ts'
import { isCrmId } from '../providers/registry.ts'
import { type AccessDependencies, endsSoon } from './access-token.ts'
import { type Connection, openSecrets } from './connections.ts'

/** The dashboard waits for it. */
const longestWaitMs = 5_000

export type RemovedConnection = Pick<Grant, 'accountId' | 'grantId' | 'accessExpiresAt'> &
  Pick<Connection, 'id' | 'userId' | 'provider' | 'webhookId' | 'secrets'>

/**
 * Creates the function that ends at the provider what a deleted or replaced connection may do there. It throws
 * nothing. If no user has connected the CRM's account any more, it uninstalls the app there, because
 * after a revocation it would still send its events. It does not wait for that.
 *
 * Another user may connect while this function ends the grant, and get a token that is no longer valid. The next
 * message or the daily check finds that out.
 */
export function createEndGrant(
  dependencies: AccessDependencies & { log: Log },
): (removed: RemovedConnection) => Promise<void> {
  const { database, vault, providers, log } = dependencies

  const ofProvider = ({ provider }: RemovedConnection, which: SQL) =>
    and(eq(connections.provider, provider), which)
  const ofGrant = (removed: RemovedConnection) =>
    ofProvider(removed, eq(connections.grantId, removed.grantId))
  const ofAccount = (removed: RemovedConnection) =>
    ofProvider(removed, eq(connections.accountId, removed.accountId))
  const exists = async (which: SQL | undefined) => (await database.$count(connections, which)) > 0

  async function revoke(removed: RemovedConnection): Promise<void> {
    const { provider } = removed
    try {
      // Revoke only if no other user shares the token.
      if (await exists(ofGrant(removed))) return
      let secrets = openSecrets(vault, removed)
      // Only a token that counts can delete the webhook.
      if (isCrmId(provider) && removed.webhookId !== null && endsSoon(removed)) {
        secrets = await providers[provider].refresh(secrets).then(
          (tokens) => tokens.secrets,
          () => secrets,
        )
        // The user may have connected again in the meantime.
        if (await exists(ofGrant(removed))) return
      }
      await providers[provider].revoke(secrets, removed)
    } catch (error) {
      logFailure('revoke failed', removed, error)
    }
  }

  async function uninstall(crm: Crm, removed: RemovedConnection): Promise<void> {
    try {
      const secrets = openSecrets(vault, removed)
      const { accessToken } = endsSoon(removed) ? (await crm.refresh(secrets)).secrets : secrets
      // Somebody may have connected the account again in the meantime.
      if (await exists(ofAccount(removed))) {
        log('app still used', { provider: removed.provider, connection: removed.id })
        return await revoke(removed)
      }
      await crm.uninstall?.(accessToken)
      log('app uninstalled', { provider: removed.provider, connection: removed.id })
    } catch (error) {
      logFailure('uninstall failed', removed, error)
      await revoke(removed)
    }
  }

  function logFailure(event: string, { provider, id }: RemovedConnection, error: unknown): void {
    const fields = error instanceof ProviderError ? error.fields : errorFields(error)
    log.warn(event, { provider, connection: id, ...fields })
  }

  return async function endGrant(removed) {
    const { provider } = removed
    const crm = isCrmId(provider) ? providers[provider] : undefined
    // If the database does not say whether it is the last one, the app stays installed.
    const isLast = async () => !(await exists(ofAccount(removed)).catch(() => true))
    if (crm?.uninstall && (await isLast())) void uninstall(crm, removed)
    else await waitAtMost(longestWaitMs, revoke(removed))
  }
}
