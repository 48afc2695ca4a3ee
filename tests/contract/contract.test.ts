import { randomUUID } from 'node:crypto'
import { getResponse } from 'msw'
import * as v from 'valibot'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  connectionStatusAnswer,
  endpoints,
  errorBody,
  healthAnswer,
  rulesAnswer,
} from '../../contract/endpoints.ts'
import {
  type Activity,
  type ActivityState,
  activityAnswer,
  activityCall,
  retryCall,
  retryPath,
  summaryAnswer,
  summaryCall,
} from '../../contract/features/activity.ts'
import { retryAllAnswer, retryAllCall } from '../../contract/features/retry-all.ts'
import { featureCalls, featureNames } from '../../contract/features.ts'
import { users } from '../../server/database/schema.ts'
import { providerIds } from '../../server/providers/registry.ts'
import { sentItem } from '../msw/activity.ts'
import { createBackend } from '../msw/handlers.ts'
import { appUrl, openBrowser, openHarness, storeDelivery } from '../server/harness.ts'
import { createChecks, names, runCheck } from './checks.ts'
import { openClient, type Target } from './client.ts'

// The dashboard's tests run against MSW handlers, its users against the server. These tests run against
// both, so that what works in a dashboard test also works with the server. What the dashboard relies on
// is in checks.ts. The tests here are about what only our two backends promise.

const providers = ['hubspot', 'slack'] as const

interface Backend {
  /** Sends what the dashboard's script sends. */
  call(path: string, init?: RequestInit): Promise<Response>
  /** Consents at the provider; returns the query with which the browser comes back. */
  authorize(provider: (typeof providers)[number]): Promise<URLSearchParams>
  /** Adds a message for a change so many minutes ago, in this state. */
  add(minutesAgo: number, state: ActivityState): Promise<void>
}

const harness = await openHarness()
afterAll(() => harness.close())

const mswAnswer = async (
  handlers: ReturnType<typeof createBackend>['handlers'],
  request: Request,
): Promise<Response> =>
  (await getResponse(handlers, request)) ??
  Response.json({ error: { code: 'not_found', message: 'No handler.' } }, { status: 404 })

// HubSpot's stand-in has one user.
const deleteUser = async () => {
  await harness.database.delete(users)
}

/** The cookie of somebody who has connected both services: only they can save rules. */
async function signedIn(): Promise<string | undefined> {
  const browser = openBrowser(harness)
  for (const provider of providers) await browser.connect(provider)
  return browser.cookie
}

// The origin of the dashboard, and how each backend is called.
const dashboardAt: Record<string, () => Promise<Omit<Target, 'crm' | 'chat'>>> = {
  server: async () => ({
    url: appUrl,
    cookie: await signedIn(),
    send: async (request) => harness.app.fetch(request),
  }),
  'server of another origin': async () => {
    const app = harness.appWith({ appUrl: 'https://app.dealbell.example' })
    return {
      url: 'https://api.dealbell.example',
      origin: 'https://app.dealbell.example',
      // On https, the cookie has another name.
      cookie: (await signedIn())?.replace('dealbell', '__Host-dealbell'),
      send: async (request) => app.fetch(request),
    }
  },
  msw: async () => {
    const { handlers } = createBackend({ features: [...featureNames] })
    return { url: appUrl, send: (request) => mswAnswer(handlers, request) }
  },
}

describe.each(Object.entries(dashboardAt))('the dashboard with %s', (name, open) => {
  const origin = name.includes('another origin') ? 'https://app.dealbell.example' : undefined
  const checks = createChecks({ ...names, origin }).filter(
    ({ needs }) => needs !== 'origin' || origin !== undefined,
  )
  let target: Awaited<ReturnType<typeof open>>
  beforeAll(async () => {
    await deleteUser()
    target = await open()
  })
  test.each(checks)('$name', async (check) => {
    const outcome = await runCheck(check, openClient({ ...names, ...target }))
    // The handlers have no sessions, so they set no cookies.
    const isWithoutCookies = outcome.finding?.message === 'The backend set no cookie.'
    if (name !== 'msw' || !isWithoutCookies) expect(outcome.finding).toBeUndefined()
  })
})

const stored = { sent: 'sent', waiting: 'pending', failed: 'dead', skipped: 'ignored' } as const

