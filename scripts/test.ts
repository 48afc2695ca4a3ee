// `npm test` runs the main tests, within three minutes. `npm run test:all` runs every test.
// Both run Vitest once, and then Playwright.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  ensureChromium,
  ensureFirefox,
  ensureNginx,
  ensurePromtool,
  ensureWebkit,
} from './programs.ts'

const root = join(import.meta.dirname, '..')
const runsAll = process.argv.includes('--all')
const isCi = Boolean(process.env.CI)

/** One sentence for each kind of test that cannot run on this machine. */
const missing: string[] = []
const results: Array<{ name: string; passed: boolean; durationMs: number }> = []
/** A JUnit report of the part that runs, so that the end of a long log names what failed. */
const report = join(root, 'reports/part.xml')
const failures: string[] = []

const chromium = ensureChromium()
if (chromium === undefined) {
  missing.push(
    'The browser tests did not run: there is no Chromium and none could be installed. Install one, or set CHROMIUM_PATH.',
  )
}
if (runsAll && ensureNginx() === undefined) {
  missing.push(
    'The nginx tests did not run: there is no nginx and none could be installed. Install one, or set NGINX_PATH.',
  )
}
if (runsAll && ensurePromtool() === undefined) {
  missing.push(
    'The tests of the alert rules did not run: there is no promtool and none could be installed. Install Prometheus, or set PROMTOOL_PATH.',
  )
}
const canAttack = process.platform === 'linux'
if (runsAll && !canAttack) missing.push('The attack did not run: it needs Linux.')
// An engine besides Chromium may be missing everywhere, also in CI: not every system has a package
// of it. Its tests are then skipped.
const otherEngines: string[] = []
if (runsAll && ensureFirefox() === undefined) {
  otherEngines.push(
    'The tests in Firefox did not run: there is no Firefox and none could be installed. Install one, or set FIREFOX_PATH.',
  )
}
if (runsAll && ensureWebkit() === undefined) {
  otherEngines.push(
    'The tests in WebKit did not run: the driver of WebKitGTK or Xvfb is missing and could not be installed. Install both, or set WEBKIT_DRIVER_PATH.',
  )
}
for (const sentence of [...missing, ...otherEngines]) console.log(sentence)

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
const projects = [
  ...(chromium === undefined ? [] : ['chromium']),
  ...(runsAll ? ['every-browser-*'] : []),
  ...(chromium !== undefined && runsAll ? ['alone'] : []),
].map((project) => `--project=${project}`)
if (projects.length > 0) runPart('Browser', playwright, 'test', reporters, ...projects)
// Last and alone, because it needs all processors.
if (runsAll && canAttack) {
  runPart('Attack', 'tests/attack/attack.ts', '--seconds', '30', '--any-time')
}

console.log()
for (const failure of failures) console.log(failure)
for (const { name, passed, durationMs } of results) {
  console.log(`${name}: ${passed ? 'passed' : 'FAILED'} after ${inMinutes(durationMs)}`)
}
console.log(`In all: ${inMinutes(performance.now())}`)
for (const sentence of [...missing, ...otherEngines]) console.log(sentence)
// On a developer's machine, a program may be missing. In CI, only an engine besides Chromium may.
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
