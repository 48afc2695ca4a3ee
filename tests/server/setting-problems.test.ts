import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openDatabase } from '../../server/settings/open-database.ts'
import { dataDirError, listenError } from '../../server/settings/open-errors.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { newDataFolder, newFolder } from '../database.ts'
import { freePort } from '../relay/postgres.ts'
import { listenInTest } from './harness.ts'
import { outputOf } from './program.ts'

const folder = await newFolder()

/** All that a program of the server prints until it ends. */
function output(program: 'main' | `cli/${string}`, env: Record<string, string>) {
  const [file = '', ...args] = program.split(' ')
  return outputOf([`server/${file}.ts`, ...args], { DATA_DIR: join(folder, 'data'), ...env })
}

/** An error as Node, PostgreSQL and SQLite throw it. */
const errorWith = (codes: object) => Object.assign(new Error('it failed'), codes)

const urlAt = (at: string) => `postgres://ann:hunter2@${at}/sales`

/** A PostgreSQL that answers every connection with an error (PostgreSQL, protocol, ErrorResponse). */
const refusingPostgres = (code: string, message: string) =>
  createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
      const head = Buffer.from([0x45, 0, 0, 0, fields.length + 4])
      socket.end(Buffer.concat([head, fields]))
    })
  })

test.each<[string, Server | undefined, (at: string) => string]>([
  [
    'does not run',
    undefined,
    (at) => `no PostgreSQL listens at ${at}. Start it, or correct the host and the port.`,
  ],
  [
    'refuses the user',
    refusingPostgres('28P01', 'password authentication failed for user "ann"'),
    (at) =>
      `PostgreSQL at ${at} refuses the user or the password. Correct them, and write special characters as in a URL (@ is %40).`,
  ],
  [
    'has no such database',
    refusingPostgres('3D000', 'database "sales" does not exist'),
    (at) => `PostgreSQL at ${at} has no database named sales. Create it, or correct the name.`,
  ],
  [
    'has no connection left',
    refusingPostgres('53300', 'sorry, too many clients already'),
    (at) =>
      `PostgreSQL at ${at} has no connection left (sorry, too many clients already). Raise its max_connections or the CONNECTION LIMIT of the role or the database, whichever that is, or lower the DATABASE_POOL_SIZE of its servers.`,
  ],
])('if PostgreSQL %s, the error names DATABASE_URL and no password', async (_, server, problem) => {
  const at = `127.0.0.1:${server === undefined ? await freePort() : await listenInTest(server)}`
  const opening = openDatabase(parseEnv({ DATABASE_URL: urlAt(at) }))
  await expect(opening).rejects.toHaveProperty('message', `DATABASE_URL: ${problem(at)}`)
})

test('a PORT that is taken is refused in one sentence', async () => {
  const port = await listenInTest(createServer())
  const dataDir = await newDataFolder()
  const said = await output('main', { DATA_DIR: dataDir, PORT: `${port}`, HOST: '127.0.0.1' })
  expect(said).toBe(
    `Port ${port} is taken. Set PORT to another one, or to 0 for a free one.\nexit 1`,
  )
})

const ofFolder = (codes: object) => dataDirError({ dataDir: './data' }, errorWith(codes))
const noFolder = ofFolder({ code: 'ENOENT', syscall: 'mkdir' })
const ofAddress = (code: string) =>
  listenError({ port: 80, hosts: ['192.0.2.1'] }, errorWith({ code }))
test.each([
  ['DATA_DIR is ./data, but this process may not write to it', ofFolder({ code: 'EACCES' })],
  ['DATA_DIR is ./data, but this process may not write to it', noFolder],
  ['HOST is 192.0.2.1, but this machine does not have that address', ofAddress('EADDRNOTAVAIL')],
  ['PORT is 80, but this process may not listen on it', ofAddress('EACCES')],
])('an error of the system is said in words: %s', (words, error) => {
  expect(error).toMatchObject({ message: expect.stringContaining(words) })
})
