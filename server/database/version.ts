import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import * as v from 'valibot'
import { migrationsFolder, rowsOf, type Transaction } from './open.ts'

const journal = v.object({ entries: v.array(v.object({ tag: v.string(), when: v.number() })) })

/** The names of all migrations of this release, the oldest first. */
export function knownMigrations() {
  const path = join(migrationsFolder, 'meta/_journal.json')
  return v.parse(journal, JSON.parse(readFileSync(path, 'utf8'))).entries
}

/** @returns the name of the last migration of a database; undefined if it is of a newer release. */
export async function lastMigrationOf(database: Transaction): Promise<string | undefined> {
  const [last] = await rowsOf<{ at: number }>(
    database,
    sql`select max(created_at)::float8 as at from drizzle.__drizzle_migrations`,
  )
  return knownMigrations().find(({ when }) => when === last?.at)?.tag
}
