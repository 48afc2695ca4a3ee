import { and, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { Transaction } from '../database/open.ts'
import { connections, rules, users } from '../database/schema.ts'
import { type CrmId, chatIds } from '../providers/registry.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import { insertUser } from './session.ts'
import type { Vault } from './vault.ts'

/** Who a person is at the CRM. */
interface CrmIdentity {
  crm: CrmId
  crmAccountId: string
  crmUserId: string
}

/**
 * Finds the user of a CRM identity that the browser of `userId` has just proved. If this person is
 * known, it is that user, so rules and connections are found again. Otherwise `userId` gets the
 * identity. A user who already has another identity keeps it, and the person becomes a new user.
 * @returns the user's id.
 */
export async function userOfCrmIdentity(
  tx: Transaction,
  vault: Vault,
  userId: string,
  identity: CrmIdentity,
): Promise<string> {
  const { crm, crmAccountId, crmUserId } = identity
  // Two browsers of one new person at the same time: the second waits and then finds the first's user.
  const name = `${crm}:${crmAccountId}:${crmUserId}`
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
  const [known] = await tx
    .select({ id: users.id })
    .from(users)
    .where(
      and(eq(users.crm, crm), eq(users.crmAccountId, crmAccountId), eq(users.crmUserId, crmUserId)),
    )
  // Lock the row: two tabs of one new browser can prove two identities at the same time.
  const [unnamed] = await tx
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, userId), isNull(users.crmUserId)))
    .for('update')

  if (known !== undefined) {
    if (unnamed !== undefined) await moveToUser(tx, vault, unnamed.id, known.id)
    return known.id
  }
  const id = unnamed?.id ?? (await insertUser(tx))
  await tx.update(users).set(identity).where(eq(users.id, id))
  return id
}

/** Gives what an unnamed browser has done to the person it turns out to be. */
async function moveToUser(
  tx: Transaction,
  vault: Vault,
  fromUser: string,
  toUser: string,
): Promise<void> {
  const chats = await tx
    .select()
    .from(connections)
    .where(and(eq(connections.userId, fromUser), inArray(connections.provider, [...chatIds])))
  for (const chat of chats) {
    const owner = { userId: toUser, provider: chat.provider }
    // The channel that was chosen last wins.
    await tx
      .delete(connections)
      .where(and(eq(connections.userId, toUser), eq(connections.provider, chat.provider)))
    const secrets = sealSecrets(vault, owner, openSecrets(vault, chat))
    await tx
      .update(connections)
      .set({ ...owner, secrets })
      .where(eq(connections.id, chat.id))
  }
  const [saved] = await tx.select().from(rules).where(eq(rules.userId, fromUser))
  if (saved !== undefined) {
    await tx
      .insert(rules)
      .values({ ...saved, userId: toUser })
      .onConflictDoNothing()
    await tx.delete(rules).where(eq(rules.userId, fromUser))
  }
}
