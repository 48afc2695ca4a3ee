import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from './postgres.ts'

const certificate = join(import.meta.dirname, '../build/localhost.pem')

/** Starts PgBouncer in transaction mode in front of a database. @returns the address of the same database there. */
export async function startPgbouncer(program: string, directUrl: string) {
  const { hostname, port, username, password } = new URL(directUrl)
  const server = `host=${hostname} port=${port} user=${username} password=${password}`
  const pooled = new URL(directUrl)
  pooled.hostname = 'localhost'
  pooled.port = String(await freePort())
  const folder = await mkdtemp('/tmp/dealbell-pgbouncer-')
  await chmod(folder, 0o755)
  await copyFile(certificate, join(folder, 'localhost.pem'))
  const settings = `[databases]
    * = ${server}
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
  const pgbouncer = spawn(program, [join(folder, 'pgbouncer.ini')], {
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
  return {
    url: pooled.href,
    async stop() {
      pgbouncer.kill('SIGKILL')
      await once(pgbouncer, 'exit')
      await rm(folder, { recursive: true })
    },
  }
}
