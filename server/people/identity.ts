import { and, eq, isNull, sql } from 'drizzle-orm'
import { connections, rules, users } from '../database/schema.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import { insertUser, type Transaction } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * The user of a HubSpot identity that the browser of `userId` has just shown: the one that this person
 * already is here, so that rules and connections are found again, or else `userId`, who is this person
 * from now on. A user who has another identity keeps it and all that is theirs; this one gets a new user.
 */
export async function userOfHubspotIdentity(
  tx: Transaction,
  vault: Vault,
  userId: string,
  { hubId, hubspotUserId }: { hubId: string; hubspotUserId: string },
): Promise<string> {
  // Two browsers of one new person at once: the second waits, and then finds the first's user.
  const name = `hubspot:${hubId}:${hubspotUserId}`
  await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
  const [known] = await tx
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.hubspotHubId, hubId), eq(users.hubspotUserId, hubspotUserId)))
  // Locked, since two tabs of one new browser can show two identities at once.
  const [unnamed] = await tx
    .select({ id: users.id })
    .from(users)
    .where(and(eq(users.id, userId), isNull(users.hubspotHubId)))
    .for('update')

  if (known !== undefined) {
    if (unnamed !== undefined) await bringAlong(tx, vault, unnamed.id, known.id)
    return known.id
  }
  const id = unnamed?.id ?? (await insertUser(tx))
  await tx.update(users).set({ hubspotHubId: hubId, hubspotUserId }).where(eq(users.id, id))
  return id
}

/** What an unnamed browser has done goes along with the person it turns out to be. */
async function bringAlong(
  tx: Transaction,
  vault: Vault,
  fromUser: string,
  toUser: string,
): Promise<void> {
  const [chat] = await tx
    .select()
    .from(connections)
    .where(and(eq(connections.userId, fromUser), eq(connections.provider, 'slack')))
  if (chat !== undefined) {
    // The channel that was chosen last is the one that is meant.
    await tx
      .delete(connections)
      .where(and(eq(connections.userId, toUser), eq(connections.provider, 'slack')))
    const owner = { userId: toUser, provider: chat.provider }
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
