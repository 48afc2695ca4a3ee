import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { afterAll, expect, onTestFinished, test, vi } from 'vitest'
import { newDataFolder, newFolder } from '../database.ts'
import { startServer } from './program.ts'

// A process takes a second to start, and many more on a busy machine.
vi.setConfig({ testTimeout: 180_000 })

/** Of cgroup version 2 and 1: the file of the limit, and a file that only this version has. Only root can make a cgroup, and some
 * containers do not allow it. */
const kinds = [
  ['/sys/fs/cgroup', 'memory.max', 'cgroup.controllers'],
  ['/sys/fs/cgroup/memory', 'memory.limit_in_bytes', 'cgroup.procs'],
] as const
const groups: string[] = []
function makeGroup(megabytes: number): string | undefined {
  for (const [root, limit, mark] of kinds) {
    const group = join(root, `dealbell-${process.pid}-${megabytes}`)
    if (!existsSync(join(root, mark))) continue
    try {
      mkdirSync(group)
      groups.push(group)
      writeFileSync(join(group, limit), `${megabytes * 1024 ** 2}`)
      const enter = `echo $$ > ${join(group, 'cgroup.procs')}`
      if (spawnSync('sh', ['-c', enter]).status === 0) return group
    } catch {
      // The other version, or none.
    }
  }
  return undefined
}
afterAll(() => {
  for (const group of groups) rmdirSync(group)
})

const group = makeGroup(768)
const small = makeGroup(320)

/** Starts a server in a group with little memory. */
function startIn(group: string | undefined, DATA_DIR: string) {
  const server = startServer({ DATA_DIR })
  onTestFinished(() => server.kill())
  if (group !== undefined) writeFileSync(join(group, 'cgroup.procs'), `${server.child.pid}`)
  return server
}

async function peakOf(server: ReturnType<typeof startIn>): Promise<number> {
  const url = await server.listens()
  await vi.waitFor(async () => expect((await fetch(`${url}/ready`)).status).toBe(200), 20_000)
  const status = readFileSync(`/proc/${server.child.pid}/status`, 'utf8')
  server.child.kill('SIGTERM')
  expect(await server.exited).toBe(0)
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024
}

test.skipIf(group === undefined)(
  'with 768 MB, the first start works, and a later one takes at most 330 MB',
  async () => {
    const folder = join(await newFolder(), 'data')
    expect(await peakOf(startIn(group, folder))).toBeLessThan(760)
    expect(await peakOf(startIn(group, folder))).toBeLessThan(330)
  },
)

test.skipIf(small === undefined)(
  'a start with too little memory says so before it ends, and so does the doctor',
  async () => {
    const server = startIn(small, await newDataFolder())
    await server.said(/"This process may use 320 MB of memory\. With PGlite, .*DATABASE_URL/)
    const enter = `echo $$ > ${join(small ?? '', 'cgroup.procs')}; exec "$0" server/doctor/doctor.ts`
    const env = { PATH: process.env.PATH, DATA_DIR: await newDataFolder() }
    const { stdout } = spawnSync('sh', ['-c', enter, process.execPath], { env, encoding: 'utf8' })
    expect(stdout).toContain('! This process may use 320 MB of memory. With PGlite, ')
  },
)

test('a start that is killed while it opens the database leaves nothing in the way, and the next one says so', async () => {
  const folder = join(await newFolder(), 'data')
  const first = startServer({ DATA_DIR: folder })
  while (!existsSync(join(folder, 'pglite.opening'))) await delay(20)
  first.child.kill('SIGKILL')
  await first.exited
  const second = startIn(undefined, folder)
  await second.said(/The server was killed during its last start/)
  await second.listens()
  await second.kill()
  const third = startIn(undefined, folder)
  await third.listens()
  expect(third.output).not.toContain('last start')
})

test.skipIf(process.platform === 'win32')(
  'a limit of open files that is too low is named at the first start, and the next start begins anew',
  async () => {
    const DATA_DIR = join(await newFolder(), 'data')
    const limited = 'ulimit -n 80; exec "$0" server/main.ts'
    const env = { PATH: process.env.PATH, DATA_DIR, SERVE_DASHBOARD: 'false', PORT: '0' }
    const options = { env, encoding: 'utf8', timeout: 60_000 } as const
    const { stderr } = spawnSync('sh', ['-c', limited, process.execPath], options)
    expect(stderr).toContain('a process may have only 80 open files here')
    await startIn(undefined, DATA_DIR).listens()
  },
)
