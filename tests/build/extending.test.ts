import { execFile, execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import {
  copyFile,
  cp,
  link,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { connect, launch } from '../server/program.ts'

// Follows docs/extending.md to the letter, in a copy of the project. The sentence before a code block says where it
// belongs. These forms are understood:
//
//   Create `FILE`:
//   In `FILE`, add to the imports:
//   In `FILE`, add at the end:
//   In `FILE`, add before|after (the line) `A PART OF ONE LINE`:
//   In `FILE`, replace `A PART OF ONE LINE` with `TEXT`.
//   `COMMAND` passes.
//   `COMMAND` fails: `OUTPUT` and `OUTPUT`.
//
// A block of `sh` is run.

const root = resolve(import.meta.dirname, '../..')
const minutes = 60_000

/** The tests that know rules, calls and providers, but not the examples. */
const others = [
  'tests/components/insights.test.tsx',
  'tests/components/rules.test.tsx',
  'tests/contract/contract.test.ts',
  'tests/conventions/conventions.test.ts',
  'tests/relay/preview.test.ts',
  'tests/relay/watch.test.ts',
  'tests/server/doctor.test.ts',
  'tests/server/env.test.ts',
  'tests/server/stand-ins.test.ts',
]

const project = await mkdtemp(join(tmpdir(), 'dealbell-extending-'))
beforeAll(() => copyProject(project))
afterAll(() => rm(project, { recursive: true }))

type Step =
  | { do: 'create'; file: string; text: string }
  | { do: 'add'; file: string; place: string; anchor: string | undefined; text: string }
  | { do: 'replace'; file: string; anchor: string; text: string }
  | { do: 'run'; command: string; fails?: readonly string[] | undefined }

const sentences = new RegExp(
  [
    'In `(?<replaced>[^`]+)`, replace `(?<from>[^`]+)` with `(?<to>[^`]+)`',
    '`(?<command>(?:npm|npx) [^`]+)` (?:passes|fails: (?<output>`[^`]+`(?: and `[^`]+`)*))',
  ].join('|'),
  'g',
)
const place =
  /(?:Create `(?<file>[^`]+)`|In `(?<changed>[^`]+)`, add (?:(?<place>to the imports|at the end|before|after)(?: (?:the line )?`(?<anchor>[^`]+)`)?)):$/

/** Reads the steps of a guide. @throws Error if a code block has no place. */
function stepsOf(guide: string): Step[] {
  // A prose, the language and the text of a code block, and so on.
  const parts = guide.split(/^```(\w+)\n(.*?)^```$/ms)
  return parts.flatMap((part, at): Step[] => {
    if (at % 3 !== 0) return []
    const prose = part.replaceAll(/\s+/g, ' ').trim()
    const said = [...prose.matchAll(sentences)].map(({ groups = {} }): Step => {
      const { replaced: file = '', from: anchor = '', to: text = '', command, output } = groups
      if (command === undefined) return { do: 'replace', file, anchor, text }
      return { do: 'run', command, fails: output?.split('`').filter((_, at) => at % 2 === 1) }
    })
    const [language, text] = parts.slice(at + 1)
    if (text === undefined) return said
    if (language === 'sh') return [...said, { do: 'run', command: text }]
    const groups = place.exec(prose)?.groups
    if (groups === undefined) throw new Error(`No sentence says where this belongs:\n${text}`)
    const { file, changed = '', place: where = '', anchor } = groups
    return [
      ...said,
      file === undefined
        ? { do: 'add', file: changed, place: where, anchor, text }
        : { do: 'create', file, text },
    ]
  })
}

/** Copies the files of the project, also those that are not committed yet, and its packages. */
async function copyProject(folder: string): Promise<void> {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const files = execFileSync('git', list, { cwd: root, encoding: 'utf8' }).split('\0')
  for (const file of files.filter((file) => file !== '' && existsSync(join(root, file)))) {
    await cp(join(root, file), join(folder, file))
  }
  await linkFiles(join(root, 'node_modules'), join(folder, 'node_modules'))
}

/** Links each file, because Biome fails at a link to a folder elsewhere. A copy would take minutes. */
async function linkFiles(from: string, to: string): Promise<void> {
  await mkdir(to)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    // Vite and Vitest write to their caches.
    if (entry.name === '.vite' || entry.name === '.vitest') continue
    if (entry.isDirectory()) await linkFiles(source, target)
    else if (entry.isSymbolicLink()) await symlink(await readlink(source), target)
    else await link(source, target).catch(() => copyFile(source, target))
  }
}

async function take(step: Step): Promise<void> {
  if (step.do === 'run') return await run(step.command, step.fails)
  const path = join(project, step.file)
  if (step.do === 'create') return await writeFile(path, step.text, { flag: 'wx' })
  const text = await readFile(path, 'utf8')
  await writeFile(path, changed(text, step))
}

function changed(text: string, step: Extract<Step, { do: 'add' | 'replace' }>): string {
  if (step.do === 'add' && step.place === 'at the end') return `${text}\n${step.text}`
  const lines = text.split('\n')
  const anchor = step.do === 'add' && step.place === 'to the imports' ? 'import ' : step.anchor
  const found = lines.flatMap((line, at) => (line.includes(anchor ?? '') ? [at] : []))
  const [at = -1] = found
  if (anchor !== 'import ') expect(found, `${anchor} in ${step.file}`).toHaveLength(1)
  const line = lines[at] ?? ''
  const added = step.text.trimEnd()
  if (step.do === 'replace') lines[at] = line.replace(step.anchor, () => step.text)
  else lines.splice(step.place === 'after' ? at + 1 : at, 0, added)
  return lines.join('\n')
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

const guides = (await readFile(join(root, 'docs/extending.md'), 'utf8')).split(/^## /m).slice(1)

// One after the other in the same copy, which then has all examples.
test.each(guides.map((guide) => [guide.slice(0, guide.indexOf('\n')), guide] as const))(
  'who follows the guide "%s" meets no surprise',
  async (_, guide) => {
    const steps = stepsOf(guide)
    expect(steps.length).toBeGreaterThan(3)
    for (const step of steps) await take(step)
    // What CI checks first.
    await run('npm run check')
  },
  minutes * 10,
)

test(
  'the tests that no guide names pass with all examples',
  async () => {
    await run(`npx vitest run ${others.join(' ')}`)
  },
  minutes * 10,
)

test('the provider of the guide sends messages in the place of Slack', async () => {
  const DATA_DIR = join(project, 'data')
  const env = { PORT: '0', SERVE_DASHBOARD: 'false', DATA_DIR, VITE_CHAT_NAME: 'Mattermost' }
  const server = launch(['server/main.ts'], env, { cwd: project })
  try {
    const url = (await server.listens()).replace('127.0.0.1', 'localhost')
    const cookie = await connect(url, 'mattermost', await connect(url, 'hubspot'))
    const headers = { Cookie: cookie, Origin: url, 'Content-Type': 'application/json' }
    const body = JSON.stringify({ rules: ['deal-closed'] })
    await fetch(`${url}/api/notifications/rules`, { method: 'POST', headers, body })
    const move = new URLSearchParams({ change: 'stage', stage: 'closedwon' })
    await fetch(`${url}/sandbox/hubspot/deals/9001`, { method: 'POST', body: move })
    await vi.waitFor(async () => {
      const channel = await fetch(`${url}/sandbox/mattermost/channels/C0DEALS001`)
      expect(await channel.text()).toContain('Acme renewal was won')
    }, minutes / 2)
    expect((await fetch(`${url}/api/slack/status`)).status).toBe(404)
  } finally {
    await server.kill()
  }
})
