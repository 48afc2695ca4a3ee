import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { connect, launch } from '../server/program.ts'
import { copyProject, linkPackages } from './copy-project.ts'
import { type Step, stepsOf } from './guide.ts'

// Follows docs/extending.md to the letter, in a copy of the project. It runs each command of npm or npx that is said to
// pass or to fail. guide.ts says which sentences are understood.

const root = resolve(import.meta.dirname, '../..')
const minutes = 60_000

/** Each guide ends with it, and so does CI's first step. It runs once, with all examples. */
const check = 'npm run format && npm run check'

/** The tests that know rules, calls and providers, but not the examples. */
const others = [
  'tests/components/insights.test.tsx',
  'tests/components/render-error.test.tsx',
  'tests/contract/check-backend.test.ts',
  'tests/contract/contract.test.ts',
  'tests/conventions/conventions.test.ts',
  'tests/relay/watch.test.ts',
  'tests/server/env.test.ts',
  'tests/server/stand-ins.test.ts',
]
/** Guides say that these pass. They run once, after all guides. */
const atTheEnd = [check, 'npx vitest run tests/contract/contract.test.ts']

const project = mkdtempSync(join(tmpdir(), 'dealbell-extending-'))
beforeAll(() => {
  copyProject(project)
  linkPackages(project)
})
afterAll(() => rmSync(project, { recursive: true }))

async function take(step: Step): Promise<void> {
  if (step.do === 'run') return await run(step.command, step.fails)
  const path = join(project, step.file)
  if (step.do === 'create') {
    mkdirSync(dirname(path), { recursive: true })
    return writeFileSync(path, step.text, { flag: 'wx' })
  }
  const lines = readFileSync(path, 'utf8').split('\n')
  const found = lines.filter((line) => line.includes(step.line))
  if (step.place !== 'to the imports') expect(found, `${step.line} in ${path}`).toHaveLength(1)
  const at = lines.indexOf(found[0] ?? '') + (step.place.startsWith('after') ? 1 : 0)
  writeFileSync(path, lines.toSpliced(at, 0, step.text.trimEnd()).join('\n'))
}

/** Runs a command as a developer would. With `fails`, it must fail and print these texts. */
async function run(command: string, fails?: readonly string[]): Promise<void> {
  // Without what Vitest sets, so that the commands do not notice that a test runs them.
  const { PATH = '', HOME = '' } = process.env
  const options = { cwd: project, env: { PATH, HOME, NO_COLOR: '1' }, maxBuffer: 2 ** 26 }
  const ended = { code: 0, stdout: '', stderr: '' }
  Object.assign(
    ended,
    await promisify(execFile)('sh', ['-c', command], options).catch((error: object) => error),
  )
  const output = `${command}\n${ended.stdout}${ended.stderr}`
  if (fails === undefined) expect(ended.code, output).toBe(0)
  else expect(ended.code, output).not.toBe(0)
  for (const text of fails ?? []) expect(output).toContain(text)
}

const guides = readFileSync(join(root, 'docs/extending.md'), 'utf8').split(/^## /m).slice(1)

// One after the other in the same copy, which then has all examples.
describe('the guides', { shuffle: false }, () => {
  for (const guide of guides) {
    const [title = ''] = guide.split('\n')
    test(`who follows the guide '${title}' meets no surprise`, {
      timeout: 30 * minutes,
    }, async () => {
      const steps = stepsOf(guide)
      expect(steps).toContainEqual({ do: 'run', command: check })
      for (const step of steps) {
        const waits = step.do === 'run' && !step.fails && atTheEnd.includes(step.command)
        if (!waits) await take(step)
      }
    })
  }

  test(`'${check}' passes with all examples`, { timeout: 30 * minutes }, () => run(check))

  test(
    'the tests that no guide names pass with all examples',
    {
      timeout: 30 * minutes,
    },
    () => run(`npx vitest run ${others.join(' ')}`),
  )

  test('the chat of the guide gets messages in the place of Slack', async () => {
    const DATA_DIR = join(project, 'data')
    const env = { PORT: '0', SERVE_DASHBOARD: 'false', DATA_DIR, VITE_CHAT_NAME: 'Example Chat' }
    const server = launch(['server/main.ts'], env, { cwd: project })
    try {
      const url = (await server.listens()).replace('127.0.0.1', 'localhost')
      const cookie = await connect(url, 'example-chat', await connect(url, 'hubspot'))
      const headers = { Cookie: cookie, Origin: url, 'Content-Type': 'application/json' }
      const body = JSON.stringify({ rules: ['deal-closed'] })
      await fetch(`${url}/api/notifications/rules`, { method: 'POST', headers, body })
      const move = new URLSearchParams({ change: 'stage', stage: 'closedwon' })
      await fetch(`${url}/sandbox/hubspot/deals/9001`, { method: 'POST', body: move })
      await vi.waitFor(async () => {
        const channel = await fetch(`${url}/sandbox/example-chat`)
        expect(await channel.text()).toMatch(/Acme renewal.* was won/)
      }, minutes / 2)
      expect((await fetch(`${url}/api/slack/status`)).status).toBe(404)
    } finally {
      await server.kill()
    }
  })
})