/** By the place to which a new call must be added. */
const backends: Record<string, () => Backend> = {
  'server/api/ and server/app.ts'() {
    const browser = openBrowser(harness)
    return {
      ...browser,
      async add(minutesAgo, state) {
        const occurredAt = new Date(harness.clock.now.getTime() - minutesAgo * 60_000)
        await storeDelivery(harness.database, await browser.userId(), {
          state: stored[state],
          occurredAt,
          ...(state === 'failed' && { reason: 'no_channel' }),
          ...(state === 'waiting' && { finishedAt: null }),
        })
      },
    }
  },
  'tests/msw/'() {
    const { handlers, state: backend } = createBackend({ features: [...featureNames] })
    let codes = 0
    return {
      call: (path, init) => mswAnswer(handlers, new Request(`http://localhost${path}`, init)),
      async authorize() {
        codes += 1
        const code = `code-${codes}`
        backend.codes.add(code)
        return new URLSearchParams({ code })
      },
      async add(minutesAgo, state) {
        const at = new Date(Date.now() - minutesAgo * 60_000).toISOString()
        const reason = state === 'failed' ? 'the channel is archived' : null
        const { items } = backend.activity
        items.push(sentItem(randomUUID(), { at, state, reason }))
        items.sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
      },
    }
  },
}

