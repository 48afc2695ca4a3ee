import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { lockFolder } from '../../server/database/lock.ts'
import { databaseUrlError, dataDirError, listenError } from '../../server/settings/open-errors.ts'
import { newDataFolder } from '../database.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-settings-'))
  await writeFile(join(folder, 'file'), '')
})
afterAll(() => rm(folder, { recursive: true }))

/** Runs a program of the server to its end; returns all that it prints. */
function output(
  program: 'main' | 'cli/relay status',
  env: Record<string, string>,
): Promise<string> {
  const [file = '', ...args] = program.split(' ')
  const { promise, resolve } = Promise.withResolvers<string>()
  execFile(
    process.execPath,
    [`server/${file}.ts`, ...args],
    {
      env: {
        PATH: process.env.PATH,
        PORT: '0',
        SERVE_DASHBOARD: 'false',
        DATA_DIR: join(folder, 'data'),
        ...env,
      },
    },
    (error, stdout, stderr) => resolve(`${stdout}${stderr}exit ${error?.code ?? 0}`),
  )
  return promise
}

/** Listens on a free port until the test ends. @returns the port. */
async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('There is no port.')
  return bound.port
}

/** A port on which nothing listens. */
async function freePort(): Promise<number> {
  const server = createServer()
  const port = await listen(server)
  server.close()
  await once(server, 'close')
  return port
}

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

describe('DATABASE_URL', () => {
  const password = 'hunter2'
  const urlAt = (host: string, port: number) => `postgres://ann:${password}@${host}:${port}/sales`

  test.each(['main', 'cli/relay status'] as const)(
    'without a PostgreSQL behind it (%s)',
    async (program) => {
      const port = await freePort()
      const said = await output(program, { DATABASE_URL: urlAt('127.0.0.1', port) })
      expect(said).toBe(
        `DATABASE_URL: no PostgreSQL listens at 127.0.0.1:${port}. Start it, or correct the host and the port.\nexit 1`,
      )
    },
  )

  test('with an unknown host', async () => {
    const said = await output('main', { DATABASE_URL: urlAt('no-such-host.invalid', 5432) })
    expect(said).toBe(
      'DATABASE_URL: the host no-such-host.invalid is unknown. Correct it, or check the name service.\nexit 1',
    )
  })

  test.each([
    [
      '28P01',
      'password authentication failed for user "ann"',
      (at: string) =>
        `PostgreSQL at ${at} refuses the user or the password. Correct them, and write special characters as in a URL (@ is %40).`,
    ],
    [
      '3D000',
      'database "sales" does not exist',
      (at: string) =>
        `PostgreSQL at ${at} has no database named sales. Create it, or correct the name.`,
    ],
    [
      '53300',
      'sorry, too many clients already',
      (at: string) =>
        `the database at ${at} could not be opened: sorry, too many clients already. Check that PostgreSQL runs there and accepts connections.`,
    ],
  ])('that PostgreSQL refuses with %s', async (code, message, problem) => {
    const port = await listen(refusingPostgres(code, message))
    const said = await output('main', { DATABASE_URL: urlAt('127.0.0.1', port) })
    expect(said).toBe(`DATABASE_URL: ${problem(`127.0.0.1:${port}`)}\nexit 1`)
  })

  test('of a user who may not create tables', () => {
    const cause = Object.assign(new Error('permission denied'), { code: '42501' })
    const failure = new Error('Failed query', { cause })
    expect(databaseUrlError(urlAt('db', 5432), failure).message).toBe(
      'DATABASE_URL: its user may not create tables in the database sales at db:5432. Make the user the owner of the database.',
    )
  })

  test('that leads to another program', async () => {
    const port = await listen(createHttpServer())
    const said = await output('main', { DATABASE_URL: urlAt('127.0.0.1', port) })
    expect(said).toMatch(
      new RegExp(
        `^DATABASE_URL: the database at 127.0.0.1:${port} could not be opened: .*\nexit 1$`,
      ),
    )
    expect(said).not.toContain(password)
  })

  test('that is no URL', async () => {
    const said = await output('main', { DATABASE_URL: `postgres://ann:${password}#@db/sales` })
    expect(said).toMatch(/- DATABASE_URL must be a URL such as .*\nexit 1$/)
    expect(said).not.toContain(password)
  })
})

