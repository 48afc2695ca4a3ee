import { and, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { Transaction } from '../database/open.ts'
import { connections, rules, users } from '../database/schema.ts'
import type { Providers } from '../providers/provider.ts'
import { type CrmId, chatIds } from '../providers/registry.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import { standInMark } from './stand-ins.ts'
import type { Vault } from './vault.ts'

interface CrmIdentity {
  crm: CrmId
  crmAccountId: string
  crmUserId: string
}

/**
 * Returns the id of the user with a CRM identity, which the browser of `userId` has just proved. If there is none,
 * `userId` gets the identity, or a new user if there is no `userId` or it has another identity.
 */
export async function userOfCrmIdentity(
  tx: Transaction,
  dependencies: { vault: Vault; providers: Providers },
  userId: string | undefined,
  { crm, crmUserId, crmAccountId: accountId }: CrmIdentity,
): Promise<string> {
  const crmAccountId = storedAccountId(dependencies.providers, crm, accountId)
  // Two browsers of one new person at the same time: the second waits and then finds the first's user.
  const name = `${crm}:${crmAccountId}:${crmUserId}`
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
  const [known] = await tx
    .select({ id: users.id })
    .from(users)
    .where(ofIdentity(dependencies.providers, { crm, crmUserId, crmAccountId: accountId }))
  // Lock the row, because two tabs of a new browser can prove two identities at the same time.
  const isUnnamed = userId && and(eq(users.id, userId), isNull(users.crmUserId))
  const [unnamed] = isUnnamed
    ? await tx.select({ id: users.id }).from(users).where(isUnnamed).for('update')
    : []

  if (known !== undefined) {
    if (unnamed !== undefined) await moveToUser(tx, dependencies, unnamed.id, known.id)
    return known.id
  }
  const id = unnamed?.id ?? (await insertUser(tx))
  await tx.update(users).set({ crm, crmAccountId, crmUserId }).where(eq(users.id, id))
  return id
}

/** The condition that a user has this CRM identity. */
export const ofIdentity = (providers: Providers, { crm, crmAccountId, crmUserId }: CrmIdentity) =>
  and(
    eq(users.crm, crm),
    eq(users.crmAccountId, storedAccountId(providers, crm, crmAccountId)),
    eq(users.crmUserId, crmUserId),
  )

const storedAccountId = (providers: Providers, crm: CrmId, accountId: string) =>
  providers[crm].standIn ? standInMark + accountId : accountId

export async function insertUser(tx: Transaction): Promise<string> {
  const [user] = await tx.insert(users).values({}).returning({ id: users.id })
  if (user === undefined) throw new Error('The insert of a user returned no row.')
  return user.id
}

/**
 * Gives what an unnamed browser has done to the person it turns out to be. It never replaces what this
 * person has: on a shared browser, somebody else may have done it.
 */
async function moveToUser(
  tx: Transaction,
  { vault }: { vault: Vault },
  fromUser: string,
  toUser: string,
): Promise<void> {
  const chats = await tx.select().from(connections).where(isChatOf(fromUser))
  for (const chat of chats) {
    const owner = { userId: toUser, provider: chat.provider }
    const own = and(eq(connections.userId, toUser), eq(connections.provider, chat.provider))
    const [kept] = await tx.select({ id: connections.id }).from(connections).where(own)
    if (kept !== undefined) continue
    const secrets = sealSecrets(vault, owner, openSecrets(vault, chat))
    await tx
      .update(connections)
      .set({ ...owner, secrets })
      .where(eq(connections.id, chat.id))
  }
  // No call revokes what is left, because it may be another person's account. Nobody has its token now.
  await tx.delete(connections).where(isChatOf(fromUser))
  const [saved] = await tx.select().from(rules).where(eq(rules.userId, fromUser))
  if (saved !== undefined) {
    await tx
      .insert(rules)
      .values({ ...saved, userId: toUser })
      .onConflictDoNothing()
    await tx.delete(rules).where(eq(rules.userId, fromUser))
  }
}

function isChatOf(userId: string) {
  return and(eq(connections.userId, userId), inArray(connections.provider, [...chatIds]))
}
