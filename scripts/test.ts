// `npm test` runs the main tests, within five minutes. `npm run test:all` runs every test.
// Both run Vitest once, and then Playwright.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { ensureChromium, ensureNginx } from './programs.ts'

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
for (const sentence of missing) console.log(sentence)

runPart('Dashboard, server and relay', 'node_modules/vitest/vitest.mjs', 'run')
if (chromium !== undefined) runPart('Browser', 'node_modules/@playwright/test/cli.js', 'test')
// Last and alone, because it measures times.
if (runsAll && canAttack) runPart('Attack', 'tests/attack/attack.ts')

console.log()
for (const { name, passed, durationMs } of results) {
  console.log(`${name}: ${passed ? 'passed' : 'FAILED'} after ${inMinutes(durationMs)}`)
}
console.log(`In all: ${inMinutes(performance.now())}`)
for (const sentence of missing) console.log(sentence)
// On a developer's machine, a program may be missing. In CI, all tests must run.
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
