import { and, eq } from 'drizzle-orm'
import type { Context as Request } from 'hono'
import { authorizations, connections, users } from '../database/schema.ts'
import type { Grant, Providers } from '../providers/provider.ts'
import { isCrmId, type ProviderId } from '../providers/registry.ts'
import { type Connection, storeConnection } from './connections.ts'
import { userOfChat, userOfCrmIdentity } from './identity.ts'
import { AuthorizationEnded, type Session, type Sessions } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * Completes the authorization `stateHash` in one transaction: stores the connection, replaces the session's token
 * and, for a CRM, signs the browser in as the person that the CRM names.
 * @returns the user's former connection if it had another grant.
 * @throws AuthorizationEnded if the session was ended or replaced, or the user has disconnected the provider, since
 * the authorization began. Then nothing is stored.
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
  { provider, stateHash }: { provider: ProviderId; stateHash: string },
  grant: Grant,
): Promise<Connection | undefined> {
  const { accountId: crmAccountId, accountUserId: crmUserId } = grant
  const { standIn } = providers[provider]
  let former: Connection | undefined
  await sessions.renew(c, session, async (tx) => {
    const [begun] = await tx
      .delete(authorizations)
      .where(eq(authorizations.stateHash, stateHash))
      .returning({ stateHash: authorizations.stateHash })
    if (begun === undefined) throw new AuthorizationEnded()
    const userId =
      isCrmId(provider) && crmUserId !== null
        ? await userOfCrmIdentity(tx, { vault, providers }, session.userId, {
            crm: provider,
            crmAccountId,
            crmUserId,
          })
        : await userOfChat(tx, providers, session.userId)
    // Of two authorizations of one user at the same time, the second finds the connection of the first.
    await tx.select().from(users).where(eq(users.id, userId)).for('no key update')
    const own = and(eq(connections.userId, userId), eq(connections.provider, provider))
    const [before] = await tx.select().from(connections).where(own)
    await storeConnection(tx, vault, { userId, provider }, { ...grant, standIn }, now())
    if (before !== undefined && before.grantId !== grant.grantId) former = before
    return userId
  })
  return former
}
