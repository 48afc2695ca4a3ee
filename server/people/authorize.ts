import type { Context as Request } from 'hono'
import type { Database } from '../database/open.ts'
import type { Grant } from '../providers/provider.ts'
import { isCrmId, type ProviderId } from '../providers/registry.ts'
import { storeConnection } from './connections.ts'
import { userOfCrmIdentity } from './identity.ts'
import type { Session, Sessions } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * Completes an authorization in one transaction. Stores the connection. For a CRM, also signs the
 * browser in as the user with the CRM's identity.
 */
export async function completeAuthorization(
  {
    database,
    vault,
    sessions,
    now,
  }: { database: Database; vault: Vault; sessions: Sessions; now: () => Date },
  c: Request,
  session: Session,
  provider: ProviderId,
  grant: Grant,
): Promise<void> {
  const { accountId: crmAccountId, accountUserId: crmUserId } = grant
  if (!isCrmId(provider) || crmUserId === null) {
    const owner = { userId: session.userId, provider }
    return await storeConnection(database, vault, owner, grant, now())
  }
  await sessions.renew(c, session, async (tx) => {
    const identity = { crm: provider, crmAccountId, crmUserId }
    const userId = await userOfCrmIdentity(tx, vault, session.userId, identity)
    await storeConnection(tx, vault, { userId, provider }, grant, now())
    return userId
  })
}
