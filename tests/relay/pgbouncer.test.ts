import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { pgbouncer } from '../../scripts/programs.ts'
import { keepIndexes } from '../../server/database/indexes.ts'
import { rowsOf } from '../../server/database/open.ts'
import { logTo } from '../../server/log.ts'
import { openDatabase } from '../../server/settings/open-database.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { newPostgresDatabase } from '../database.ts'
import { startBackend } from './backend.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { startPgbouncer } from './pgbouncer.ts'

const program = pgbouncer.find()
// Other tests hold locks in other databases of the same server.
const locks = `select from pg_locks where locktype = 'advisory'
  and database = (select oid from pg_database where datname = current_database())`
const certificate = join(import.meta.dirname, '../build/localhost.pem')

// Only `npm run test:all` starts PostgreSQL. It says so if PgBouncer is missing.
describe.runIf(process.env.TEST_ALL === '1' && program !== undefined)('behind PgBouncer', () => {
  let pooled: Awaited<ReturnType<typeof startPgbouncer>>
  /** The database itself, and the same one behind PgBouncer in transaction mode. */
  let directUrl: string
  let pooledUrl: string
  let direct: pg.Client

  beforeAll(async () => {
    directUrl = await newPostgresDatabase()
    direct = new pg.Client({ connectionString: directUrl })
    await direct.connect()
    pooled = await startPgbouncer(program ?? '', directUrl)
    pooledUrl = pooled.url
  })
  afterAll(async () => {
    await direct.end()
    await pooled.stop()
  })

  test('two processes send each message once, their transactions have time limits, and they leave nothing behind in a session', async () => {
    const outside = await openOutside()
    const opened = await Promise.all([1, 2].map(() => open({ DATABASE_URL: pooledUrl })))
    const key = Buffer.alloc(32, 'k')
    const options = { alone: false, key }
    const backends = await Promise.all(opened.map((one) => startBackend(one, outside, options)))
    const stop = () => Promise.all(backends.map((backend) => backend.stop()))
    onTestFinished(() => stop().then(() => outside.close()))
    const [first, second] = backends
    const deals = Array.from({ length: 8 }, (_, n) => n + 1)
    for (const portal of deals) await first?.connect({ portal, channel: `C${portal}` })
    const told = deals.map((deal) =>
      (deal % 2 ? first : second)?.tell([stageChange(deal, { portal: deal })]),
    )
    expect(new Set(await Promise.all(told))).toEqual(new Set([204]))
    await first?.settled()
    expect(outside.posts.map(dealIn).toSorted()).toEqual(deals)

    await direct.query('drop index deliveries_next')
    const indexes = keepIndexes({ url: pooledUrl, log: logTo(() => {}) })
    onTestFinished(indexes.stop)
    const built = `select from pg_index where indexrelid = to_regclass('deliveries_next') and indisvalid`
    await vi.waitFor(async () => expect((await direct.query(built)).rowCount).toBe(1), 20_000)
    await indexes.stop()

    const { database } = await open({ DATABASE_URL: pooledUrl, DATABASE_STATEMENT_TIMEOUT: '8' })
    const limitsSql = sql`select current_setting('idle_in_transaction_session_timeout') as idle,
      current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement`
    const inside = await database.transaction((tx) => rowsOf(tx, limitsSql))
    expect(inside).toEqual([{ idle: '4s', lock: '6s', statement: '8s' }])
    // Other programs may use the same sessions of PostgreSQL.
    const outsideOf = await Promise.all([1, 2, 3, 4, 5].map(() => rowsOf(database, limitsSql)))
    expect(outsideOf.flat()).toEqual(Array(5).fill({ idle: '0', lock: '0', statement: '0' }))
    await stop()
    expect((await direct.query(locks)).rowCount).toBe(0)
  })

  test('the date style is set, and another setting that a pooler would not keep is refused in words', async () => {
    const name = new URL(directUrl).pathname.slice(1)
    onTestFinished(async () => void (await direct.query(`alter database ${name} reset all`)))
    await direct.query(`alter database ${name} set datestyle = 'German'`)
    const restart = async () => {
      const { url, stop } = await startPgbouncer(program ?? '', directUrl)
      onTestFinished(stop)
      return { DATABASE_URL: url }
    }
    const { database } = await open(await restart())
    expect(await rowsOf(database, sql`select '2026-02-01'::date::text as day`)).toEqual([
      { day: '2026-02-01' },
    ])
    await direct.query(`alter database ${name} set default_transaction_read_only = on`)
    await expect(open(await restart())).rejects.toThrow(
      /alter role … set default_transaction_read_only = 'off'/,
    )
  })

  test('with DATABASE_CA_FILE the connection is encrypted, and a certificate of another authority is refused', async () => {
    const { database } = await open({ DATABASE_URL: pooledUrl, DATABASE_CA_FILE: certificate })
    expect(await rowsOf(database, sql`select 1 as one`)).toEqual([{ one: 1 }])
    const verified = `${pooledUrl}?sslmode=verify-full`
    await expect(open({ DATABASE_URL: verified })).rejects.toThrow(/Set DATABASE_CA_FILE to/)
    await expect(open({ DATABASE_URL: directUrl, DATABASE_CA_FILE: certificate })).rejects.toThrow(
      /does not support SSL connections/,
    )
  })

  async function open(env: Record<string, string>) {
    const opened = await openDatabase(parseEnv(env))
    onTestFinished(opened.close)
    return opened
  }
})
