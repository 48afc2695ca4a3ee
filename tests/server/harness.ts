import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Server } from 'node:net'
import { getRequestListener } from '@hono/node-server'
import { eq } from 'drizzle-orm'
import type { PgTable } from 'drizzle-orm/pg-core'
import type { Hono } from 'hono'
import { Hono as HonoApp } from 'hono'
import * as v from 'valibot'
import { afterAll, beforeEach, onTestFinished } from 'vitest'
import { endpoints } from '../../contract/endpoints.ts'
import { featureCalls } from '../../contract/features.ts'
import { createApp } from '../../server/app.ts'
import { createBackend } from '../../server/backend.ts'
import type { Context } from '../../server/context.ts'
import type { Database } from '../../server/database/open.ts'
import {
  dealEvents,
  deliveries,
  rules,
  sessions,
  usedTokens,
  users,
} from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import type { Dashboard } from '../../server/page/serve.ts'
import { sha256 } from '../../server/people/cookies.ts'
import { createSessions } from '../../server/people/session.ts'
import type { ProviderId } from '../../server/providers/registry.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { type DatabaseKind, openTestDatabase } from '../database.ts'

export const appUrl = 'http://localhost:3000'
/** The time of a new harness. */
export const start = new Date('2026-11-20T12:00:00Z')

