import { and, eq } from 'drizzle-orm'
import type { Context as Request } from 'hono'
import type { Transaction } from '../database/open.ts'
import { connections, users } from '../database/schema.ts'
import type { Grant, Providers } from '../providers/provider.ts'
import { isCrmId, type ProviderId } from '../providers/registry.ts'
import { type Connection, storeConnection } from './connections.ts'
import { insertUser, userOfCrmIdentity } from './identity.ts'
import type { Browser, Sessions, SignedIn } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * Stores the connection and signs the browser in, in one transaction. Whoever connects a chat first becomes a user by
 * that. @param record stores what the browser is told, in the same transaction.
 * @returns the connection, and the user's former one if it had another grant.
 * @throws AuthorizationEnded if the browser was signed out or became another person's. Then nothing is stored.
 */
export async function completeAuthorization(
  {
    vault,
    providers,
    sessions,
    now,
  }: { vault: Vault; providers: Providers; sessions: Sessions; now: () => Date },
  c: Request,
  browser: Browser,
  provider: ProviderId,
  grant: Grant,
  record: (tx: Transaction, signedIn: SignedIn) => Promise<unknown>,
): Promise<{ stored: Connection; former: Connection | undefined }> {
  const { accountId: crmAccountId, accountUserId: crmUserId } = grant
  const { standIn = providers[provider].standIn } = grant
  const current = browser.session?.userId
  let result: { stored: Connection; former: Connection | undefined } | undefined
  async function storeGrant(tx: Transaction): Promise<string> {
    const userId =
      isCrmId(provider) && crmUserId !== null
        ? await userOfCrmIdentity(tx, { vault, providers }, current, {
            crm: provider,
            crmAccountId,
            crmUserId,
          })
        : (current ?? (await insertUser(tx)))
    // Of two authorizations of one user at the same time, the second finds the connection of the first.
    await tx.select().from(users).where(eq(users.id, userId)).for('no key update')
    const own = and(eq(connections.userId, userId), eq(connections.provider, provider))
    const [before] = await tx.select().from(connections).where(own)
    const owner = { userId, provider }
    const stored = await storeConnection(tx, vault, owner, { ...grant, standIn }, now())
    result = { stored, former: before?.grantId === grant.grantId ? undefined : before }
    return userId
  }
  await sessions.signIn(c, browser, storeGrant, record)
  if (result === undefined) throw new Error('Nobody was signed in.')
  return result
}
