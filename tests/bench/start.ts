import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { launch } from '../server/program.ts'

// `npm run bench -- start` says what a start on PGlite takes: memory at its peak and at rest, and time of the processor
// until `/ready`. With `--release FOLDER` it starts that release. It needs Linux.

const { values: options } = parseArgs({
  options: { release: { type: 'string' }, rest: { type: 'string', default: '60' } },
})
const { release } = options
const program =
  release === undefined ? ['server/main.ts'] : [resolve(release, 'bin/dealbell.cjs'), 'start']

const folder = await mkdtemp(join(tmpdir(), 'dealbell-start-'))
for (const name of ['first start', 'second start']) {
  const env = { PORT: '0', DATA_DIR: join(folder, 'data') }
  const server = launch(program, env)
  const url = await server.listens()
  while (!(await fetch(`${url}/ready`)).ok) await delay(50)
  const { pid } = server.child
  const [, , ...fields] = (await readFile(`/proc/${pid}/stat`, 'utf8')).split(' ')
  // The user's and the system's, in hundredths of a second (proc_pid_stat(5), fields 14 and 15).
  const seconds = (Number(fields[11]) + Number(fields[12])) / 100
  await delay(Number(options.rest) * 1000)
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const megabytes = (key: string) =>
    Math.round(Number(new RegExp(`${key}:\\s+(\\d+)`).exec(status)?.[1]) / 1024)
  console.log(
    `${name}: ${megabytes('VmHWM')} MB at its peak, ${megabytes('VmRSS')} MB at rest, ${seconds.toFixed(1)} s of a processor until /ready`,
  )
  server.child.kill('SIGTERM')
  await server.exited
}
await rm(folder, { recursive: true })
