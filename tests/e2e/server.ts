import { cpSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test as base, expect, type Page } from '@playwright/test'
import { defaultNames, providerIdOf } from '../../contract/provider-names.ts'
import { launch, type Program } from '../server/program.ts'

/** A real server process with its own data folder. */
export class Dealbell {
  /** The address that it printed. */
  url = ''
  readonly #env: Record<string, string>
  readonly #root: string | undefined
  #program: Program | undefined

  /** @param root the folder of a copy of the program, if it is not this one. */
  constructor(dataDir: string, env: Record<string, string> = {}, root?: string) {
    this.#env = { ...env, DATA_DIR: dataDir }
    this.#root = root
  }

  async start(): Promise<void> {
    // A restart keeps the port, because the browser's page still calls it.
    const PORT = this.url === '' ? '0' : new URL(this.url).port
    const place = this.#root === undefined ? {} : { cwd: this.#root }
    this.#program = launch(['server/main.ts'], { PORT, ...this.#env }, place)
    this.url = await this.#program.listens()
  }

  /** Stops it, and starts it at another port. */
  async moveTo(url: string): Promise<void> {
    await this.stop()
    this.url = url
    await this.start()
  }

  stop(): Promise<void> {
    return this.#end('SIGTERM')
  }

  kill(): Promise<void> {
    return this.#end('SIGKILL')
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    this.#program?.child.kill(signal)
    await this.#program?.exited
  }
}

/**
 * Each test has a `server` of its own: the stand-in HubSpot has one user, so all browsers that connect
 * it on one server are the same person. `violations` lists what the test's pages did against their
 * policy. A test that provokes violations removes them from the list; any other violation fails it.
 */
export const test = base.extend<
  { server: Dealbell; olderBrowser: undefined; violations: string[] },
  { sharedServer: Dealbell }
>({
  sharedServer: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
    async ({}, use) => await withServer(use),
    { scope: 'worker', timeout: 60_000 },
  ],
  // The limit of a test is for its story, not for the start of its server.
  server: [
    // biome-ignore lint/correctness/noEmptyPattern: Playwright reads a fixture's needs from this pattern.
    async ({}, use) => await withServer(use),
    { timeout: 60_000 },
  ],
  baseURL: async ({ server }, use) => use(server.url),
  // All stories run without what the oldest supported browsers lack (vite.config.ts).
  olderBrowser: [
    async ({ context }, use) => {
      await context.addInitScript(removeNewerFunctions)
      await use(undefined)
    },
    { auto: true },
  ],
  violations: [
    async ({ context }, use) => {
      const violations: string[] = []
      context.on('console', (message) => {
        if (/Content Security Policy|Permissions[- ]Policy|Trusted ?Type/i.test(message.text())) {
          violations.push(message.text())
        }
      })
      await use(violations)
      expect(violations, 'violations of the policy').toEqual([])
    },
    { auto: true },
  ],
})

/** Runs in the page before its scripts. */
function removeNewerFunctions(): void {
  const owners: [object, string][] = [
    [Map, 'groupBy'],
    [Object, 'groupBy'],
    [Promise, 'withResolvers'],
    [Promise, 'try'],
    [URL, 'canParse'],
    [URL, 'parse'],
    [AbortSignal, 'any'],
    [Array, 'fromAsync'],
    [RegExp, 'escape'],
    [globalThis, 'Iterator'],
    [globalThis, 'scheduler'],
    [globalThis, 'navigation'],
    [document, 'startViewTransition'],
    ...['union', 'intersection', 'difference', 'isSubsetOf', 'isSupersetOf'].map(
      (name): [object, string] => [Set.prototype, name],
    ),
    ...['map', 'filter', 'toArray', 'some', 'find', 'take', 'forEach'].map(
      (name): [object, string] => [Object.getPrototypeOf(Object.getPrototypeOf([].values())), name],
    ),
  ]
  for (const [owner, name] of owners) Reflect.deleteProperty(owner, name)
}

/**
 * For tests that never connect HubSpot: they share one server per worker, which saves a start. Each
 * test's browser has its own session, and so its own Slack connection and rules.
 */
export const sharedTest = test.extend({
  server: async ({ sharedServer }, use) => await use(sharedServer),
})

export const button = (page: Page, name: string | RegExp) =>
  page.getByRole('button', { name, exact: true })
