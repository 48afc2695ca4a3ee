import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import { getTableName, is, sql } from 'drizzle-orm'
import { getTableConfig, PgTable } from 'drizzle-orm/pg-core'
import * as v from 'valibot'
import { migrations } from '../database/migrate.ts'
import { type Database, rowsOf, type Transaction } from '../database/open.ts'
import { Refused } from '../database/refused.ts'
import * as schema from '../database/schema.ts'
import { errorCode } from '../log.ts'
import { checkKeys } from '../people/keys.ts'
import type { Vault } from '../people/vault.ts'
import { fieldsOf } from './ask.ts'

// The file of `npm run data` has one JSON object in each line: first a header, then the rows, and at the end their
// number, without which the file is cut off. Tokens stay sealed, as in the database. The key is not in the file.

/** The time of the last migration tells which columns the tables have. */
const migratedAt = migrations.at(-1)?.at

const lineShape = v.union([
  v.object({ table: v.string(), rows: v.array(v.unknown()) }),
  v.object({ end: v.number() }),
])

/** All tables, each one after the tables that its rows refer to. */
export function tablesInOrder(): PgTable[] {
  const sorted: PgTable[] = []
  function add(table: PgTable): void {
    if (sorted.includes(table)) return
    for (const key of getTableConfig(table).foreignKeys) add(key.reference().foreignTable)
    sorted.push(table)
  }
  for (const each of Object.values(schema)) if (is(each, PgTable)) add(each)
  return sorted
}

/**
 * Writes all rows, as they are at one moment.
 * @returns the number of rows.
 */
export async function exportData(
  database: Database,
  writeText: (text: string) => Promise<void>,
): Promise<number> {
  const write = (value: unknown) => writeText(`${JSON.stringify(value)}\n`)
  let count = 0
  await write({ dealbell: migratedAt })
  await database.transaction(
    async (tx) => {
      for (const table of tablesInOrder()) {
        await tx.execute(
          sql`declare exported no scroll cursor for select row_to_json(${table}) as row from ${table}`,
        )
        for (;;) {
          const found = await rowsOf<{ row: unknown }>(tx, sql`fetch 1000 from exported`)
          if (found.length === 0) break
          const rows = found.map(({ row }) => row)
          await write({ table: getTableName(table), rows })
          count += rows.length
        }
        await tx.execute(sql`close exported`)
      }
    },
    { isolationLevel: 'repeatable read', accessMode: 'read only' },
  )
  await write({ end: count })
  return count
}

/**
 * Writes all rows of a file to an empty database, or none.
 * @returns the number of rows.
 * @throws Error if the file is of another release or not complete, or if the vault does not open its tokens.
 */
export async function importData(database: Database, path: string, vault: Vault): Promise<number> {
  return await database.transaction(async (tx) => {
    // A server that has started once has stored it.
    await tx.execute(sql`delete from ${schema.keyCheck}`)
    const lines = linesOf(path)
    const header = await lines.next().catch((error: unknown) => {
      throw new Error(`${path} cannot be read (${errorCode(error)}).`, { cause: error })
    })
    const otherForm = await otherFormOf(path)
    if (otherForm !== undefined) throw new Error(`${path} ${otherForm}`)
    if (fieldsOf(header.value ?? '').dealbell !== migratedAt) {
      throw new Error(`${path} was not made by 'npm run data -- export' of this release.`)
    }
    let count = 0
    let isComplete = false
    for await (const text of lines) {
      const line = v.safeParse(lineShape, fieldsOf(text))
      isComplete = line.success && 'end' in line.output && line.output.end === count
      if (!line.success || !('table' in line.output)) continue
      const table = sql.identifier(line.output.table)
      const rows = JSON.stringify(line.output.rows)
      await tx.execute(
        sql`insert into ${table} overriding system value
            select * from json_populate_recordset(null::${table}, ${rows}::json)`,
      )
      count += line.output.rows.length
    }
    if (!isComplete) {
      throw new Error(`${path} is cut off or was changed. Take another copy of the file.`)
    }
    await advanceIdentities(tx)
    await checkKeys(tx, vault)
    return count
  })
}

/** Makes new rows get ids after those of the imported rows. */
async function advanceIdentities(tx: Transaction): Promise<void> {
  for (const table of [schema.dealEvents, schema.deliveries]) {
    await tx.execute(
      sql`select setval(pg_get_serial_sequence(${getTableName(table)}, 'id'), max(${table.id})) from ${table}`,
    )
  }
}

/** What somebody has done to a file since its export. Undefined if nothing shows that. */
async function otherFormOf(path: string): Promise<string | undefined> {
  const file = await open(path)
  try {
    const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 0)
    const begin = buffer.toString('hex')
    if (begin === '1f8b') return 'is compressed. Unpack it first (gunzip).'
    if (['fffe', 'feff'].includes(begin)) return 'is in UTF-16. Take the file as it was exported.'
    return undefined
  } finally {
    await file.close()
  }
}

/** Yields the complete lines of a file. `node:readline` would also split at U+2028, which JSON may hold. */
async function* linesOf(path: string): AsyncGenerator<string> {
  let rest = ''
  let isFirst = true
  for await (const chunk of createReadStream(path, { encoding: 'utf8', highWaterMark: 2 ** 20 })) {
    // An editor of Windows may have added a byte order mark.
    const text = isFirst ? String(chunk).replace(/^\uFEFF/, '') : chunk
    isFirst = false
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
}

/** @throws Refused if the tables are not those of this release, or do not exist. */
export async function requireThisRelease(database: Transaction): Promise<void> {
  const journal = sql`select where to_regclass('dealbell_migrations') is not null`
  const exists = (await rowsOf(database, journal)).length > 0
  const applied = exists
    ? await rowsOf<{ hash: string }>(database, sql`select hash from dealbell_migrations`)
    : []
  const isKnown = ({ hash }: { hash: string }) => migrations.some((each) => each.hash === hash)
  if (applied.length === migrations.length && applied.every(isKnown)) return
  throw new Refused(
    'The database is empty or of another release. Use that release, or start the server of this one (npm start): it updates the database.',
  )
}

/** @throws Refused if any table has a row. A started server may have left `key_check`. */
export async function requireEmpty(database: Transaction): Promise<void> {
  for (const table of tablesInOrder().filter((each) => each !== schema.keyCheck)) {
    const name = getTableName(table)
    const exists = await rowsOf(database, sql`select where to_regclass(${name}) is not null`)
    if (exists.length === 0) continue
    const rows = await rowsOf(database, sql`select from ${table} limit 1`)
    if (rows.length === 0) continue
    throw new Refused(
      'The database is not empty. Import into a new one: an empty database of PostgreSQL, or a DATA_DIR that no server has used.',
    )
  }
}
