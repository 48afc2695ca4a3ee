import { and, eq, sql } from 'drizzle-orm'
import { openSecrets, sealSecrets } from './connections.ts'
import type { Database } from './database/open.ts'
import { connections, rules, sessions, users } from './database/schema.ts'
import type { Session } from './session.ts'
import type { Vault } from './vault.ts'

/**
 * Who a session belongs to, now that its browser has shown which HubSpot user sits before it: the
 * user that this person already is here, so that rules and connections are found again, or else the
 * session's own user, who is this person from now on.
 */
export async function userOfHubspotIdentity(
  database: Database,
  vault: Vault,
  session: Session,
  { hubId, hubspotUserId }: { hubId: string; hubspotUserId: string },
): Promise<string> {
  return await database.transaction(async (tx) => {
    // Two browsers of one new person at once: the second waits, and then finds the first's user.
    const name = `hubspot:${hubId}:${hubspotUserId}`
    await tx.execute(sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`)
    const [known] = await tx
      .select({ id: users.id })
      .from(users)
      .where(and(eq(users.hubspotHubId, hubId), eq(users.hubspotUserId, hubspotUserId)))
    if (known === undefined) {
      await tx
        .update(users)
        .set({ hubspotHubId: hubId, hubspotUserId })
        .where(eq(users.id, session.userId))
      return session.userId
    }
    if (known.id === session.userId) return known.id

    await tx
      .update(sessions)
      .set({ userId: known.id })
      .where(eq(sessions.tokenHash, session.tokenHash))
    const [former] = await tx.select().from(users).where(eq(users.id, session.userId))
    // What another identity has stays with it; what an unnamed browser has done goes along.
    if (former !== undefined && former.hubspotHubId === null) {
      await bringAlong(tx, vault, former.id, known.id)
    }
    return known.id
  })
}

async function bringAlong(
  tx: Pick<Database, 'select' | 'insert' | 'update' | 'delete'>,
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