export const rule = (page: Page, when: string) => page.getByLabel(`Notify me when ${when}`)
/** The messages in the activity. */
export const rows = (page: Page) =>
  page.getByRole('listitem').filter({ has: page.getByRole('time') })

/** Presses a link that opens a tab of its own. */
export async function openTab(page: Page, link: string, press: 'click' | 'tap' = 'click') {
  const opened = page.context().waitForEvent('page')
  await page.getByRole('link', { name: link })[press]()
  return await opened
}

/** Connects services on the stand-ins' consent pages. */
export async function connect(page: Page, ...services: string[]): Promise<void> {
  for (const name of services) {
    await button(page, `Connect ${name}`).click()
    await button(page, 'Allow').click()
    await expect(button(page, `Disconnect ${name}`)).toBeVisible()
  }
}

/** Ticks rules and saves. */
export async function saveRules(page: Page, ...rules: string[]): Promise<void> {
  for (const when of rules) await rule(page, when).check()
  await button(page, 'Save').click()
  await expect(page.getByText('✅ Rules saved successfully!')).toBeVisible()
}

/** Opens the dashboard, connects both services and saves one rule. */
export async function setUp(page: Page): Promise<void> {
  await page.goto('/')
  await connect(page, 'HubSpot', 'Slack')
  await saveRules(page, 'a deal is signed or closed')
}

/** Runs a server with an empty database while `use` runs. @param env adds settings. @param root as of `Dealbell`. */
export async function withServer(
  use: (server: Dealbell) => Promise<void>,
  env: Record<string, string> = {},
  root?: string,
): Promise<void> {
  const empty = process.env.EMPTY_DATA_DIR
  if (empty === undefined) throw new Error('tests/e2e/build.ts has not run')
  const dataDir = await mkdtemp(join(tmpdir(), 'dealbell-'))
  // As in tests/database.ts.
  cpSync(empty, dataDir, { recursive: true })
  const server = new Dealbell(dataDir, env, root)
  await server.start()
  await use(server)
  // The folder goes, so the database need not be closed, which takes seconds.
  await server.kill()
  await rm(dataDir, { recursive: true, force: true })
}

/**
 * Runs a server with an empty database whose dashboard shows these services, as if it had been built for them. A build of
 * its own takes seconds, so it is a copy of the program in which the built page has other names.
 */
export async function withServices(
  use: (server: Dealbell) => Promise<void>,
  { crm, chat }: { crm: string; chat: string },
): Promise<void> {
  const root = await mkdtemp(join(tmpdir(), 'dealbell-program-'))
  const here = join(import.meta.dirname, '../..')
  for (const part of ['server', 'stand-ins', 'contract', 'dist', 'package.json']) {
    cpSync(join(here, part), join(root, part), {
      recursive: true,
      // The compressed copies have the former names.
      filter: (file) => !/\.(br|gz)$/.test(file),
    })
  }
  symlinkSync(join(here, 'node_modules'), join(root, 'node_modules'))
  const inScripts = (name: string) => `{id:\`${providerIdOf(name)}\`,name:\`${name}\`}`
  for (const [setting, name] of [
    ['VITE_CRM_NAME', crm],
    ['VITE_CHAT_NAME', chat],
  ] as const) {
    const built = defaultNames[setting]
    replaceIn(join(root, 'dist'), {
      [inScripts(built)]: inScripts(name),
      [`/api/${providerIdOf(built)}/`]: `/api/${providerIdOf(name)}/`,
      [`Name":"${built}"`]: `Name":"${name}"`,
    })
  }
  await withServer(use, { VITE_CRM_NAME: crm, VITE_CHAT_NAME: chat }, root)
  await rm(root, { recursive: true, force: true })
}

/** Replaces texts in all files of a folder. Each must be in one of them. */
function replaceIn(folder: string, texts: Record<string, string>): void {
  const missing = new Set(Object.keys(texts))
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const path = join(entry.parentPath, entry.name)
    let content = readFileSync(path, 'utf8')
    for (const [from, to] of Object.entries(texts)) {
      if (!content.includes(from)) continue
      missing.delete(from)
      content = content.replaceAll(from, to)
      writeFileSync(path, content)
    }
  }
  expect([...missing], 'texts that are not in the build').toEqual([])
}
