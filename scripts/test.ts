// `npm test` runs the main tests. `npm run test:all` runs every test.
// Both run Vitest once, and then Playwright.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  caddy,
  chromium,
  ensure,
  findSystemdAnalyze,
  firefox,
  nginx,
  pgbouncer,
  webkit,
  without,
} from './programs.ts'

const root = join(import.meta.dirname, '..')
const runsAll = process.argv.includes('--all')
const isCi = Boolean(process.env.CI)

console.log(
  runsAll
    ? 'All tests: Vitest, then the browsers, then an attack. On two cores, this takes 15 to 30 minutes.'
    : 'The main tests: Vitest, then Chromium. On two cores, this takes two to four minutes.',
)

const results: Array<{ name: string; passed: boolean; durationMs: number }> = []
/** A JUnit report of the part that runs, so that the end of a long log names what failed. */
const report = join(root, 'reports/part.xml')
const failures: string[] = []

/** One sentence for each kind of test that cannot run on this machine. */
const missing = [chromium, ...(runsAll ? [nginx, pgbouncer] : [])]
  .filter((program) => ensure(program) === undefined)
  .map(without)
const canAttack = process.platform === 'linux'
if (runsAll && !canAttack) missing.push('The attack did not run: it needs Linux.')
// These may be missing everywhere, also in CI: not every system has a package of them. Their tests are
// then skipped.
const optional = (runsAll ? [caddy, firefox, webkit] : [])
  .filter((program) => ensure<unknown>(program) === undefined)
  .map(without)
if (runsAll && findSystemdAnalyze() === undefined) {
  optional.push('The test of the systemd unit did not run: there is no systemd-analyze.')
}
for (const sentence of [...missing, ...optional]) console.log(sentence)

runPart(
  'Dashboard, server and relay',
  'node_modules/vitest/vitest.mjs',
  'run',
  '--reporter=default',
  '--reporter=junit',
  `--outputFile.junit=${report}`,
)
const playwright = 'node_modules/@playwright/test/cli.js'
const reporters = '--reporter=list,junit'
const hasChromium = chromium.find() !== undefined
const projects = [
  ...(hasChromium ? ['chromium'] : []),
  ...(runsAll ? ['every-browser-*'] : []),
].map((project) => `--project=${project}`)
if (projects.length > 0) runPart('Browser', playwright, 'test', reporters, ...projects)
// Last and alone, because it needs all processors.
if (runsAll && canAttack) {
  runPart(
    'Attack',
    'tests/attack/attack.ts',
    '--database',
    'PGlite',
    '--seconds',
    '25',
    '--any-time',
  )
}

console.log()
for (const failure of failures) console.log(failure)
for (const { name, passed, durationMs } of results) {
  console.log(`${name}: ${passed ? 'passed' : 'FAILED'} after ${inMinutes(durationMs)}`)
}
console.log(`In all: ${inMinutes(performance.now())}`)
for (const sentence of [...missing, ...optional]) console.log(sentence)
// On a developer's machine, a program may be missing. In CI, only an optional one may.
if (results.some(({ passed }) => !passed) || (isCi && missing.length > 0)) process.exitCode = 1

function runPart(name: string, program: string, ...args: string[]): void {
  const startedAt = performance.now()
  rmSync(report, { force: true })
  const { status } = spawnSync(process.execPath, [join(root, program), ...args], {
    cwd: root,
    stdio: 'inherit',
    env: {
      ...process.env,
      [runsAll ? 'TEST_ALL' : 'TEST_MAIN']: '1',
      PLAYWRIGHT_JUNIT_OUTPUT_FILE: report,
      // The tests start the server more than a hundred times.
      NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/node'),
    },
  })
  if (status !== 0 && existsSync(report)) failures.push(...failuresIn(readFileSync(report, 'utf8')))
  results.push({ name, passed: status === 0, durationMs: performance.now() - startedAt })
}

function inMinutes(durationMs: number): string {
  const seconds = Math.round(durationMs / 1000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

/** The names of the tests that failed, with the first line of what failed. */
function failuresIn(junit: string): string[] {
  const characters: Record<string, string> = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' }
  const attribute = (text: string, name: string) =>
    new RegExp(` ${name}="([^"]*)"`)
      .exec(text)?.[1]
      ?.replaceAll(/&(lt|gt|quot|apos|amp);/g, (entity, word) => characters[word] ?? entity) ?? ''
  return junit.split('<testcase').flatMap((test) => {
    const failure = /<(?:failure|error)[^>]*/.exec(test)?.[0]
    if (failure === undefined) return []
    const [message] = attribute(failure, 'message').split(/\n|&#10;/)
    return [`FAILED: ${attribute(test, 'classname')} > ${attribute(test, 'name')}: ${message}`]
  })
}
