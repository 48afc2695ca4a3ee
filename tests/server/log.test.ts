import { createServer, type Socket } from 'node:net'
import { drizzle } from 'drizzle-orm/node-postgres'
import pg from 'pg'
import { expect, onTestFinished, test, vi } from 'vitest'
import { isDatabaseFailure } from '../../server/database/failure.ts'
import { atMostOnceAMinute, errorFields } from '../../server/log.ts'
import { shownError } from '../../server/settings/open-errors.ts'
import { freePort } from '../relay/postgres.ts'
import { listenInTest } from './harness.ts'
import { launch } from './program.ts'

/** What PostgreSQL sends: a type, the length, and the content. */
function message(type: string, content: string): Buffer {
  const length = Buffer.alloc(4)
  length.writeInt32BE(4 + content.length)
  return Buffer.concat([Buffer.from(type), length, Buffer.from(content)])
}
const ready = Buffer.concat([message('R', '\0\0\0\0'), message('Z', 'I')])
const refuse = (code: string) => message('E', `SFATAL\0C${code}\0Msecret text\0\0`)

/** A database that treats each piece of what a client sends in the next of these ways. */
async function databaseThat(...ways: Array<(socket: Socket) => unknown>): Promise<number> {
  const server = createServer((socket) => {
    let received = 0
    socket.on('data', () => ways[received++]?.(socket)).on('error', () => {})
    onTestFinished(() => void socket.destroy())
  })
  return await listenInTest(server)
}
const admit = (socket: Socket) => socket.write(ready)

test.each<[string, () => Promise<number>, pg.PoolConfig?]>([
  ['ECONNREFUSED', () => freePort()],
  ['CONNECT_TIMEOUT', () => databaseThat(), { connectionTimeoutMillis: 50 }],
  ['CONNECTION_LOST', () => databaseThat((socket) => socket.end())],
  ['53300', () => databaseThat((socket) => socket.end(refuse('53300')))],
  ['57P01', () => databaseThat(admit, (socket) => socket.end(refuse('57P01')))],
  ['CONNECTION_LOST', () => databaseThat(admit, (socket) => socket.end())],
  ['QUERY_TIMEOUT', () => databaseThat(admit), { query_timeout: 50 }],
  ['POOL_TIMEOUT', () => databaseThat(admit), { max: -1, connectionTimeoutMillis: 50 }],
])(
  'the log says %s of such a failing database, and never its text',
  async (code, start, settings = {}) => {
    const url = `postgres://user:secret@127.0.0.1:${await start()}/db`
    const pool = new pg.Pool({ connectionString: url, ...settings })
    onTestFinished(() => void pool.end())
    pool.on('error', () => {})
    const error = await drizzle(pool)
      .execute("select 'secret'")
      .catch((error: unknown) => error)
    expect(isDatabaseFailure(error)).toBe(true)
    expect(errorFields(error)).toMatchObject({ error: expect.any(String), code })
    expect(JSON.stringify(errorFields(error))).not.toContain('secret')
    expect(shownError(error)).not.toMatch(/^$|Failed query/)
  },
)

test('a flood fills no log: each line is written once a minute, and no line hides another one', () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const written: unknown[] = []
  const warn = atMostOnceAMinute((...line) => void written.push(line))
  const refused = (reason: string) => ['webhooks refused', { reason }] as const
  const flood = () => {
    for (let n = 0; n < 1_000; n++) warn(...refused('signature'))
  }
  flood()
  warn(...refused('time'))
  vi.advanceTimersByTime(59_999)
  flood()
  expect(written).toEqual([refused('signature'), refused('time')])
  vi.advanceTimersByTime(1)
  flood()
  expect(written.slice(2)).toEqual([refused('signature')])
})

test.skipIf(process.platform !== 'linux')(
  'the journal of systemd gets the priority of each line, and nobody else does',
  async () => {
    const code = `import { createLog } from './server/log.ts'
      const log = createLog('debug')
      for (const write of [log.error, log.warn, log, log.debug]) write('event')`
    const log = ['--input-type=module', '--eval', code]
    /** What a program writes if systemd has given it this stream. */
    async function written(stream: string, args: string[]) {
      const script = `JOURNAL_STREAM=${stream} exec "$0" "$@"`
      const env = { PORT: 'http', STOP_DELAY: 'long' }
      const program = launch(['-c', script, process.execPath, ...args], env, { program: 'sh' })
      await program.exited
      return program.output.match(/^(<\d>)?/gm)?.slice(0, -1)
    }
    const own = '$(stat -Lc %d:%i /dev/fd/2)'
    expect(await written(own, log)).toEqual(['<3>', '<4>', '<6>', '<7>'])
    expect(await written('1:1', log)).toEqual(['', '', '', ''])
    // A start that fails says why in several lines.
    expect(await written(own, ['server/main.ts'])).toEqual(['<3>', '<3>', '<3>'])
  },
)
