import { and, eq } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections, keyCheck } from '../database/schema.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/**
 * Checks at the start that our keys can open all stored secrets. Otherwise each call would fail
 * later.
 * @throws Error that says what to set.
 */
export async function checkKeys(database: Database, vault: Vault): Promise<void> {
  const rows = await database.select({ secrets: connections.secrets }).from(connections)
  const locked = rows.filter((row) => !vault.holdsKeyOf(row.secrets)).length
  if (locked > 0) {
    throw new Error(
      `ENCRYPTION_KEY does not open ${locked} of ${rows.length} stored connections. ` +
        'Set it to the new key, a comma and the key that encrypted them.',
    )
  }
}

/**
 * Checks that all processes on this database share a key, because each must open what others seal.
 * For this check, the first process stores a sealed value, because there may be no connection yet.
 * @throws Error that says what to set.
 */
export async function checkSharedKey(database: Database, vault: Vault): Promise<void> {
  const sealed = vault.seal('', 'key_check.sealed')
  await database.insert(keyCheck).values({ id: 1, sealed }).onConflictDoNothing()
  const rows = await database.select().from(keyCheck)
  for (const row of rows) {
    if (!vault.holdsKeyOf(row.sealed)) {
      throw new Error(
        'ENCRYPTION_KEY is not the one that this database was begun with. Every process needs the ' +
          'same; without ENCRYPTION_KEY each DATA_DIR has its own, in the file encryption.key.',
      )
    }
    // Seal the value again, so that it does not need the older key any more.
    if (!vault.isNewest(row.sealed)) await database.update(keyCheck).set({ sealed })
  }
}

/** Seals all secrets of older keys again, so that the operator can remove these keys. */
export async function sealWithNewestKey(database: Database, vault: Vault): Promise<void> {
  const rows = await database.select().from(connections)
  for (const row of rows.filter(({ secrets }) => !vault.isNewest(secrets))) {
    await database
      .update(connections)
      .set({ secrets: sealSecrets(vault, row, openSecrets(vault, row)) })
      // Another process may have refreshed the token in the meantime. Do not overwrite it.
      .where(and(eq(connections.id, row.id), eq(connections.secrets, row.secrets)))
  }
}
