// `npm test` runs the main tests, within five minutes. `npm run test:all` runs every test.
// Both run Vitest once, and then Playwright.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { ensureChromium, ensureFirefox, ensureNginx, ensureWebkit } from './programs.ts'

const root = join(import.meta.dirname, '..')
const runsAll = process.argv.includes('--all')
const isCi = Boolean(process.env.CI)

/** One sentence for each kind of test that cannot run on this machine. */
const missing: string[] = []
const results: Array<{ name: string; passed: boolean; durationMs: number }> = []

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

runPart('Dashboard, server and relay', 'node_modules/vitest/vitest.mjs', 'run')
const playwright = 'node_modules/@playwright/test/cli.js'
if (chromium !== undefined) {
  const projects = ['--project=chromium', ...(runsAll ? ['--project=alone'] : [])]
  runPart('Browser', playwright, 'test', ...projects)
}
if (runsAll) runPart('Every browser', playwright, 'test', '--project=every-browser-*')
// Last and alone, because it measures times.
if (runsAll && canAttack) runPart('Attack', 'tests/attack/attack.ts')

console.log()
for (const { name, passed, durationMs } of results) {
  console.log(`${name}: ${passed ? 'passed' : 'FAILED'} after ${inMinutes(durationMs)}`)
}
console.log(`In all: ${inMinutes(performance.now())}`)
for (const sentence of [...missing, ...otherEngines]) console.log(sentence)
// On a developer's machine, a program may be missing. In CI, only an engine besides Chromium may.
if (results.some(({ passed }) => !passed) || (isCi && missing.length > 0)) process.exitCode = 1

function runPart(name: string, program: string, ...args: string[]): void {
  const startedAt = performance.now()
  const { status } = spawnSync(process.execPath, [join(root, program), ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, [runsAll ? 'TEST_ALL' : 'TEST_MAIN']: '1' },
  })
  results.push({ name, passed: status === 0, durationMs: performance.now() - startedAt })
}

function inMinutes(durationMs: number): string {
  const seconds = Math.round(durationMs / 1000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}
