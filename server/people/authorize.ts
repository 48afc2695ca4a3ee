import type { Context as Request } from 'hono'
import type { Grant, Providers } from '../providers/provider.ts'
import { isCrmId, type ProviderId } from '../providers/registry.ts'
import { storeConnection } from './connections.ts'
import { userOfChat, userOfCrmIdentity } from './identity.ts'
import type { Session, Sessions } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * Completes an authorization in one transaction: stores the connection, replaces the session's token
 * and, for a CRM, signs the browser in as the person that the CRM names.
 */
export async function completeAuthorization(
  {
    vault,
    providers,
    sessions,
    now,
  }: { vault: Vault; providers: Providers; sessions: Sessions; now: () => Date },
  c: Request,
  session: Session,
  provider: ProviderId,
  grant: Grant,
): Promise<void> {
  const { accountId: crmAccountId, accountUserId: crmUserId } = grant
  const { standIn } = providers[provider]
  await sessions.renew(c, session, async (tx) => {
    const userId =
      isCrmId(provider) && crmUserId !== null
        ? await userOfCrmIdentity(tx, { vault, providers }, session.userId, {
            crm: provider,
            crmAccountId,
            crmUserId,
          })
        : await userOfChat(tx, providers, session.userId)
    await storeConnection(tx, vault, { userId, provider }, { ...grant, standIn }, now())
    return userId
  })
}