/** Listens on a free port of this machine. @returns the port. */
export async function listen(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** Listens until the test ends. @returns the port. */
export async function listenInTest(server: Server): Promise<number> {
  onTestFinished(() => void server.close())
  return await listen(server)
}

/** Holds a call: `reached` resolves when it waits, and `release` lets it go on. */
export function hold() {
  const reached = Promise.withResolvers<void>()
  const released = Promise.withResolvers<undefined>()
  return {
    reached: reached.promise,
    release: () => released.resolve(undefined),
    wait() {
      reached.resolve()
      return released.promise
    },
  }
}

/** What a call to a provider is answered with, in place of the stand-in's answer. */
type Fault = (request: Request) => Response | Promise<Response> | undefined

/** Settings that may name the origin at which the stand-ins answer. */
type Settings = (outside: string) => Record<string, string>

/** One database, one backend without a port, and the stand-ins over real HTTP. */
export async function openHarness(kind: DatabaseKind = 'PGlite', settings: Settings = () => ({})) {
  const { database, close } = await openTestDatabase(kind)
  const calls: string[] = []
  const logged: string[] = []
  const clock = { now: start }
  const faults: { current: Fault | undefined } = { current: undefined }

  let sandbox: Hono = new HonoApp()
  // The stand-in hangs below /sandbox as it does in the server.
  const standIn = (request: Request) =>
    Promise.resolve(new HonoApp().route('/sandbox', sandbox).fetch(request))
  const outside = createServer(
    getRequestListener((request) => {
      const url = new URL(request.url)
      calls.push(`${request.method} ${url.pathname}`)
      return faults.current?.(request) ?? standIn(request)
    }),
  )
  // A test may keep this thread busy for longer than an idle connection stays open by default.
  outside.keepAliveTimeout = 60_000
  const encryptionKey = Buffer.alloc(32, 7)
  const port = await listen(outside)
  const env = { APP_URL: appUrl, ...settings(`http://127.0.0.1:${port}`) }
  const addresses = parseEnv(env).addressesAt(port)
  sandbox = createSandbox(addresses)
  const backend = createBackend({
    database,
    encryptionKeys: [encryptionKey],
    addresses,
    dashboard: undefined,
    alone: true,
    log: logTo((_level, event, fields) => void logged.push(JSON.stringify({ event, ...fields }))),
    now: () => clock.now,
  })

  /** The same backend with another address, database, vault, log, limits or page. */
  function appWith({
    dashboard,
    ...changes
  }: Partial<Pick<Context, 'appUrl' | 'database' | 'vault' | 'log' | 'limits' | 'providers'>> & {
    dashboard?: Dashboard
  }) {
    const context = { ...backend, ...changes }
    const { appUrl, now } = context
    const sessions = createSessions(context.database, { appUrl, encryptionKey, now })
    // The stand-ins that answer over HTTP are also the ones in the app: they share their codes.
    return createApp({ ...context, sessions }, { dashboard, sandbox })
  }

  return {
    app: appWith({}),
    appWith,
    /** A database that fails at each use. */
    failingDatabase: (message: string) =>
      new Proxy(database, {
        get() {
          throw new Error(message)
        },
      }),
    addresses,
    database,
    vault: backend.vault,
    providers: backend.providers,
    clock,
    faults,
    /** The stand-in's answer to a call, for a fault that changes it. */
    standIn,
    /** Every request that reached a provider, as `METHOD /path`. */
    calls,
    logged,
    async close() {
      outside.closeAllConnections()
      outside.close()
      await close()
    },
  }
}

export type Harness = Awaited<ReturnType<typeof openHarness>>
export type Browser = ReturnType<typeof openBrowser>

/** Each test of a file that shares a harness has a browser of its own. */
export let browser: Browser

/** Opens a harness for a file. Each test begins without users and faults, and nothing is called or logged yet. */
export async function shareHarness(settings?: Settings): Promise<Harness> {
  const harness = await openHarness('PGlite', settings)
  beforeEach(async () => {
    await harness.database.delete(users)
    await harness.database.delete(usedTokens)
    harness.clock.now = start
    harness.faults.current = undefined
    harness.calls.length = 0
    harness.logged.length = 0
    browser = openBrowser(harness)
  })
  afterAll(harness.close)
  return harness
}

/** An app to which every request comes from one address. In-process requests have none otherwise. */
export function fromAddress(app: Hono, remoteAddress: string): Pick<Hono, 'request'> {
  return {
    request: (path, init) =>
      app.request(path, init, { incoming: { rawHeaders: [], socket: { remoteAddress } } }),
  }
}

/** A browser with the dashboard open: it keeps cookies and sends what a browser sends. */
export function openBrowser({
  app,
  database,
}: {
  app: Pick<Hono, 'request'>
  database?: Database
}) {
  let cookie: string | undefined

  async function send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    if (cookie !== undefined) headers.set('Cookie', cookie)
    const answer = await app.request(path, { ...init, headers })
    const set = answer.headers.getSetCookie()[0]
    if (set !== undefined) cookie = set.split(';')[0]
    return answer
  }

  /** A call of the dashboard's own script. */
  function call(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    headers.set('Sec-Fetch-Site', 'same-origin')
    headers.set('Sec-Fetch-Mode', 'cors')
    if (init.method !== undefined && init.method !== 'GET') headers.set('Origin', appUrl)
    return send(path, { ...init, headers })
  }

  /** Begins an authorization and consents at the stand-in; returns the way back. */
  async function authorize(provider: ProviderId): Promise<URLSearchParams> {
    const begun = await send(`/api/${provider}/auth`, {
      headers: { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate' },
    })
    const consent = new URL(begun.headers.get('Location') ?? '')
    const page = await (await send(consent.pathname + consent.search)).text()
    const channel = page.match(/<option value="([^"]+)"/)?.[1]
    const form = new URLSearchParams({
      ...Object.fromEntries(consent.searchParams),
      // On our own page, an address would be pasted.
      answer: page.includes('value="stand-in"') ? 'stand-in' : 'allow',
      ...(channel !== undefined && { channel }),
    })
    const back = await send(consent.pathname, { method: 'POST', body: form })
    return new URL(back.headers.get('Location') ?? '').searchParams
  }

  const tokenHash = () => sha256(cookie?.split('=')[1] ?? '')

  /** The user of the session. */
  async function userId(): Promise<string> {
    if (database === undefined) throw new Error('This browser does not know the database.')
    const [session] = await database
      .select({ userId: sessions.userId })
      .from(sessions)
      .where(eq(sessions.tokenHash, tokenHash()))
    if (session === undefined) throw new Error('The browser has no session.')
    return session.userId
  }

  return {
    send,
    call,
    authorize,
    tokenHash,
    userId,
    get cookie() {
      return cookie
    },
    /** Takes another browser's cookie, or forgets its own. */
    set cookie(value) {
      cookie = value
    },
    async connect(provider: ProviderId): Promise<void> {
      const answer = await call(`/api/${provider}/callback?${await authorize(provider)}`)
      if (answer.status !== 204) throw new Error(`${answer.status} ${await answer.text()}`)
    },
    save: (rules: unknown) =>
      call('/api/notifications/rules', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ rules }),
      }),
    /**
     * The session's user has these rules, as somebody who has disconnected a service since. A browser
     * without a session gets one.
     */
    async keep(ruleIds: string[]): Promise<void> {
      if (cookie === undefined) {
        await this.connect('slack')
        await this.disconnect('slack')
      }
      await database
        ?.insert(rules)
        .values({ userId: await userId(), ruleIds, savedAt: new Date() })
        .onConflictDoUpdate({ target: rules.userId, set: { ruleIds } })
    },
    disconnect: (provider: ProviderId) => call(`/api/${provider}/disconnect`, { method: 'DELETE' }),
    async rules(): Promise<unknown> {
      return (await call('/api/notifications/rules')).json()
    },
    async connected(provider: ProviderId): Promise<unknown> {
      return (await call(`/api/${provider}/status`)).json()
    },
  }
}

