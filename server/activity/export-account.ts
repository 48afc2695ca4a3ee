import { type SQL, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { isOf, usersOf } from './account.ts'

const pageRows = 1_000

/** The columns of an index, each with its type. What the condition of a list fixes may stand before them. */
type Order = Readonly<Record<string, string>>

async function* pagesOf(database: Database, from: SQL, order: Order): AsyncGenerator<string> {
  const names = Object.keys(order)
  const listOf = (parts: SQL[]) => sql.join(parts, sql`, `)
  const columns = listOf(names.map((name) => sql.identifier(name)).map((name) => sql`${name}`))
  let isLater = sql`true`
  for (;;) {
    const page = await rowsOf<{ row: Readonly<Record<string, unknown>> }>(
      database,
      sql`select to_jsonb(each) - 'secrets' as row from ${from} and ${isLater}
          order by ${columns} limit ${pageRows}`,
    )
    yield page.map(({ row }) => JSON.stringify(row)).join(',\n')
    const last = page.at(-1)?.row
    if (last === undefined || page.length < pageRows) return
    const values = names.map((name) => sql`${String(last[name])}::${sql.raw(`${order[name]}`)}`)
    isLater = sql`(${columns}) > (${listOf(values)})`
  }
}

/**
 * Yields the parts of one JSON object: everything that belongs to an account, but no token and no session. What changes
 * meanwhile may be in it or not.
 */
export async function* exportAccount(database: Database, id: string): AsyncGenerator<string, void> {
  const users = await rowsOf<{ id: string }>(database, usersOf(id))
  const ids = sql`any(${sql.param(users.map((user) => user.id))}::uuid[])`
  const lists: Record<string, ReadonlyArray<[from: SQL, order: Order]>> = {
    accounts: [[sql`crm_accounts as each where ${isOf(id)}`, { crm: 'text' }]],
    users: [[sql`users as each where id = ${ids}`, { id: 'uuid' }]],
    connections: [[sql`connections as each where user_id = ${ids}`, { id: 'uuid' }]],
    rules: [[sql`rules as each where user_id = ${ids}`, { user_id: 'uuid' }]],
    events: [
      [
        sql`deal_events as each where ${isOf(id)}`,
        { deal_id: 'text', found_by: 'text', occurred_at: 'timestamptz', id: 'bigint' },
      ],
    ],
    deliveries: users.map((user) => [
      sql`deliveries as each where user_id = ${user.id}`,
      { state: 'text', occurred_at: 'timestamptz', id: 'bigint' },
    ]),
  }
  let between = '{'
  for (const [name, parts] of Object.entries(lists)) {
    yield `${between}\n"${name}": [`
    let comma = '\n'
    for (const [from, order] of parts) {
      for await (const page of pagesOf(database, from, order)) {
        if (page === '') continue
        yield comma + page
        comma = ',\n'
      }
    }
    between = '],'
  }
  yield ']\n}\n'
}
