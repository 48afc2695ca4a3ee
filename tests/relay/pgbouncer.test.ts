import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { pgbouncer } from '../../scripts/programs.ts'
import { rowsOf } from '../../server/database/open.ts'
import { openDatabase } from '../../server/settings/open-database.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { newPostgresDatabase } from '../database.ts'
import { startBackend } from './backend.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { freePort } from './postgres.ts'

const program = pgbouncer.find()
const certificate = join(import.meta.dirname, '../build/localhost.pem')

// Only `npm run test:all` starts PostgreSQL. It says so if PgBouncer is missing.
describe.runIf(process.env.TEST_ALL === '1' && program !== undefined)('behind PgBouncer', () => {
  let folder: string
  let pgbouncer: ChildProcess
  /** The database itself, and the same one behind PgBouncer in transaction mode. */
  let directUrl: string
  let pooledUrl: string

  beforeAll(async () => {
    directUrl = await newPostgresDatabase()
    const { hostname, port, username, password, pathname } = new URL(directUrl)
    const server = `host=${hostname} port=${port} user=${username} password=${password}`
    const pooled = new URL(directUrl)
    pooled.hostname = 'localhost'
    pooled.port = String(await freePort())
    pooledUrl = pooled.href
    folder = await mkdtemp('/tmp/dealbell-pgbouncer-')
    await chmod(folder, 0o755)
    await copyFile(certificate, join(folder, 'localhost.pem'))
    const settings = `[databases]
      * = ${server}
      limited = ${server} dbname=${pathname.slice(1)} connect_query='set lock_timeout = 1'
      [pgbouncer]
      listen_addr = 127.0.0.1
      listen_port = ${pooled.port}
      unix_socket_dir =
      auth_type = any
      pool_mode = transaction
      default_pool_size = 3
      client_tls_sslmode = allow
      client_tls_cert_file = ${folder}/localhost.pem
      client_tls_key_file = ${folder}/localhost.pem`
    await writeFile(join(folder, 'pgbouncer.ini'), settings.replaceAll(/^ +/gm, ''))
    // PgBouncer does not run as root.
    const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
    const user = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {}
    pgbouncer = spawn(program ?? '', [join(folder, 'pgbouncer.ini')], {
      stdio: ['ignore', 'ignore', 'pipe'],
      ...user,
    })
    let said = ''
    await new Promise<void>((resolve, reject) => {
      pgbouncer.once('exit', () => reject(new Error(said)))
      pgbouncer.stderr?.on('data', (chunk) => {
        said += chunk
        if (said.includes('process up')) resolve()
      })
    })
  })
  afterAll(async () => {
    pgbouncer.kill('SIGKILL')
    await once(pgbouncer, 'exit')
    await rm(folder, { recursive: true })
  })

  test('two processes send each message once, their transactions have time limits, and they leave nothing behind in a session', async () => {
    const outside = await openOutside()
    const opened = await Promise.all([1, 2].map(() => open({ DATABASE_URL: pooledUrl })))
    const key = Buffer.alloc(32, 'k')
    const options = { alone: false, key }
    const backends = await Promise.all(opened.map((one) => startBackend(one, outside, options)))
    onTestFinished(async () => {
      await Promise.all(backends.map((backend) => backend.stop()))
      await outside.close()
    })
    const [first, second] = backends
    const deals = Array.from({ length: 8 }, (_, n) => n + 1)
    for (const portal of deals) await first?.connect({ portal, channel: `C${portal}` })
    const told = deals.map((deal) =>
      (deal % 2 ? first : second)?.tell([stageChange(deal, { portal: deal })]),
    )
    expect(new Set(await Promise.all(told))).toEqual(new Set([204]))
    await first?.settled()
    expect(outside.posts.map(dealIn).toSorted()).toEqual(deals)

    const { database } = await open({ DATABASE_URL: pooledUrl, DATABASE_STATEMENT_TIMEOUT: '8' })
    const limitsSql = sql`select current_setting('idle_in_transaction_session_timeout') as idle,
      current_setting('lock_timeout') as lock, current_setting('statement_timeout') as statement`
    const inside = await database.transaction((tx) => rowsOf(tx, limitsSql))
    expect(inside).toEqual([{ idle: '4s', lock: '6s', statement: '8s' }])
    // Other programs may use the same sessions of PostgreSQL.
    const outsideOf = await Promise.all([1, 2, 3, 4, 5].map(() => rowsOf(database, limitsSql)))
    expect(outsideOf.flat()).toEqual(Array(5).fill({ idle: '0', lock: '0', statement: '0' }))
    const { rows: locks } = await direct("select from pg_locks where locktype = 'advisory'")
    expect(locks).toEqual([])
  })

  test('more processes start at once than PgBouncer has connections, and its time limits do not limit the wait for a migration', async () => {
    const holder = new pg.Client({ connectionString: directUrl })
    await holder.connect()
    onTestFinished(() => holder.end())
    await holder.query('begin; select pg_advisory_xact_lock(7325213)')
    const limited = new URL(pooledUrl)
    limited.pathname = 'limited'
    const opening = Promise.all([1, 2, 3, 4].map(() => open({ DATABASE_URL: limited.href })))
    // The pool has three.
    const waiting = "select from pg_locks where locktype = 'advisory' and not granted"
    const threeWait = async () => expect((await direct(waiting)).rowCount).toBe(3)
    await Promise.race([opening, vi.waitFor(threeWait, 20_000)])
    await holder.query('commit')
    expect(await opening).toHaveLength(4)
  })

  test('with DATABASE_CA_FILE the connection is encrypted, and a certificate of another authority is refused', async () => {
    const { database } = await open({ DATABASE_URL: pooledUrl, DATABASE_CA_FILE: certificate })
    expect(await rowsOf(database, sql`select 1 as one`)).toEqual([{ one: 1 }])
    const verified = `${pooledUrl}?sslmode=verify-full`
    await expect(open({ DATABASE_URL: verified })).rejects.toThrow(/Set DATABASE_CA_FILE to/)
    const missing = { DATABASE_URL: pooledUrl, DATABASE_CA_FILE: '/no/such.pem' }
    await expect(open(missing)).rejects.toThrow(
      'DATABASE_CA_FILE: /no/such.pem cannot be read (ENOENT). Correct the path.',
    )
    await expect(open({ DATABASE_URL: directUrl, DATABASE_CA_FILE: certificate })).rejects.toThrow(
      /does not support SSL connections/,
    )
  })

  async function open(env: Record<string, string>) {
    const opened = await openDatabase(parseEnv(env))
    onTestFinished(opened.close)
    return opened
  }

  async function direct(statement: string) {
    const client = new pg.Client({ connectionString: directUrl })
    await client.connect()
    try {
      return await client.query(statement)
    } finally {
      await client.end()
    }
  }
})
