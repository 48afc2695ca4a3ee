import { appendFile, cp, mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterEach, beforeAll, expect, test, vi } from 'vitest'
import { copyProject } from '../build/copy-project.ts'
import { newDataFolder, newFolder } from '../database.ts'
import { freePort } from '../relay/postgres.ts'
import { companyNetwork, launch, type Program } from './program.ts'

vi.setConfig({ testTimeout: 120_000 })
const started = { timeout: 60_000, interval: 50 }

// The tests change files of the server, so they run a copy of the project.
let project: string
beforeAll(async () => {
  const root = resolve(import.meta.dirname, '../..')
  project = await newFolder()
  copyProject(project)
  // A folder of links, because Vite writes its cache into node_modules.
  await mkdir(join(project, 'node_modules'))
  for (const name of await readdir(join(root, 'node_modules'))) {
    if (name.startsWith('.vite')) continue
    await symlink(join(root, 'node_modules', name), join(project, 'node_modules', name))
  }
})

let npm: Program | undefined
afterEach(async () => {
  npm?.killGroup()
  await rm(join(project, '.env'), { force: true })
})

/** Runs `npm run dev`, which gets its settings from .env. */
async function runDev({ port, devPort }: { port: number; devPort: number }) {
  const settings = { PORT: port, DEV_PORT: devPort, DATA_DIR: await newDataFolder() }
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`)
  // As Windows writes it.
  await writeFile(join(project, '.env'), `\uFEFF${lines.join('')}`)
  const { HOME = '' } = process.env
  npm = launch(
    ['run', 'dev'],
    { HOME, ...companyNetwork },
    { program: 'npm', cwd: project, detached: true },
  )
  return npm
}

const health = (port: number) => fetch(`http://localhost:${port}/health`)
const isClosed = (port: number) =>
  health(port).then(
    () => false,
    () => true,
  )

test('PORT in .env reaches the server and the proxy; a fault in the server is shown with its place, and the next change starts it again; both end', async () => {
  const [port, devPort] = [await freePort(), await freePort()]
  const dev = await runDev({ port, devPort })
  // Until Vite listens, the connection fails. The first answer must be the server's.
  const first = await vi.waitFor(() => health(devPort), started)
  expect(await first.json()).toMatchObject({ status: 'ok' })
  await dev.said(/The dashboard is at/)
  expect(dev.output).toContain(`The dashboard is at http://localhost:${devPort}.`)
  expect(dev.output).toContain(` listens on http://localhost:${port}\n`)

  const changed = join(project, 'server/app.ts')
  const line = (await readFile(changed, 'utf8')).split('\n').length + 1
  await appendFile(changed, '\nthis is no TypeScript')
  const answer = await vi.waitFor(async () => {
    const response = await health(devPort)
    expect(response.status).toBe(503)
    return response
  }, started)
  expect(await answer.text()).toMatch(/^The server has ended because of an error\./)
  await dev.said(/It starts again when you save one of its files\./)
  expect(dev.output).toContain(`${changed}:${line}\n`)

  const original = resolve(import.meta.dirname, '../../server/app.ts')
  await cp(original, changed)
  await vi.waitFor(async () => expect((await health(devPort)).status).toBe(200), started)
  dev.signalGroup('SIGINT')
  await vi.waitFor(async () => {
    for (const each of [port, devPort]) expect(await isClosed(each)).toBe(true)
  }, started)
})