describe('DATA_DIR', () => {
  test.each(['file', 'file/below'])('that is %s', async (path) => {
    const dataDir = join(folder, path)
    const problem = `DATA_DIR is ${dataDir}, but a file has that path or a part of it. Set DATA_DIR to a folder.\nexit 1`
    expect(await output('main', { DATA_DIR: dataDir })).toBe(problem)
    // With PostgreSQL, the folder holds only the key.
    const env = { DATA_DIR: dataDir, DATABASE_URL: 'postgres://localhost' }
    expect(await output('main', env)).toBe(problem)
  })

  test.each([{ code: 'EACCES' }, { code: 'EROFS' }, { errcode: 14 }, { errcode: 8 }])(
    'that this process may not write to: %j',
    (codes) => {
      const cause = Object.assign(new Error('unable to open'), codes)
      expect(dataDirError({ dataDir: './data' }, cause).message).toBe(
        'DATA_DIR is ./data, but this process may not write to it. Give its user the right to do so, or set DATA_DIR to another folder.',
      )
    },
  )

  test('whose key is no key', async () => {
    const dataDir = await mkdtemp(join(folder, 'key-'))
    await writeFile(join(dataDir, 'encryption.key'), 'short')
    expect(await output('main', { DATA_DIR: dataDir })).toBe(
      `DATA_DIR is ${dataDir}, but it could not be opened: ${join(dataDir, 'encryption.key')} does not hold 32 bytes in base64. Repair it, or set DATA_DIR to another folder.\nexit 1`,
    )
  })
})

describe('PORT and HOST', () => {
  test('of an address that this machine does not have', async () => {
    // Reserved for documentation (RFC 5737).
    const dataDir = await newDataFolder()
    onTestFinished(() => rm(dataDir, { recursive: true }))
    const said = await output('main', { DATA_DIR: dataDir, HOST: '192.0.2.1' })
    expect(said).toBe(
      'HOST is 192.0.2.1, but this machine does not have that address. Correct HOST, or remove it to listen on all addresses.\nexit 1',
    )
  })

  test('of a port that this process may not open', () => {
    const cause = Object.assign(new Error('listen EACCES'), { code: 'EACCES' })
    expect(listenError({ port: 80, host: undefined }, cause)).toHaveProperty(
      'message',
      'PORT is 80, but this process may not listen on it: ports below 1024 need more rights. Set PORT to 1024 or higher, and put a proxy in front (docs/hosting.md).',
    )
  })
})

describe('npm run relay', () => {
  test('for a folder that no server has used', async () => {
    const dataDir = join(folder, 'nowhere')
    expect(await output('cli/relay status', { DATA_DIR: dataDir })).toBe(
      `DATA_DIR is ${dataDir}, but no server has stored anything there. Set DATA_DIR to the folder of the server, or start the server first (npm start).\nexit 1`,
    )
  })

  /** A data folder that a server holds, here this process. */
  async function heldFolder(): Promise<string> {
    const held = await newDataFolder()
    const lock = lockFolder(held)
    onTestFinished(async () => {
      lock.release()
      await rm(held, { recursive: true })
    })
    return held
  }

  test('with a PORT where nothing answers', async () => {
    const held = await heldFolder()
    const port = await freePort()
    expect(await output('cli/relay status', { DATA_DIR: held, PORT: String(port) })).toBe(
      `A server uses the folder ${held} of DATA_DIR, but none answers at http://127.0.0.1:${port}: no program listens at 127.0.0.1:${port}. Set PORT and HOST as for that server, or stop it.\nexit 1`,
    )
  })

  test.each([
    [404, 'Not found'],
    [200, '<!doctype html>'],
  ])('with a PORT where another program answers: %i %s', async (status, body) => {
    const held = await heldFolder()
    const port = await listen(
      createHttpServer((_request, response) => response.writeHead(status).end(body)),
    )
    expect(await output('cli/relay status', { DATA_DIR: held, PORT: String(port) })).toBe(
      `A server uses the folder ${held} of DATA_DIR, but another program answers at http://127.0.0.1:${port}. Set PORT and HOST as for that server, or stop it.\nexit 1`,
    )
  })

  test('with a PORT where a server with another key answers', async () => {
    const held = await heldFolder()
    const port = await listen(
      createHttpServer((_request, response) => response.writeHead(401).end()),
    )
    expect(await output('cli/relay status', { DATA_DIR: held, PORT: String(port) })).toBe(
      `The server at http://127.0.0.1:${port} has another encryption key. Set ENCRYPTION_KEY and DATA_DIR as for that server, or restart it.\nexit 1`,
    )
  })
})
