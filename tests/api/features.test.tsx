import { act, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { ApiError } from '../../src/api/errors.ts'
import { usePreview } from '../../src/api/preview.ts'
import { useSummary } from '../../src/api/summary.ts'
import { useSendTest } from '../../src/api/test-message.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { renderAppHook, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const start = (features: string[], connected = ['hubspot', 'slack']) =>
  startBackend({ features, connected: new Set(connected) })

describe.each([
  ['useSummary', useSummary, 'activity', 'summary', { days: 14, waiting: 0, failedSinceBroken: 0 }],
  ['usePreview', usePreview, 'preview', 'preview', { days: 7, complete: true }],
] as const)('%s', (_hook, run, feature, name, data) => {
  test('has the answer of one call, also for two components', async () => {
    const { calls } = start([feature])
    const { result } = renderAppHook(() => [run(), run()])
    await waitFor(() => expect(result.current[0]?.data).toMatchObject(data))
    expect(result.current[1]?.data).toBe(result.current[0]?.data)
    expect(calls(`GET /api/notifications/${name}?days=${data.days}`)).toHaveLength(1)
  })

  test('makes no call if the backend does not list its feature', async () => {
    const { calls } = start(['sessions', 'test-message'])
    const { result } = renderAppHook<{ fetchStatus: string; data: unknown }>(run)
    await settle()
    expect(result.current).toMatchObject({ fetchStatus: 'idle', data: undefined })
    expect(calls('GET /api/notifications')).toEqual([])
  })

  test('fails with an answer of another form', async () => {
    start([feature])
    server.use(http.get(`*/${name}`, () => HttpResponse.json({ days: -1 })))
    const { result } = renderAppHook<{ error: unknown }>(run)
    await waitFor(() => expect(result.current.error).toMatchObject({ kind: 'format' }))
    expect(takeLog()).toHaveLength(1)
  })
})

test('usePreview makes no call while the CRM is not connected', async () => {
  const { calls } = start(['preview'], ['slack'])
  renderAppHook(usePreview)
  await waitFor(() => expect(calls('GET /api/hubspot/status')).toHaveLength(1))
  await settle()
  expect(calls('GET /api/notifications')).toEqual([])
})

describe('useSendTest', () => {
  test('says what became of the message', async () => {
    const { requests } = start(['test-message'])
    const { result } = renderAppHook(useSendTest)
    await act(async () => result.current.mutate())
    await waitFor(() => expect(result.current.isSuccess).toBe(true))
    expect(result.current.data).toEqual({
      state: 'sent',
      channel: '#sales-floor',
      reason: null,
      nextTryAt: null,
    })
    expect(requests).toMatchObject([
      { method: 'POST', target: '/api/notifications/test', body: '' },
    ])
  })

  test('fails with the sentence of a refusal, and without one with the status', async () => {
    const { state } = start(['test-message'])
    state.activity.test = { status: 502, code: 'not_sent', message: 'The channel is archived.' }
    const { result } = renderAppHook(useSendTest)
    await act(async () => result.current.mutate())
    await waitFor(() => expect(result.current.isError).toBe(true))
    expect(result.current.error).toBeInstanceOf(ApiError)
    expect(result.current.error).toMatchObject({
      kind: 'status',
      status: 502,
      message: 'The channel is archived.',
    })
    server.use(http.post('*/test', () => HttpResponse.json({ error: 'no' }, { status: 429 })))
    await act(async () => result.current.mutate())
    await waitFor(() => expect(result.current.error).toMatchObject({ status: 429 }))
    expect(result.current.error).toMatchObject({
      message: 'The server answered with an error (429)',
    })
    expect(takeLog()).toHaveLength(2)
  })
})
