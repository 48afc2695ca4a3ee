import { waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { useConnectionStatus } from '../../src/api/connections.ts'
import { ApiError } from '../../src/api/errors.ts'
import { healthQuery, useHealth } from '../../src/api/health.ts'
import { useOAuthCallback } from '../../src/api/oauth.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { rulesQuery, useRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, renderAppHook, setOnline, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const reads = [
  {
    hook: 'useHealth',
    run: useHealth,
    path: '/health',
    data: { status: 'ok' },
    callsOnTemporaryFailure: 1,
  },
  {
    hook: 'useConnectionStatus',
    run: () => useConnectionStatus(config.crm),
    path: '/api/hubspot/status',
    data: { connected: true },
    callsOnTemporaryFailure: 2,
  },
  {
    hook: 'useRules',
    run: useRules,
    path: '/api/notifications/rules',
    data: { rules: ['deal-closed'] },
    callsOnTemporaryFailure: 2,
  },
  {
    hook: 'useOAuthCallback',
    run: () => useOAuthCallback(config.crm, { code: 'abc' }),
    path: '/api/hubspot/callback?code=abc',
    data: true,
    callsOnTemporaryFailure: 1,
  },
]

const backend = () =>
  startBackend({
    connected: new Set(['hubspot']),
    rules: ['deal-closed'],
    codes: new Set(['abc']),
  })

describe.each(reads)('$hook', ({ run, path, data, callsOnTemporaryFailure }) => {
  test('is pending, then has the answer of one call', async () => {
    const { calls } = backend()
    const { result } = renderAppHook<{ isPending: boolean; data: unknown }>(run)
    expect(result.current).toMatchObject({ isPending: true, data: undefined })
    await waitFor(() => expect(result.current.data).toEqual(data))
    expect(calls()).toEqual([`GET ${path}`])
  })

  test.each([
    { name: '400', answer: answer(400), kind: 'status', status: 400, temporary: false },
    { name: '401', answer: answer(401), kind: 'status', status: 401, temporary: false },
    { name: '404', answer: answer(404), kind: 'status', status: 404, temporary: false },
    { name: '429', answer: answer(429), kind: 'status', status: 429, temporary: false },
    { name: '500', answer: answer(500), kind: 'status', status: 500, temporary: true },
    { name: '503', answer: answer(503), kind: 'status', status: 503, temporary: true },
    {
      name: 'a dropped connection',
      answer: () => HttpResponse.error(),
      kind: 'network',
      status: undefined,
      temporary: true,
    },
  ])('fails with $name', async ({ answer, kind, status, temporary }) => {
    const { calls } = backend()
    server.use(http.get(`*${path.split('?')[0]}`, answer))
    const { result } = renderAppHook<{ isError: boolean; error: unknown }>(run)
    await waitFor(() => expect(result.current.isError).toBe(true))
    expect(result.current.error).toBeInstanceOf(ApiError)
    expect(result.current.error).toMatchObject({ kind, status })
    await settle()
    expect(calls()).toHaveLength(temporary ? callsOnTemporaryFailure : 1)
    expect(takeLog()).toHaveLength(1)
  })

  test('ignores a Retry-After of an hour', async () => {
    stopClock()
    const { calls } = backend()
    server.use(
      http.get(
        `*${path.split('?')[0]}`,
        () => new HttpResponse(null, { status: 503, headers: { 'Retry-After': '3600' } }),
      ),
    )
    const { result } = renderAppHook<{ isError: boolean }>(run)
    await settle()
    await pass(10)
    await pass(10)
    expect(result.current.isError).toBe(true)
    expect(calls()).toHaveLength(callsOnTemporaryFailure)
    takeLog()
  })

  test('fails after 10 s, without a retry', async () => {
    stopClock()
    const { calls } = backend()
    server.use(http.get(`*${path.split('?')[0]}`, () => new Promise<Response>(() => {})))
    const { result } = renderAppHook<{ isError: boolean; error: unknown }>(run)
    await settle()
    await pass(9900)
    expect(result.current.isError).toBe(false)
    await pass(200)
    expect(result.current.error).toMatchObject({ kind: 'timeout' })
    expect(calls()).toHaveLength(1)
    takeLog()
  })

  test('is fetched although the browser reports that it is offline', async () => {
    const { calls } = backend()
    // Query listens for 'offline' only while something is mounted.
    renderAppHook(() => undefined)
    setOnline(false)
    const { result, unmount } = renderAppHook<{ data: unknown }>(run)
    await waitFor(() => expect(result.current.data).toEqual(data))
    expect(calls()).toHaveLength(1)
    unmount()
    setOnline(true)
  })
})

