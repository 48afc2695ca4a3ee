import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test as base, expect, type Page } from '@playwright/test'

/** A real server process with its own data folder. */
export class Dealbell {
  /** The address that it printed. */
  url = ''
  /** Everything that it printed. */
  output = ''
  readonly #dataDir: string
  readonly #env: Record<string, string>
  #process: ChildProcess | undefined

  constructor(dataDir: string, env: Record<string, string> = {}) {
    this.#dataDir = dataDir
    this.#env = env
  }

  async start(): Promise<void> {
    // A restart keeps the port, because the browser's page still calls it.
    const port = this.url === '' ? '0' : new URL(this.url).port
    const child = spawn(process.execPath, ['server/main.ts'], {
      env: { ...process.env, PORT: port, ...this.#env, DATA_DIR: this.#dataDir },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    // A test that times out leaves no server behind either.
    const kill = () => child.kill('SIGKILL')
    process.once('exit', kill)
    child.once('exit', () => process.off('exit', kill))
    const listening = new Promise<string>((resolve, reject) => {
      const read = (chunk: Buffer) => {
        this.output += chunk
        const url = /listens on (http\S+)/.exec(String(chunk))?.[1]
        if (url !== undefined) resolve(url)
      }
      child.stdout.on('data', read)
      child.stderr.on('data', read)
      child.once('close', () => reject(new Error(`The server ended:\n${this.output}`)))
    })
    this.url = await listening
  }

  async stop(): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGTERM')
    await ended
  }
}

/**
 * Each test has a `server` of its own: the stand-in HubSpot has one user, so all browsers that connect
 * it on one server are the same person. `violations` lists what the test's pages did against their
 * policy. A test that provokes violations removes them from the list; any other violation fails it.
 */
export const test = base.extend<
  { server: Dealbell; violations: string[] },
  { sharedServer: Dealbell }
>({
  sharedServer: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
    async ({}, use) => await withServer(use),
    { scope: 'worker', timeout: 60_000 },
  ],
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
  server: async ({}, use) => await withServer(use),
  baseURL: async ({ server }, use) => use(server.url),
  violations: [
    async ({ context }, use) => {
      const violations: string[] = []
      await context.exposeFunction('reportViolation', (violation: string) => {
        violations.push(violation)
      })
      await context.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (event) => {
          const { effectiveDirective, blockedURI, sourceFile, lineNumber } = event
          const violation = `${document.URL}: ${effectiveDirective} ${blockedURI} ${sourceFile}:${lineNumber}`
          if ('reportViolation' in window && typeof window.reportViolation === 'function') {
            window.reportViolation(violation)
          }
        })
      })
      // The console alone reports violations of a whole document, and those before any script runs.
      context.on('console', (message) => {
        if (
          /Content Security Policy|Permissions[- ]Policy|Trusted ?Type|integrity/i.test(
            message.text(),
          )
        ) {
          violations.push(message.text())
        }
      })
      await use(violations)
      expect(violations, 'violations of the policy').toEqual([])
    },
    { auto: true },
  ],
})

/**
 * For tests that never connect HubSpot: they share one server per worker, which saves a start. Each
 * test's browser has its own session, and so its own Slack connection and rules.
 */
export const sharedTest = test.extend({
  server: async ({ sharedServer }, use) => await use(sharedServer),
})

/** Connects services on the stand-ins' consent pages. */
export async function connect(page: Page, ...services: string[]): Promise<void> {
  for (const name of services) {
    await page.getByRole('button', { name: `Connect ${name}`, exact: true }).click()
    await page.getByRole('button', { name: 'Allow' }).click()
    await expect(page.getByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  }
}

/** Runs a server with an empty database while `use` runs. @param env adds settings. */
export async function withServer(
  use: (server: Dealbell) => Promise<void>,
  env: Record<string, string> = {},
): Promise<void> {
  const empty = process.env.EMPTY_DATA_DIR
  if (empty === undefined) throw new Error('tests/e2e/build.ts has not run')
  const dataDir = await mkdtemp(join(tmpdir(), 'dealbell-'))
  await cp(empty, dataDir, { recursive: true })
  const server = new Dealbell(dataDir, env)
  await server.start()
  await use(server)
  await server.stop()
  await rm(dataDir, { recursive: true, force: true })
}
