import pg from 'pg'
import { Refused } from './refused.ts'

// A database, a role or a server may have settings that change what our statements mean, or what they return. So each
// connection sets what our SQL and our parsing rely on.

const wanted = {
  DateStyle: 'ISO, YMD',
  TimeZone: 'UTC',
  IntervalStyle: 'postgres',
  bytea_output: 'hex',
  extra_float_digits: '1',
  array_nulls: 'on',
  transform_null_equals: 'off',
  standard_conforming_strings: 'on',
  default_transaction_isolation: 'read committed',
  default_transaction_read_only: 'off',
  default_transaction_deferrable: 'off',
  // The pool keeps connections that have nothing to do.
  idle_session_timeout: '0',
  transaction_timeout: '0',
  // What is acknowledged must be on the disk. Any other value than 'off' is the operator's choice.
  synchronous_commit: 'on',
}

/** Selects those of some settings that are not as they must be. Older versions of PostgreSQL do not know them all. */
const wrongOf = (settings: Readonly<Record<string, string>>) => {
  const values = Object.entries(settings)
    .map((each) => `(${each.map(pg.escapeLiteral).join()})`)
    .join()
  return `from (values ${values}) as wanted (name, value)
    join pg_settings on lower(pg_settings.name) = lower(wanted.name)
    where setting <> wanted.value and (wanted.name <> 'synchronous_commit' or setting = 'off')`
}

/** The statement that sets them for a session, or until the end of a transaction. */
export const setSession = (schema: string, isLocal: boolean): string =>
  `select set_config(wanted.name, wanted.value, ${isLocal}) ${wrongOf({ ...wanted, search_path: schema })}`

export function connectionTo(url: string) {
  return {
    connectionString: url,
    connectionTimeoutMillis: 10_000,
    keepAlive: true,
    // Linux would wait two hours before it looks whether a silent connection still exists.
    keepAliveInitialDelayMillis: 10_000,
  }
}

/** PgBouncer keeps these two of what a client says at its start. A pooler may give each statement another session. */
export class Client extends pg.Client {
  getStartupConf(): object {
    const { DateStyle, TimeZone } = wanted
    const known = Reflect.get(pg.Client.prototype, 'getStartupConf').call(this)
    return { ...known, DateStyle, TimeZone }
  }
}

/**
 * Looks at a database before it is used.
 * @returns the schema with our tables, and whether a pooler is in front of PostgreSQL, such as PgBouncer.
 * @throws Refused if it cannot store all texts, or if a pooler is in front and a setting is wrong.
 */
export async function lookAtSession(
  client: pg.Client,
): Promise<{ schema: string; isPooled: boolean }> {
  // The time limits may be those of another program.
  await client.query('begin; set local statement_timeout = 0')
  const { rows } = await client.query(
    `select pg_backend_pid() as id, getdatabaseencoding() as encoding, current_schema() as "ownSchema", coalesce(
       (select 'public' where to_regclass('public.deal_events') is not null),
       -- The operator may have chosen another one for us.
       (select nspname from pg_namespace join pg_class on relnamespace = pg_namespace.oid
        where pg_class.oid = to_regclass('deal_events')), 'public') as schema`,
  )
  const [{ id, encoding = '', ownSchema, schema = 'public' } = {}] = rows
  // SQL_ASCII stores every byte as it is.
  if (!['UTF8', 'SQL_ASCII'].includes(encoding)) {
    throw new Refused(
      `The database has the encoding ${encoding}, which cannot store all names of deals. Create one with: createdb --encoding=UTF8 --template=template0 NAME. Then name it in DATABASE_URL.`,
    )
  }
  // A pooler names a process id of its own when a connection begins.
  const isPooled = id !== Object(client).processID
  if (isPooled) {
    // A transaction can set it for itself, and what must not be lost is stored in one.
    const { synchronous_commit: _, ...others } = wanted
    const path = ownSchema === schema ? {} : { search_path: schema }
    const wrong = await client.query(
      `select wanted.name, wanted.value ${wrongOf({ ...others, ...path })}`,
    )
    const statements = wrong.rows.map(
      ({ name, value }) => `alter role … set ${name} = ${pg.escapeLiteral(value)}`,
    )
    if (statements.length > 0) {
      throw new Refused(
        `A pooler is in front of PostgreSQL, so Dealbell cannot set what it relies on for each statement. Run: ${statements.join('; ')}. Then restart the pooler.`,
      )
    }
  }
  await client.query('commit')
  return { schema, isPooled }
}
