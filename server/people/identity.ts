import { and, eq, inArray, isNull, sql } from 'drizzle-orm'
import type { Transaction } from '../database/open.ts'
import { connections, rules, users } from '../database/schema.ts'
import { type CrmId, chatIds } from '../providers/registry.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import { insertUser } from './session.ts'
import type { Vault } from './vault.ts'

/** The identity of a person at the CRM. */
interface CrmIdentity {
  crm: CrmId
  crmAccountId: string
  crmUserId: string
}

/**
 * Finds the user with a CRM identity. The browser of `userId` has just proved this identity. If a
 * user has the identity, returns that user, who finds rules and connections again. Otherwise
 * `userId` gets the identity. If `userId` already has another identity, a new user gets the proved
 * one.
 * @returns the user's id.
 */
export async function userOfCrmIdentity(
  tx: Transaction,
  vault: Vault,
  userId: string,
  identity: CrmIdentity,
): Promise<string> {
  const { crm, crmAccountId, crmUserId } = identity
  // Two browsers may prove the same new identity at the same time. The second one waits here, and
  // then finds the user of the first.
  const name = `${crm}:${crmAccountId}:${crmUserId}`
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
  const [known] = await tx
    .select({ id: users.id })
    .from(users)
    .where(
      and(eq(users.crm, crm), eq(users.crmAccountId, crmAccountId), eq(users.crmUserId, crmUserId)),
    )
  // Lock the row, because two tabs of a new browser can prove two identities at the same time.
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

/** Moves chat connections and rules from a user without an identity to the known user. */
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
    // The channel that was chosen last counts.
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
