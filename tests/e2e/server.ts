import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test as base, expect } from '@playwright/test'

/** A real server process with a data folder of its own. */
export class Dealbell {
  /** The address it printed. */
  url = ''
  /** All that it printed. */
  output = ''
  readonly #dataDir: string
  readonly #env: Record<string, string>
  #process: ChildProcess | undefined

  constructor(dataDir: string, env: Record<string, string> = {}) {
    this.#dataDir = dataDir
    this.#env = env
  }

  async start(): Promise<void> {
    // A restart comes back on the port it had, where the browser still looks for it.
    const port = this.url === '' ? '0' : new URL(this.url).port
    const child = spawn(process.execPath, ['server/main.ts'], {
      env: { ...process.env, ...this.#env, PORT: port, DATA_DIR: this.#dataDir },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    this.#process = child
    // Not even a test that runs out of time leaves a server behind.
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

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }
}

/**
 * `server` is a process of the test's own: whoever connects the stand-in's HubSpot user is one and the
 * same person, in every browser. Each begins with a copy of an empty database, made once a worker.
 * `violations` are what the pages of a test did against their policy; a test that provokes some takes
 * them out of the list, any other fails by them.
 */
export const test = base.extend<
  { server: Dealbell; violations: string[] },
  { emptyDataDir: string; sharedServer: Dealbell }
>({
  emptyDataDir: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
    async ({}, use) => {
      const dataDir = await mkdtemp(join(tmpdir(), 'dealbell-empty-'))
      const server = new Dealbell(dataDir)
      await server.start()
      await server.stop()
      await use(dataDir)
      await rm(dataDir, { recursive: true, force: true })
    },
    { scope: 'worker', timeout: 60_000 },
  ],
  sharedServer: [
    async ({ emptyDataDir }, use) => await withServer(emptyDataDir, use),
    { scope: 'worker', timeout: 60_000 },
  ],
  server: async ({ emptyDataDir }, use) => await withServer(emptyDataDir, use),
  baseURL: async ({ server }, use) => use(server.url),
  violations: [
    async ({ context }, use) => {
      const violations: string[] = []
      await context.exposeFunction('tellViolation', (violation: string) => {
        violations.push(violation)
      })
      await context.addInitScript(() => {
        document.addEventListener('securitypolicyviolation', (event) => {
          const { effectiveDirective, blockedURI, sourceFile, lineNumber } = event
          const violation = `${document.URL}: ${effectiveDirective} ${blockedURI} ${sourceFile}:${lineNumber}`
          if ('tellViolation' in window && typeof window.tellViolation === 'function') {
            window.tellViolation(violation)
          }
        })
      })
      // What happens before a script can listen, or to a whole document, is only told here.
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

/** For tests that store nothing: `server` is that of the worker, which spares each the start of its own. */
export const sharedTest = test.extend({
  server: async ({ sharedServer }, use) => await use(sharedServer),
})

async function withServer(emptyDataDir: string, use: (server: Dealbell) => Promise<void>) {
  const dataDir = await mkdtemp(join(tmpdir(), 'dealbell-'))
  await cp(emptyDataDir, dataDir, { recursive: true })
  const server = new Dealbell(dataDir)
  await server.start()
  await use(server)
  await server.stop()
  await rm(dataDir, { recursive: true, force: true })
}