describe.each(Object.entries(backends))('%s', (place, open) => {
  beforeEach(deleteUser)

  test.each([...Object.values(endpoints), ...featureCalls.map(({ call }) => call)])(
    'answers $method $path',
    async ({ method, path }) => {
      // A call may be one of a CRM alone, or of a chat alone.
      const paths = providerIds.map((id) => path.replace(':provider', id).replace(':id', '1'))
      const asked = [...new Set(paths)]
      const isAnswered = asked.map(async (one) => {
        const answer = await open().call(one, { method })
        const body = answer.status === 404 ? v.parse(errorBody, await answer.json()) : undefined
        // A call about one item answers 404 with a code of its own: this user has no such item.
        return answer.status !== 405 && body?.error.code !== 'not_found'
      })
      expect(
        await Promise.all(isAnswered),
        `Nothing answers ${method} ${asked.join(' or ')}: add it in ${place}.`,
      ).toContain(true)
    },
  )

  async function answered<Schema extends v.GenericSchema>(
    schema: Schema,
    pending: Promise<Response>,
  ): Promise<v.InferOutput<Schema>> {
    const answer = await pending
    expect(answer.status).toBe(200)
    expect(answer.headers.get('Content-Type')).toContain('application/json')
    return v.parse(schema, await answer.json())
  }

  async function refused(pending: Promise<Response>, status: number) {
    const answer = await pending
    expect(answer.status).toBe(status)
    v.parse(
      v.strictObject({ error: v.strictObject({ code: v.string(), message: v.string() }) }),
      await answer.json(),
    )
  }

  async function done(pending: Promise<Response>) {
    const answer = await pending
    expect(answer.status).toBe(204)
    expect(await answer.text()).toBe('')
  }

  const status = (backend: Backend, provider: string) =>
    answered(connectionStatusAnswer, backend.call(`/api/${provider}/status`))
  const rules = (backend: Backend) =>
    answered(rulesAnswer, backend.call('/api/notifications/rules'))
  const save = (backend: Backend, body: unknown, type = 'application/json') =>
    backend.call('/api/notifications/rules', {
      method: 'POST',
      headers: { 'Content-Type': type },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  const callbackPath = async (backend: Backend, provider: (typeof providers)[number]) =>
    `/api/${provider}/callback?${await backend.authorize(provider)}`
  const callback = async (backend: Backend, provider: (typeof providers)[number]) =>
    backend.call(await callbackPath(backend, provider))
  const disconnect = ({ call }: Backend, provider: string) =>
    call(`/api/${provider}/disconnect`, { method: 'DELETE' })
  const list = ({ call }: Backend, query = '') =>
    answered(activityAnswer, call(`${activityCall.path}${query}`))
  const summary = ({ call }: Backend) =>
    answered(summaryAnswer, call(`${summaryCall.path}?days=14&zone=UTC`))
  const statesOf = ({ items }: Activity) => items.map(({ state }) => state)

  test('lists every feature', async () => {
    const health = await answered(healthAnswer, open().call(endpoints.health.path))
    expect(health.features).toEqual(featureNames)
  })

  test('begins with nothing connected, where a disconnect is done, no rules and no messages', async () => {
    const backend = open()
    expect(await rules(backend)).toEqual({ rules: [] })
    for (const provider of providers) {
      expect(await status(backend, provider)).toEqual({ connected: false })
    }
    await done(disconnect(backend, 'slack'))
    expect(await list(backend)).toEqual({ items: [], next: null })
    expect(await summary(backend)).toMatchObject({ days: 14, waiting: 0 })
  })

  test.each(providers)('connects and disconnects %s alone; a code counts once', async (one) => {
    const backend = open()
    const other = providers.find((provider) => provider !== one) ?? one
    const path = await callbackPath(backend, one)
    await done(backend.call(path))
    expect(await status(backend, one)).toMatchObject({ connected: true })
    expect(await status(backend, other)).toMatchObject({ connected: false })
    await done(callback(backend, other))
    await done(disconnect(backend, one))
    await backend.call(path)
    expect(await status(backend, one)).toMatchObject({ connected: false })
    expect(await status(backend, other)).toMatchObject({ connected: true })
  })

  test.each(['', '?code=made-up', '?error=access_denied'])(
    'refuses a callback with %j',
    async (query) => {
      await refused(open().call(`/api/hubspot/callback${query}`), 400)
    },
  )

  /** A backend with both services connected, which rules need, and messages in these states, the newest first. */
  async function openConnected(...states: ActivityState[]): Promise<Backend> {
    const backend = open()
    for (const provider of providers) await done(callback(backend, provider))
    await done(save(backend, { rules: [] }))
    for (const [n, state] of states.entries()) await backend.add(n + 1, state)
    return backend
  }

  test.each([
    ['an id that is not offered', { rules: ['deal-closed', 'no-such-rule'] }],
    ['an id that is coming soon', { rules: ['invoice-paid'] }],
    ['an id that is no string', { rules: [1] }],
    ['broken JSON', '{"rules":'],
    ['rules that are not sent as JSON', { rules: [] }, 415, 'text/plain'],
  ])('refuses %s and changes nothing', async (_name, body, status = 400, type = undefined) => {
    const backend = await openConnected()
    await done(save(backend, { rules: ['deal-stage-changed'] }))
    await refused(save(backend, body, type), status)
    expect(await rules(backend)).toEqual({ rules: ['deal-stage-changed'] })
  })

  test('ends this session: nothing is connected any more, and no rules are left', async () => {
    const backend = await openConnected()
    await done(save(backend, { rules: ['deal-closed'] }))
    await done(backend.call('/api/session?others=true', { method: 'DELETE' }))
    expect(await status(backend, 'slack')).toMatchObject({ connected: true })
    await done(backend.call('/api/session', { method: 'DELETE' }))
    expect(await status(backend, 'slack')).toEqual({ connected: false })
    expect(await rules(backend)).toEqual({ rules: [] })
  })

  test('lists pages, the newest first, which stay stable while new messages arrive', async () => {
    const backend = await openConnected('sent', 'sent', 'sent', 'sent', 'sent')
    const all = await list(backend)
    expect(all.items).toHaveLength(5)
    expect(all.next).toBeNull()
    const times = all.items.map(({ at }) => Date.parse(at))
    expect(times).toEqual(times.toSorted((a, b) => b - a))

    const first = await list(backend, '?limit=2')
    expect(first.items).toEqual(all.items.slice(0, 2))
    await backend.add(0, 'sent')
    const second = await list(backend, `?limit=2&before=${encodeURIComponent(first.next ?? '')}`)
    expect(second.items).toEqual(all.items.slice(2, 4))
    const third = await list(backend, `?limit=100&before=${encodeURIComponent(second.next ?? '')}`)
    expect(third).toEqual({ items: all.items.slice(4), next: null })
  })

  test('sends a failed message again, once, and no other', async () => {
    const backend = await openConnected('failed', 'sent')
    const { items } = await list(backend)
    expect(items[0]).toMatchObject({ state: 'failed', reason: expect.stringMatching(/[^.]$/) })
    const [failed = '', sent = ''] = items.map(({ id }) => id)
    const retry = async (id: string) => {
      const answer = await backend.call(retryPath(id), { method: retryCall.method })
      if (answer.status !== 202) v.parse(errorBody, await answer.json())
      return answer.status
    }
    expect(await retry(failed)).toBe(202)
    expect(statesOf(await list(backend))).toEqual(['waiting', 'sent'])
    for (const id of [failed, sent]) expect(await retry(id)).toBe(409)
    for (const id of ['999999', 'x', '<b>/../']) expect(await retry(id)).toBe(404)
    expect(statesOf(await list(backend))).toEqual(['waiting', 'sent'])
  })

  test('sends all failed messages again with one call, and says how many', async () => {
    const backend = await openConnected('failed', 'sent', 'failed')
    const retryAll = async (query: string) => {
      const { method, path } = retryAllCall
      const answer = await backend.call(path + query, { method })
      expect(answer.status).toBe(202)
      return v.parse(retryAllAnswer, await answer.json())
    }
    // None of them failed because of a broken connection.
    expect(await retryAll('?because=broken')).toEqual({ queued: 0, more: false })
    const counted = '?counts=true&state=failed&q=none'
    expect((await list(backend, counted)).retryable).toEqual({ count: 0, more: false })
    expect(await retryAll('?q=none')).toEqual({ queued: 0, more: false })
    expect(await retryAll('')).toEqual({ queued: 2, more: false })
    expect(statesOf(await list(backend))).toEqual(['waiting', 'sent', 'waiting'])
  })

  test.each(providers)(
    'refuses a preview or a test message if only %s is connected',
    async (one) => {
      const backend = open()
      await done(callback(backend, one))
      await refused(backend.call('/api/notifications/test', { method: 'POST' }), 409)
      const preview = await backend.call('/api/notifications/preview')
      expect(preview.status).toBe(one === 'hubspot' ? 200 : 409)
    },
  )
})
