import type pg from 'pg'
import { type Background, repeatInBackground } from '../background.ts'
import { errorFields, type Log } from '../log.ts'
import { indexes } from './migrate.ts'
import { Client, connectionTo, lookAtSession, setSession } from './session.ts'

// A process takes this advisory lock while it builds: two builds on one table can wait for each other.
const indexLock = 7_325_215
/** Another process builds, or a build has failed. */
const againMs = 30_000
const dayMs = 24 * 3_600_000

/**
 * Builds the indexes that the migrations of PostgreSQL leave out, one after the other, while everybody works. Then drops
 * those that migrations have dropped: until the new ones exist, statements need the old ones.
 */
export function keepIndexes({ url, log }: { url: string; log: Log }): Background {
  return repeatInBackground((signal) => buildAlone(url, log, signal), {
    firstMs: 1_000,
    onError(error) {
      log.warn('index build failed', errorFields(error))
      return againMs
    },
  })
}

/** @returns in how many ms to look again. */
async function buildAlone(url: string, log: Log, signal: AbortSignal): Promise<number> {
  const [guard, client] = [new Client(connectionTo(url)), new Client(connectionTo(url))]
  // A failed query already reports the error. Without a listener, the error would end this process.
  for (const each of [guard, client]) each.on('error', () => {})
  const close = () => Promise.all([guard.end(), client.end()])
  // PostgreSQL ends a build that has begun, also after this process.
  signal.addEventListener('abort', close)
  try {
    await guard.connect()
    // A transaction of its own holds the lock: one of the session would stay behind in a session of PgBouncer.
    await guard.query('begin isolation level read committed')
    await guard.query('set local idle_in_transaction_session_timeout = 0')
    const lock = await guard.query(`select pg_try_advisory_xact_lock(${indexLock}) as "isOurs"`)
    if (!lock.rows[0].isOurs) return againMs
    await client.connect()
    const { schema, isPooled } = await lookAtSession(client)
    if (!isPooled) await client.query(setSession(schema, false))
    const nextMs = await buildMissing(client, log)
    await guard.query('commit')
    return nextMs
  } finally {
    signal.removeEventListener('abort', close)
    await close()
  }
}

async function buildMissing(client: pg.Client, log: Log): Promise<number> {
  const wantedFirst = [...indexes].toSorted(([, a], [, b]) => +!a.create - +!b.create)
  for (const [name, { table, create }] of wantedFirst) {
    const { rows } = await client.query(
      `select indexrelid is not null as exists, indisvalid is true as "isValid", exists (
         select from pg_stat_progress_create_index
         where datname = current_database() and relid = pg_class.oid) as "isBusy"
       from pg_class left join pg_index on indrelid = pg_class.oid and indexrelid = to_regclass($1)
       where pg_class.oid = to_regclass($2)`,
      [name, table],
    )
    const { exists, isValid, isBusy } = rows[0]
    if (create === undefined ? !exists : isValid) continue
    if (isBusy) {
      // For an operator, or for a process that has ended since.
      log('index build goes on in PostgreSQL', { table })
      return againMs
    }
    if (exists) await withoutLimits(client, `drop index concurrently "${name}"`)
    if (create === undefined) {
      log('index dropped', { index: name })
      continue
    }
    log('index build began', { index: name })
    const beganMs = performance.now()
    await withoutLimits(client, create.replace(/^create index/i, '$& concurrently'))
    log('index build ended', { index: name, ms: Math.round(performance.now() - beganMs) })
  }
  return dayMs
}

/** Runs a statement that may take as long as it takes. It cannot run in a transaction, so the session gets no limits. */
async function withoutLimits(client: pg.Client, statement: string): Promise<void> {
  const former: Array<[name: string, value: string]> = []
  // One processor at a time: those who wait for a webhook need the others.
  for (const name of ['statement_timeout', 'lock_timeout', 'max_parallel_maintenance_workers']) {
    const { rows } = await client.query(
      `select current_setting($1) as value, set_config($1, '0', false)`,
      [name],
    )
    former.push([name, rows[0].value])
  }
  try {
    await client.query(statement)
  } finally {
    // A pooler gives this session to others.
    for (const each of former) await client.query('select set_config($1, $2, false)', each)
  }
}