describe('refetches', () => {
  test.each([
    ['useHealth', useHealth, '/health', 1],
    ['useRules', useRules, '/api/notifications/rules', 1],
    [
      'useOAuthCallback',
      () => useOAuthCallback(config.crm, { code: 'abc' }),
      '/api/hubspot/callback?code=abc',
      1,
    ],
    ['useConnectionStatus', () => useConnectionStatus(config.crm), '/api/hubspot/status', 3],
  ])('by focus and by reconnect: %s', async (_name, run, path, times) => {
    const { calls } = backend()
    const { result } = renderAppHook<{ data: unknown; isFetching: boolean }>(run)
    await waitFor(() => expect(result.current.data).toBeDefined())
    lookAgain()
    await waitFor(() => expect(result.current.isFetching).toBe(false))
    await settle()
    setOnline(false)
    setOnline(true)
    await settle()
    await waitFor(() => expect(result.current.isFetching).toBe(false))
    expect(calls(`GET ${path}`)).toHaveLength(times)
  })
})

test('a read that succeeds at the retry is not logged', async () => {
  backend()
  server.use(http.get('*/api/notifications/rules', answer(500), { once: true }))
  const { result } = renderAppHook(useRules)
  await waitFor(() => expect(result.current.data).toEqual({ rules: ['deal-closed'] }))
})

test('outside of tests the retry comes a second later', async () => {
  stopClock()
  const { calls } = backend()
  server.use(http.get('*/api/notifications/rules', answer(500), { once: true }))
  const queryClient = createQueryClient()
  const rules = queryClient.query(rulesQuery)
  await settle()
  await pass(990)
  expect(calls()).toHaveLength(1)
  await pass(20)
  expect(await rules).toEqual({ rules: ['deal-closed'] })
})

test('a health check that failed before the first render is not repeated', async () => {
  const { calls } = backend()
  server.use(http.get('*/health', answer(500)))
  const { queryClient } = renderAppHook(() => undefined)
  await queryClient.query(healthQuery).catch(() => {})
  const { result } = renderAppHook(useHealth, queryClient)
  await settle()
  expect(result.current.isError).toBe(true)
  expect(calls()).toHaveLength(1)
  takeLog()
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

test('a successful callback has its connection status fetched again', async () => {
  const { calls, state } = backend()
  state.connected.clear()
  // A status that was requested before the callback arrives after it.
  const late = Promise.withResolvers<void>()
  server.use(
    http.get(
      '*/api/hubspot/status',
      async () => {
        await late.promise
        return HttpResponse.json({ connected: false })
      },
      { once: true },
    ),
  )
  const status = renderAppHook(() => ({
    status: useConnectionStatus(config.crm),
    callback: useOAuthCallback(config.crm, { code: 'abc' }),
  }))
  await waitFor(() => expect(status.result.current.status.data).toEqual({ connected: true }))
  late.resolve()
  await settle()
  expect(status.result.current.status.data).toEqual({ connected: true })
  expect(calls('GET /api/hubspot/callback')).toHaveLength(1)
})

function answer(status: number) {
  return () => new HttpResponse(null, { status })
}
