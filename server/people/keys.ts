import { and, eq, gt, sql } from 'drizzle-orm'
import { batchRows, inBatches } from '../database/batches.ts'
import { type Database, rowsOf } from '../database/open.ts'
import { connections, keyCheck } from '../database/schema.ts'
import { openSecrets, sealSecrets } from './connections.ts'
import type { Vault } from './vault.ts'

/**
 * Checks at the start that our keys can open all stored secrets. Otherwise each call would fail later.
 * @returns the keys that sealed them. @throws Error that says what to set.
 */
export async function checkKeys(database: Database, vault: Vault): ReturnType<typeof keysInUse> {
  const keys = await keysInUse(database)
  const sum = (counted: typeof keys) => counted.reduce((total, { count }) => total + count, 0)
  const locked = sum(keys.filter(({ sealed }) => !vault.holdsKeyOf(sealed)))
  if (locked > 0) {
    throw new Error(
      `ENCRYPTION_KEY does not open ${locked} of ${sum(keys)} stored connections. ` +
        'Set it to the new key, a comma and the key that encrypted them.',
    )
  }
  return keys
}

/** The keys that sealed the stored connections, each with one sealed value. There are few keys, and many connections. */
const keysInUse = (database: Pick<Database, 'execute'>) =>
  rowsOf<{ key: string; sealed: string; count: number }>(
    database,
    sql`select ${keyOf} as key, min(secrets) as sealed, count(*)::int as count from connections group by 1`,
  )
const keyOf = sql`split_part(secrets, '.', 2)`

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
export async function sealWithNewestKey(
  database: Database,
  vault: Vault,
  keys: Awaited<ReturnType<typeof checkKeys>>,
): Promise<void> {
  for (const { key, sealed } of keys) {
    if (vault.isNewest(sealed)) continue
    let after = '00000000-0000-0000-0000-000000000000'
    await inBatches(async () => {
      const rows = await database
        .select()
        .from(connections)
        .where(and(gt(connections.id, after), eq(keyOf, key)))
        .orderBy(connections.id)
        .limit(batchRows)
      for (const row of rows) {
        await database
          .update(connections)
          .set({ secrets: sealSecrets(vault, row, openSecrets(vault, row)) })
          // Another process may have refreshed the token in the meantime. Do not overwrite it.
          .where(and(eq(connections.id, row.id), eq(connections.secrets, row.secrets)))
      }
      after = rows.at(-1)?.id ?? after
      return rows.length
    })
  }
}
