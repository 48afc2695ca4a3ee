import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, rmSync } from 'node:fs'
import { chmod, chown, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { cluster, ensure } from '../../scripts/programs.ts'
import { freePort } from '../relay/postgres.ts'

// Two PostgreSQL with Patroni, an etcd and a HAProxy that leads to the primary, all on this machine.

interface Member {
  name: string
  port: number
  restPort: number
  config: string
  dataFolder: string
}

type Program = 'etcd' | 'haproxy' | 'a' | 'b'

/** Waits until `condition` holds. @returns after how many ms. */
export async function until(
  what: string,
  condition: () => Promise<boolean>,
  withinMs: number,
): Promise<number> {
  const began = performance.now()
  for (;;) {
    if (await condition()) return performance.now() - began
    if (performance.now() - began > withinMs) throw new Error(`Not within ${withinMs} ms: ${what}`)
    await delay(100)
  }
}

/** Starts the cluster. Resolves when it has a primary and a synchronous standby. */
export async function startCluster() {
  const programs = ensure(cluster)
  if (programs === undefined) throw new Error('Install postgresql, patroni, etcd-server, haproxy.')
  // PostgreSQL does not run as root.
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }))
  const user = process.getuid?.() === 0 ? { uid: id('-u'), gid: id('-g') } : {}
  const folder = await mkdtemp('/tmp/dealbell-failover-')
  await chmod(folder, 0o755)
  if (user.uid !== undefined) await chown(folder, user.uid, user.gid)
  const [etcdPort, peerPort, proxyPort] = [await freePort(), await freePort(), await freePort()]
  const newMember = async (name: string): Promise<Member> => ({
    name,
    port: await freePort(),
    restPort: await freePort(),
    config: join(folder, `${name}.yml`),
    dataFolder: join(folder, name),
  })
  const members = [await newMember('a'), await newMember('b')] as const
  for (const member of members) await writeFile(member.config, patroniConfig(member))
  const haproxyConfig = join(folder, 'haproxy.cfg')
  await writeFile(haproxyConfig, haproxyText())

  const running = new Map<Program, ChildProcess>()
  const commands: Record<Program, [program: string, ...args: string[]]> = {
    etcd: [
      programs.etcd,
      ...[
        '--data-dir',
        join(folder, 'etcd'),
        '--heartbeat-interval=500',
        '--election-timeout=5000',
      ],
      `--listen-client-urls=http://127.0.0.1:${etcdPort}`,
      `--advertise-client-urls=http://127.0.0.1:${etcdPort}`,
      `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
      `--initial-advertise-peer-urls=http://127.0.0.1:${peerPort}`,
      `--initial-cluster=default=http://127.0.0.1:${peerPort}`,
    ],
    haproxy: [programs.haproxy, '-db', '-f', haproxyConfig],
    a: [programs.patroni, members[0].config],
    b: [programs.patroni, members[1].config],
  }

  function start(program: Program): void {
    const [command, ...args] = commands[program]
    const env = { PATH: `${programs?.postgresBin}:${process.env.PATH}`, LC_ALL: 'C.UTF-8' }
    const child = spawn(command, args, {
      cwd: folder,
      env,
      stdio: ['ignore', 'pipe', 'pipe'],
      ...user,
    })
    const log = createWriteStream(join(folder, `${program}.log`), { flags: 'a' })
    child.stdout.pipe(log, { end: false })
    child.stderr.pipe(log, { end: false })
    running.set(program, child)
  }

  /** Ends a program in order. Patroni stops its PostgreSQL. */
  async function stop(program: Program): Promise<void> {
    const child = running.get(program)
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGTERM')
    await once(child, 'exit')
  }

  async function postmasterOf({ dataFolder }: Member): Promise<number> {
    return Number((await readFile(join(dataFolder, 'postmaster.pid'), 'utf8')).split('\n')[0])
  }

  const answers = async ({ restPort }: Member, path: string) =>
    await fetch(`http://127.0.0.1:${restPort}${path}`, { signal: AbortSignal.timeout(2_000) }).then(
      ({ status }) => status === 200,
      () => false,
    )

  async function primary(): Promise<Member | undefined> {
    for (const member of members) if (await answers(member, '/primary')) return member
    return undefined
  }

  async function isComplete(): Promise<boolean> {
    const leader = await primary()
    const other = members.find((member) => member !== leader)
    return leader !== undefined && other !== undefined && (await answers(other, '/synchronous'))
  }
  const complete = () => until('a primary and a synchronous standby', isComplete, 180_000)

  function patroniConfig({ name, port, restPort, dataFolder }: Member): string {
    return JSON.stringify({
      scope: 'dealbell',
      name,
      etcd3: { host: `127.0.0.1:${etcdPort}` },
      restapi: { listen: `127.0.0.1:${restPort}`, connect_address: `127.0.0.1:${restPort}` },
      bootstrap: {
        dcs: {
          ttl: 20,
          loop_wait: 2,
          retry_timeout: 5,
          synchronous_mode: true,
          postgresql: { use_pg_rewind: true, parameters: { max_connections: 100 } },
        },
        initdb: [{ encoding: 'UTF8' }, 'data-checksums'],
      },
      postgresql: {
        listen: `127.0.0.1:${port}`,
        connect_address: `127.0.0.1:${port}`,
        data_dir: dataFolder,
        bin_dir: programs?.postgresBin,
        pgpass: join(folder, `${name}.pgpass`),
        authentication: {
          superuser: { username: 'postgres', password: 'superuser' },
          replication: { username: 'replicator', password: 'replicator' },
        },
        parameters: { unix_socket_directories: folder },
        pg_hba: [
          'local all all trust',
          ...['all', 'replication'].map((of) => `host ${of} all 127.0.0.1/32 trust`),
        ],
      },
    })
  }

  function haproxyText(): string {
    return `
global
  maxconn 500
defaults
  mode tcp
  timeout connect 2s
  timeout client 1h
  timeout server 1h
listen postgres
  bind 127.0.0.1:${proxyPort}
  option httpchk GET /primary
  http-check expect status 200
  default-server inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
${members.map(({ name, port, restPort }) => `  server ${name} 127.0.0.1:${port} check port ${restPort}`).join('\n')}
`
  }

  start('etcd')
  start('a')
  start('haproxy')
  await until('a primary', async () => (await primary()) !== undefined, 120_000)
  start('b')
  await complete()

  return {
    url: `postgres://postgres:superuser@127.0.0.1:${proxyPort}/postgres`,
    folder,
    complete,
    /** Kills the primary and its Patroni. @returns after how many ms the standby is the primary. */
    async killPrimary(): Promise<number> {
      const killed = await primary()
      if (killed === undefined) throw new Error('There is no primary.')
      const pid = await postmasterOf(killed)
      running.get(killed.name as Program)?.kill('SIGKILL')
      process.kill(pid, 'SIGKILL')
      const promoted = async () => {
        const now = await primary()
        return now !== undefined && now !== killed
      }
      const promotedMs = await until('a new primary', promoted, 120_000)
      return promotedMs
    },
    /** Starts what `killPrimary` has killed. */
    startKilled(): void {
      for (const { name } of members) {
        const child = running.get(name as Program)
        if (child?.signalCode === 'SIGKILL') start(name as Program)
      }
    },
    /** Restarts one program after the other, the standby before the primary. */
    async restartEach(note: (program: string) => void): Promise<void> {
      const leader = (await primary())?.name as Program
      const standby = leader === 'a' ? 'b' : 'a'
      for (const program of ['etcd', 'haproxy', standby, leader] as const) {
        note(program)
        await stop(program)
        start(program)
        await complete()
      }
    },
    async stop(): Promise<void> {
      await Promise.all([stop('a'), stop('b')])
      await Promise.all([stop('etcd'), stop('haproxy')])
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
