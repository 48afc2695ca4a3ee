import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { sql } from 'drizzle-orm'
import { ensure, nginx, without } from '../../scripts/programs.ts'
import { openPglite, openPostgres, rowsOf } from '../../server/database/open.ts'
import { rateLimits } from '../../server/http/rate-limit.ts'
import { startNginx } from '../build/nginx.ts'
import { freePort, startPostgres } from '../relay/postgres.ts'
import { falseSignature, startSieges } from './connections.ts'
import { attackWithMadeUp } from './made-up.ts'
import { signIn, startFloods } from './requests.ts'
import { startServer } from './server.ts'
import { openUser } from './user.ts'
import { tryWaysIn } from './ways-in.ts'

// Attacks the real server behind the nginx of docs/hosting.md while a user works with it, and checks what SECURITY.md
// promises. All targets are on loopback.

const databases = ['PGlite', 'PostgreSQL'] as const
type Database = (typeof databases)[number]

if (process.platform !== 'linux') {
  throw new Error('npm run attack needs Linux: it reads /proc and attacks from 127.0.0.2 and on.')
}
const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    database: { type: 'string' },
    // How often the attackers begin an authorization without a session.
    'auth-per-second': { type: 'string', default: '100' },
    // Shows times without judging them: on a machine that others use, they say nothing about the server.
    'any-time': { type: 'boolean', default: false },
  },
})
const seconds = Number(options.seconds)
const authPerSecond = Number(options['auth-per-second'])
const chosen = databases.filter((each) => each === (options.database ?? each))
if (!(seconds >= 1) || !(authPerSecond >= 1) || chosen.length === 0) {
  throw new Error(
    'Usage: npm run attack -- [--seconds 60] [--database PGlite|PostgreSQL] [--auth-per-second 100] [--any-time]',
  )
}

// What is promised.
const maxCallMs = 500
const maxGrowthMb = 150
const maxStopMs = 10_000
/** How many rows the attack may leave in a table. */
const maxRows = 1_000

interface Check {
  database: Database
  check: string
  measured: string
  limit: string
  result: 'passed' | 'FAILED' | 'not judged'
}
const checks: Check[] = []
const traffic: Array<Record<string, string | number>> = []

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130))
// Whatever hangs, this program ends. At its exit it kills what it started.
const limitMs = ((seconds + 120) * chosen.length + 180) * 1000
setTimeout(() => {
  console.error(`The attack did not end within ${limitMs / 1000} s.`)
  process.exit(1)
}, limitMs).unref()

const nginxPath = ensure(nginx)
if (nginxPath === undefined) throw new Error(without({ ...nginx, tests: 'The attack' }))

const pages = mkdtempSync(join(tmpdir(), 'dealbell-attack-page-'))
process.once('exit', () => rmSync(pages, { recursive: true, force: true }))
const vite = join(import.meta.dirname, '../../node_modules/vite/bin/vite.js')
const build = [vite, 'build', '--configLoader', 'native', '--outDir', pages]
execFileSync(process.execPath, build, { stdio: ['ignore', 'ignore', 'inherit'] })

for (const database of chosen) {
  const folder = mkdtempSync(join(tmpdir(), 'dealbell-attack-'))
  const clear = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  process.once('exit', clear)
  console.log(`Attacking the server on ${database} for ${seconds} s …`)
  const postgres = database === 'PostgreSQL' ? await startPostgres() : undefined
  const port = await freePort()
  const proxy = await startNginx(nginxPath, { folder, dist: pages, backendPort: port })
  const url = `http://localhost:${proxy.httpPort}`
  try {
    await attack(database, { folder, databaseUrl: postgres?.url, port, url })
  } catch (error) {
    check(database, 'the attack runs to its end', firstLine(error), 'no error', false)
  } finally {
    await proxy.stop()
    await postgres?.stop()
    process.off('exit', clear)
    clear()
  }
}

await makeUp()

console.table(traffic)
console.table(checks)
const failed = checks.filter(({ result }) => result === 'FAILED').length
const passed = checks.filter(({ result }) => result === 'passed').length
console.log(`${passed} passed, ${failed} failed, ${checks.length - passed - failed} not judged`)
process.exit(failed > 0 ? 1 : 0)

type Place = Parameters<typeof startServer>[0]

