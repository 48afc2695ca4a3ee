import { getTableName, is } from 'drizzle-orm'
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core'
import * as schema from './schema.ts'

/**
 * A session is only in one browser's cookie. An authorization is a part of a session, and lasts for minutes. The recent
 * calls count for seconds.
 */
export const tablesLeftOut: readonly PgTable[] = [
  schema.sessions,
  schema.authorizations,
  schema.recentCalls,
]

/** All tables whose rows an export has, each one after the tables that its rows refer to. */
export function exportedTables(): PgTable[] {
  const sorted: PgTable[] = []
  function add(table: PgTable): void {
    if (sorted.includes(table) || tablesLeftOut.includes(table)) return
    for (const key of getTableConfig(table).foreignKeys) add(key.reference().foreignTable)
    sorted.push(table)
  }
  for (const each of Object.values(schema)) if (is(each, PgTable)) add(each)
  return sorted
}

/** The names of all tables of this release. */
export function ownTables(): string[] {
  return [...exportedTables(), ...tablesLeftOut].map(getTableName)
}
