import { execFileSync } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { launch } from '../server/program.ts'
import { buildPage, defaultSettings } from './build-page.ts'
import { copyProject } from './copy-project.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-production-'))
})
afterEach(() => rm(folder, { recursive: true }))

test('a production install starts, and builds the same bytes as a development install', async () => {
  // Any path works.
  const project = join(folder, 'a path with ü')
  copyProject(project)
  // Only what a shell has, so that npm and Vite do not notice that a test runs them.
  const { PATH = '', HOME = '' } = process.env
  const env = { ...defaultSettings, PATH, HOME, PORT: '0', DATA_DIR: join(folder, 'data') }
  const install = ['ci', '--omit=dev', '--prefer-offline', '--no-audit', '--no-fund']
  execFileSync('npm', install, { cwd: project, env, stdio: 'pipe' })

  const server = launch(['start'], env, { program: 'npm', cwd: project, detached: true })
  try {
    const url = await server.listens()
    expect(await (await fetch(`${url}/health`)).json()).toMatchObject({ status: 'ok' })
    expect(await (await fetch(url)).text()).toContain('<title>Dealbell</title>')
  } finally {
    server.signalGroup('SIGTERM')
    await server.exited
  }

  const expected = join(folder, 'expected')
  await buildPage(expected)
  const built = join(project, 'dist')
  expect(await filesIn(built)).toEqual(await filesIn(expected))
  for (const file of await filesIn(expected)) {
    const [ours, theirs] = await Promise.all([
      readFile(join(expected, file)),
      readFile(join(built, file)),
    ])
    expect(theirs.equals(ours), file).toBe(true)
  }
}, 600_000)

async function filesIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(path.length))
    .toSorted()
}