async function attack(database: Database, place: Place): Promise<void> {
  const { url } = place
  // A chat of which users paste an address.
  const settings = { MICROSOFT_TEAMS_WEBHOOK_ORIGINS: 'https://chat.example' }
  const server = await startServer(place, settings)
  const stops: Array<() => unknown> = [() => server.stop(0)]

  try {
    // Before the server compiles its code: a collection throws compiled code away.
    const memoryBefore = await server.memoryMb()
    await warmUp(url)
    for (const [what, held] of await tryWaysIn(url, place.port)) {
      check(database, what, held ? 'yes' : 'no', 'yes', held)
    }
    const cookies = await signIn(url)
    const user = openUser(url)
    await user.work(performance.now() + (options['any-time'] ? 0 : 5_000))
    const quiet = `${Math.round(percentile(user.callMs, 0.99))} ms`
    user.callMs.length = 0
    user.rounds = 0
    const floods = startFloods(url, cookies, authPerSecond)
    const sieges = startSieges(url, largestFile())
    for (const { stop } of [...floods, ...sieges]) stops.push(stop)
    await user.work(performance.now() + seconds * 1000)
    // While the attack goes on, and after the user's work: a collection makes the server slow for a while.
    const memoryAfter = await server.memoryMb()
    for (const flood of floods) flood.stop()
    for (const { name, answers } of floods) {
      const counts = [...answers].map(([answer, count]) => `${answer}: ${count}`)
      traffic.push({ database, attack: name, answers: counts.sort().join(', ') })
    }
    for (const { name, opened, live } of sieges) {
      traffic.push({ database, attack: name, connections: opened, live: live.size })
    }
    const clients = sum(sieges.map(({ live }) => live.size))
    const stop = await server.stop(3 * maxStopMs)

    const reached =
      floods.every(({ answers }) => [...answers.keys()].some((answer) => answer !== 'none')) &&
      sieges.every(({ opened }) => opened > 0) &&
      clients > 0
    check(database, 'every attack reaches the server', reached ? 'yes' : 'no', 'yes', reached)

    const { callMs, failures, late, rounds } = user
    const calls = `${callMs.length} calls in ${rounds} rounds (before the attack ${quiet})`
    checkTime(database, `p99 of the user's ${calls}`, percentile(callMs, 0.99), maxCallMs)
    for (const failure of [...failures, ...late]) console.log(failure)
    checkBelow(database, "failures in the user's work", failures.length, 1, 'failures')
    checkTime(database, "the user's calls that took over 10 s", late.length, 1, 'calls')
    checkBelow(database, 'growth of memory', memoryAfter - memoryBefore, maxGrowthMb, 'MB')
    const ending = `end after SIGTERM with ${clients} clients`
    checkBelow(database, ending, stop.durationMs, maxStopMs, 'ms')
    check(database, 'exit code', `${stop.exitCode}`, '0', stop.exitCode === 0)
  } finally {
    for (const stop of stops.reverse()) await stop()
  }

  for (const { table, rows } of await countRows(place)) {
    checkBelow(database, `rows in ${table}`, rows, maxRows, 'rows')
  }
}

/** What somebody makes up in a form that the server believes, or tries at a provider. */
async function makeUp(): Promise<void> {
  console.log('Making up addresses and events …')
  const folder = mkdtempSync(join(tmpdir(), 'dealbell-attack-'))
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  const { times } = rateLimits.failuresOfAll
  try {
    const { asked, answers, lines } = await attackWithMadeUp(folder, times + 200, 6_000)
    const found = (status: number) => answers.get(status) ?? 0
    check('PGlite', 'made-up addresses that are tried', `${asked}`, `${times}`, asked === times)
    // Some are on their way when the last one is stored.
    const isFull = found(204) >= 5_000 && found(204) < 5_100 && found(429) > 0
    check('PGlite', 'made-up events that are stored', `${found(204)}`, '5000 and a few', isFull)
    check('PGlite', 'those of the future, refused', `${found(401)}`, '120', found(401) === 120)
    checkBelow('PGlite', 'their lines in the log', lines, 50, 'lines')
  } catch (error) {
    check('PGlite', 'what is made up can be sent', firstLine(error), 'no error', false)
  }
}

/** Makes the server compile its code and fill its buffers, so that the attack alone makes it grow. */
async function warmUp(url: string): Promise<void> {
  for (let count = 0; count < 300; count++) {
    for (const path of ['/', '/health']) await (await fetch(url + path)).arrayBuffer()
  }
  for (let count = 0; count < 100; count++) {
    const answer = await fetch(`${url}/webhooks/hubspot`, {
      method: 'POST',
      headers: falseSignature(),
      body: Buffer.alloc(1_000_000, '['),
    })
    await answer.arrayBuffer()
  }
}

/** The path of the largest file of the built page. */
function largestFile(): string {
  const assets = join(pages, 'assets')
  const size = (name: string) => statSync(join(assets, name)).size
  const [largest] = readdirSync(assets).sort((a, b) => size(b) - size(a))
  return `/assets/${largest}`
}

/** Counts the rows of each table that anonymous calls write. */
async function countRows({ folder, databaseUrl }: Place) {
  const { database, close } =
    databaseUrl === undefined
      ? await openPglite(join(folder, 'pglite'))
      : await openPostgres(databaseUrl, () => undefined)
  try {
    const counts: Array<{ table: string; rows: number }> = []
    for (const table of ['users', 'sessions', 'used_tokens', 'rules']) {
      const query = sql`select count(*)::int as rows from ${sql.identifier(table)}`
      const [row] = await rowsOf<{ rows: number }>(database, query)
      counts.push({ table, rows: row?.rows ?? Number.NaN })
    }
    return counts
  } finally {
    await close()
  }
}

/** `any-time` shows this without judging it. */
function checkTime(
  ...args: [Database, name: string, measured: number, limit: number, unit?: string]
) {
  const [database, name, measured, limit, unit = 'ms'] = args
  checkBelow(database, name, measured, limit, unit)
  const last = checks.at(-1)
  if (options['any-time'] && last) last.result = 'not judged'
}

function check(
  database: Database,
  check: string,
  measured: string,
  limit: string,
  passed: boolean,
): void {
  checks.push({ database, check, measured, limit, result: passed ? 'passed' : 'FAILED' })
}

function checkBelow(
  database: Database,
  name: string,
  measured: number,
  limit: number,
  unit: string,
): void {
  const words = [measured, limit].map((value) => `${Math.round(value)} ${unit}`)
  // NaN is not below any limit.
  check(database, name, words[0] ?? '', `below ${words[1]}`, measured < limit)
}

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function firstLine(error: unknown): string {
  return error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error)
}
