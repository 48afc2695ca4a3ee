import { sql } from 'drizzle-orm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type OpenDatabase, rowsOf } from '../../server/database/open.ts'
import { databaseKinds, openTestDatabase } from '../database.ts'

describe.each(databaseKinds)('on %s', (kind) => {
  let open: OpenDatabase
  beforeAll(async () => {
    open = await openTestDatabase(kind)
  })
  afterAll(() => open.close())

  // Deleting a row looks for rows that refer to it. A partial index does not serve that search.
  test('every foreign key has a full index that begins with its columns', async () => {
    const foreignKeys = sql`select conname as name, conrelid, conkey from pg_constraint
                            where contype = 'f' and connamespace = 'public'::regnamespace`
    const indexed = sql`select from pg_index i
                        where i.indrelid = key.conrelid and i.indisvalid and i.indpred is null
                          and (i.indkey::int2[])[0:cardinality(key.conkey) - 1] = key.conkey`
    expect(await rowsOf(open.database, foreignKeys)).not.toEqual([])
    expect(
      await rowsOf(
        open.database,
        sql`select name from (${foreignKeys}) as key where not exists (${indexed})`,
      ),
    ).toEqual([])
  })
})