/** Connects both services and saves a rule. */
export async function signIn(browser: Browser, ruleId = 'deal-closed'): Promise<Browser> {
  for (const provider of ['hubspot', 'slack'] as const) await browser.connect(provider)
  await browser.save([ruleId])
  return browser
}

/** Each call of the dashboard that changes something: its method and its path. */
export const writes = [
  ...[...Object.values(endpoints), ...featureCalls.map(({ call }) => call)]
    .filter(({ method }) => method !== 'GET')
    .flatMap(({ method, path }) => {
      const ids = path.includes(':provider') ? ['hubspot', 'slack'] : ['']
      return ids.map((id) => [method, path.replace(':provider', id).replace(':id', '1')] as const)
    }),
  ['DELETE', '/api/session?others=true'] as const,
]

/** What `fetch` takes for one of `writes`. */
export const writeOf = (method: string, headers: Record<string, string>): RequestInit => ({
  method,
  headers: { 'Content-Type': 'application/json', ...headers },
  ...(method === 'POST' && { body: '{"rules":[]}' }),
})

/** All rows of these tables, to be compared later. */
export async function storedIn(database: Database, ...tables: PgTable[]): Promise<string> {
  return JSON.stringify(await Promise.all(tables.map((table) => database.select().from(table))))
}

type StoredDelivery = Partial<typeof deliveries.$inferInsert> & {
  property?: 'stage' | 'test'
  receivedAt?: Date
}

/** Stores a change of a deal and a user's delivery of it, as the relay leaves them. @returns the delivery's id. */
export async function storeDelivery(
  database: Database,
  userId: string,
  delivery: StoredDelivery = {},
): Promise<string> {
  const [id] = await storeDeliveries(database, userId, 1, () => delivery)
  return String(id)
}

/** Stores so many deliveries of a user with two statements. `changes` says what the nth one has. */
export async function storeDeliveries(
  database: Database,
  userId: string,
  count: number,
  changes: (n: number) => StoredDelivery,
): Promise<number[]> {
  const deal = { crm: 'hubspot', accountId: '7', value: 'next' } as const
  const rows = Array.from({ length: count }, (_, n) => ({
    occurredAt: new Date(),
    ...changes(n + 1),
  }))
  const events = rows.map(({ occurredAt, receivedAt = new Date(), property = 'stage' }, n) => ({
    ...{ ...deal, key: randomUUID(), dealId: String(n + 1) },
    ...{ occurredAt, receivedAt, property },
  }))
  const stored = await database.insert(dealEvents).values(events).returning()
  const made = await database
    .insert(deliveries)
    .values(
      rows.map(({ property, receivedAt, ...row }, n) => ({
        ...{ eventId: stored[n]?.id ?? 0, userId, channel: 'T/C', state: 'sent' as const },
        ...{ finishedAt: row.occurredAt, ...row },
      })),
    )
    .returning()
  return made.map(({ id }) => id)
}

const errorAnswer = v.strictObject({
  error: v.strictObject({ code: v.string(), message: v.string() }),
})

/** The status and the code of an error answer; fails when it has another shape. */
export async function refusal(answer: Response): Promise<string> {
  return `${answer.status} ${v.parse(errorAnswer, await answer.json()).error.code}`
}
