import * as v from 'valibot'
import { errorCode } from '../log.ts'
import { providerIds } from '../providers/registry.ts'

/** The most connections of a provider whose scopes are checked. The newest come first. */
const mostChecked = 20

/** What the doctor needs to know of a database. Secrets stay encrypted. */
export const stored = v.object({
  /** Why nothing can be written: PostgreSQL's error code (SQLSTATE); null if writing works. */
  writeError: v.nullable(v.string()),
  /** False if no server has used the database yet. */
  hasTables: v.boolean(),
  /** The beginning of sealed values, which tells the key, and how many connections have it. */
  keys: v.array(v.object({ sealed: v.string(), connections: v.number() })),
  /** The newest connections of each provider. */
  connections: v.array(
    v.object({
      userId: v.string(),
      provider: v.picklist(providerIds),
      standIn: v.boolean(),
      secrets: v.string(),
      account: v.nullable(v.string()),
      brokenReason: v.nullable(v.string()),
    }),
  ),
})
export type Stored = v.InferOutput<typeof stored>

// The exception undoes the insert. Its code tells that the insert worked.
const undone = 'DB000'
const tryToWrite = (statement: string) =>
  `do $$ begin ${statement}; raise exception 'undone' using errcode = '${undone}'; end $$`

/**
 * Reads what the doctor needs to know, and changes nothing.
 * @param query runs one SQL statement and returns its rows.
 * @throws the error of the database if it cannot be read.
 */
export async function readStored(query: (statement: string) => Promise<unknown>): Promise<Stored> {
  async function writeErrorOf(statement: string): Promise<string | null> {
    try {
      await query(tryToWrite(statement))
      return 'no_exception'
    } catch (error) {
      const code = errorCode(error) ?? ''
      // Any other code is of the connection.
      if (!/^[0-9A-Z]{5}$/.test(code)) throw error
      return code === undone ? null : code
    }
  }
  const rows = async <Row extends v.GenericSchema>(row: Row, statement: string) =>
    v.parse(v.array(row), await query(statement))

  const tables = await rows(
    v.object({ name: v.nullable(v.string()) }),
    "select to_regclass('connections')::text as name",
  )
  if (tables[0]?.name == null) {
    const writeError = await writeErrorOf('create table dealbell_doctor ()')
    return { writeError, hasTables: false, keys: [], connections: [] }
  }
  return {
    writeError: await writeErrorOf('insert into users default values'),
    hasTables: true,
    // The first two parts of a sealed value are its version and the id of its key.
    keys: await rows(
      stored.entries.keys.item,
      `select sealed, sum(connections)::int as connections from (
         select split_part(secrets, '.', 1) || '.' || split_part(secrets, '.', 2) as sealed, 1 as connections
         from connections
         union all
         select split_part(sealed, '.', 1) || '.' || split_part(sealed, '.', 2), 0 from key_check
       ) as all_sealed group by 1`,
    ),
    connections: await rows(
      stored.entries.connections.item,
      `select user_id as "userId", provider, stand_in as "standIn", secrets,
              account_name as account, broken_reason as "brokenReason"
       from (select *, row_number() over (partition by provider order by connected_at desc) as number
             from connections) as numbered
       where number <= ${mostChecked} order by provider, number`,
    ),
  }
}
