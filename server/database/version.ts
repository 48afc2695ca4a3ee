import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { readMigrationFiles } from 'drizzle-orm/migrator'
import * as v from 'valibot'
import { migrationsFolder, Refused, rowsOf, type Transaction } from './open.ts'
import { ownTables } from './tables.ts'

const journal = v.object({ entries: v.array(v.object({ tag: v.string(), when: v.number() })) })

/** The migrations of this release, the oldest first. Their names tell the version of a database. */
export function knownMigrations() {
  const path = join(migrationsFolder, 'meta/_journal.json')
  return v.parse(journal, JSON.parse(readFileSync(path, 'utf8'))).entries
}

/** @returns the name of the last migration of a database; undefined if a newer release has migrated it. */
export async function lastMigrationOf(database: Transaction): Promise<string | undefined> {
  const last = await lastMigrationAt(database)
  return knownMigrations().find(({ when }) => when === last)?.tag
}

/**
 * Leaves the update of a database to the server, which needs it. A newer release's database needs none: a migration
 * only adds.
 * @throws Refused if this release would migrate the database.
 */
export async function refuseToMigrate(database: Transaction): Promise<void> {
  const last = await lastMigrationAt(database)
  if (knownMigrations().every(({ when }) => when <= last)) return
  throw new Refused(
    'The database is empty or of an older release. Use that release, or start the server of this one (npm start): it updates the database.',
  )
}

/** 0 if the database has no migrations. */
async function lastMigrationAt(database: Transaction): Promise<number> {
  const table = 'drizzle.__drizzle_migrations'
  const tables = await rowsOf(database, sql`select where to_regclass(${table}) is not null`)
  if (tables.length === 0) return 0
  const [last] = await rowsOf<{ at: number | null }>(
    database,
    sql`select max(created_at)::float8 as at from ${sql.raw(table)}`,
  )
  return last?.at ?? 0
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
