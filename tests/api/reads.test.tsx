import { waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { useConnectionStatus } from '../../src/api/connections.ts'
import { ApiError } from '../../src/api/errors.ts'
import { useHealth } from '../../src/api/health.ts'
import { useOAuthCallback } from '../../src/api/oauth.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { rulesQuery, useRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { hold, lookAgain, renderAppHook, setOnline, startBackend, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

/** Each read: how many calls a temporary failure makes, and how many a focus and a reconnect make. */
const reads = [
  {
    hook: 'useHealth',
    run: useHealth,
    path: '/health',
    data: { status: 'ok' },
    callsOnTemporaryFailure: 1,
    callsAfterReturn: 1,
  },
  {
    hook: 'useConnectionStatus',
    run: () => useConnectionStatus(config.crm),
    path: '/api/hubspot/status',
    data: { connected: true },
    callsOnTemporaryFailure: 2,
    callsAfterReturn: 3,
  },
  {
    hook: 'useRules',
    run: useRules,
    path: '/api/notifications/rules',
    data: { rules: ['deal-closed'] },
    callsOnTemporaryFailure: 2,
    callsAfterReturn: 1,
  },
  {
    hook: 'useOAuthCallback',
    run: () => useOAuthCallback(config.crm, { code: 'abc' }),
    path: '/api/hubspot/callback?code=abc',
    data: true,
    callsOnTemporaryFailure: 1,
    callsAfterReturn: 1,
  },
]

interface Read {
  isPending: boolean
  isFetching: boolean
  isError: boolean
  data: unknown
  error: unknown
}

const backend = () =>
  startBackend({
    connected: new Set(['hubspot']),
    rules: ['deal-closed'],
    codes: new Set(['abc']),
  })

describe.each(reads)('$hook', (read) => {
  const { run, path, data, callsOnTemporaryFailure, callsAfterReturn } = read
  const answer = (answer: () => Response | Promise<Response>) =>
    server.use(http.get(`*${path.split('?')[0]}`, answer))

  test('is pending, then has the answer of one call', async () => {
    const { calls } = backend()
    const { result } = renderAppHook<Read>(run)
    expect(result.current).toMatchObject({ isPending: true, data: undefined })
    await waitFor(() => expect(result.current.data).toEqual(data))
    expect(calls()).toEqual([`GET ${path}`])
  })

  test('is refetched by focus and by reconnect only if it is a status', async () => {
    const { calls } = backend()
    const { result } = renderAppHook<Read>(run)
    await waitFor(() => expect(result.current.data).toBeDefined())
    lookAgain()
    await settle()
    setOnline(false)
    setOnline(true)
    await settle()
    await waitFor(() => expect(result.current.isFetching).toBe(false))
    expect(calls()).toHaveLength(callsAfterReturn)
  })

  test.each([400, 401, 404, 429, 500, 503])(
    'fails with %s, and ignores a Retry-After of an hour',
    async (status) => {
      const { calls } = backend()
      answer(() => new HttpResponse(null, { status, headers: { 'Retry-After': '3600' } }))
      const { result } = renderAppHook<Read>(run)
      await waitFor(() => expect(result.current.isError).toBe(true))
      expect(result.current.error).toBeInstanceOf(ApiError)
      expect(result.current.error).toMatchObject({ kind: 'status', status })
      await settle()
      expect(calls()).toHaveLength(status >= 500 ? callsOnTemporaryFailure : 1)
      expect(takeLog()).toHaveLength(1)
    },
  )

  test('fails with a dropped connection', async () => {
    const { calls } = backend()
    answer(() => HttpResponse.error())
    const { result } = renderAppHook<Read>(run)
    await waitFor(() => expect(result.current.error).toMatchObject({ kind: 'network' }))
    await settle()
    expect(calls()).toHaveLength(callsOnTemporaryFailure)
    expect(takeLog()).toHaveLength(1)
  })

  test('fails after 10 s, without a retry', async () => {
    stopClock()
    const { calls } = backend()
    answer(() => new Promise<Response>(() => {}))
    const { result } = renderAppHook<Read>(run)
    await settle()
    await pass(9900)
    expect(result.current.isError).toBe(false)
    await pass(200)
    expect(result.current.error).toMatchObject({
      kind: 'timeout',
      message: 'The server took too long to answer',
    })
    expect(calls()).toHaveLength(1)
    takeLog()
  })

  test('is fetched although the browser reports that it is offline', async () => {
    const { calls } = backend()
    // Query listens for 'offline' only while something is mounted.
    renderAppHook(() => undefined)
    setOnline(false)
    const { result, unmount } = renderAppHook<Read>(run)
    await waitFor(() => expect(result.current.data).toEqual(data))
    expect(calls()).toHaveLength(1)
    unmount()
    setOnline(true)
  })
})

test('a read is retried a second later, and is not logged if it then succeeds', async () => {
  stopClock()
  const { calls } = backend()
  server.use(http.get('*/api/notifications/rules', withStatus(500), { once: true }))
  // The tests' own client retries at once.
  const rules = createQueryClient().query(rulesQuery)
  await settle()
  await pass(990)
  expect(calls()).toHaveLength(1)
  await pass(20)
  expect(await rules).toEqual({ rules: ['deal-closed'] })
})

test('a callback without a code makes no call', async () => {
  const { calls } = backend()
  const { result } = renderAppHook(() =>
    useOAuthCallback(config.chat, { code: 'abc', error: 'access_denied' }),
  )
  await waitFor(() => expect(result.current.error?.message).toBe('Missing Slack code'))
  await settle()
  expect(calls()).toEqual([])
  takeLog()
})

test('a callback sends the state only if there is one', async () => {
  const { calls } = startBackend({ codes: new Set(['abc', 'def']) })
  for (const parameters of [{ code: 'abc', state: 's' }, { code: 'def' }]) {
    const { result } = renderAppHook(() => useOAuthCallback(config.crm, parameters))
    await waitFor(() => expect(result.current.isSuccess).toBe(true))
  }
  expect(calls()).toEqual([
    'GET /api/hubspot/callback?code=abc&state=s',
    'GET /api/hubspot/callback?code=def',
  ])
})

test('a successful callback has its connection status fetched again', async () => {
  const { calls, state } = backend()
  state.connected.clear()
  // A status that was requested before the callback arrives after it.
  const late = Promise.withResolvers<void>()
  const stale = () => late.promise.then(() => HttpResponse.json({ connected: false }))
  server.use(http.get('*/api/hubspot/status', stale, { once: true }))
  const answer = hold('get', '*/api/hubspot/callback')
  const { result } = renderAppHook(() => ({
    status: useConnectionStatus(config.crm),
    callback: useOAuthCallback(config.crm, { code: 'abc' }),
  }))
  await waitFor(() => expect(calls('GET /api/hubspot/status')).toHaveLength(1))
  await settle()
  answer()
  await waitFor(() => expect(result.current.status.data).toEqual({ connected: true }))
  late.resolve()
  await settle()
  expect(result.current.status.data).toEqual({ connected: true })
  expect(calls('GET /api/hubspot/callback')).toHaveLength(1)
})
