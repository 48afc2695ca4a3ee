import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import * as v from 'valibot'
import { migrationsFolder, rowsOf, type Transaction } from './open.ts'
import { ownTables } from './tables.ts'

const journal = v.object({ entries: v.array(v.object({ tag: v.string(), when: v.number() })) })

/** The migrations of this release, the oldest first. Their names tell the version of a database. */
export function knownMigrations() {
  const path = join(migrationsFolder, 'meta/_journal.json')
  return v.parse(journal, JSON.parse(readFileSync(path, 'utf8'))).entries
}

/** @returns the name of the last migration of a database; undefined if a newer release has migrated it. */
export async function lastMigrationOf(database: Transaction): Promise<string | undefined> {
  const [last] = await rowsOf<{ at: number }>(
    database,
    sql`select max(created_at)::float8 as at from drizzle.__drizzle_migrations`,
  )
  return knownMigrations().find(({ when }) => when === last?.at)?.tag
}

/**
 * Fills an empty, migrated database with rows of an older release. It makes that release's tables, fills them, and then
 * applies the later migrations.
 * @param tag the last migration of the older release.
 * @param fill gets the tables of that release.
 */
export async function fillAsOf(
  tx: Transaction,
  tag: string,
  fill: () => Promise<void>,
): Promise<void> {
  const statements = readMigrationFiles({ migrationsFolder }).map((migration) => migration.sql)
  const old = knownMigrations().findIndex((each) => each.tag === tag) + 1
  if (old < statements.length) {
    const tables = sql.join(ownTables().map(sql.identifier), sql`, `)
    // Not `cascade`, which would also drop what another program has made of them.
    await tx.execute(sql`drop table ${tables}`)
    for (const each of statements.slice(0, old).flat()) await tx.execute(sql.raw(each))
  }
  await fill()
  for (const each of statements.slice(old).flat()) await tx.execute(sql.raw(each))
}

export async function tableNames(database: Transaction): Promise<string[]> {
  const tables = await rowsOf<{ name: string }>(
    database,
    sql`select tablename as name from pg_tables where schemaname = 'public' order by name`,
  )
  return tables.map(({ name }) => name)
}
