import { waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { usePreview } from '../../src/api/preview.ts'
import { useSummary } from '../../src/api/summary.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, renderAppHook, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

describe.each([
  ['useSummary', useSummary, 'activity', 'summary', { days: 14, waiting: 0, failedSinceBroken: 0 }],
  ['usePreview', usePreview, 'preview', 'preview', { days: 7, complete: true }],
] as const)('%s', (_hook, run, feature, name, data) => {
  test('has the answer of one call, also for two components', async () => {
    const { calls } = startBackend({ features: [feature], connected: both() })
    const { result } = renderAppHook(() => [run(), run()])
    await waitFor(() => expect(result.current[0]?.data).toMatchObject(data))
    expect(result.current[1]?.data).toBe(result.current[0]?.data)
    expect(calls(`GET /api/notifications/${name}?days=${data.days}`)).toHaveLength(1)
  })

  test('makes no call if the backend does not list its feature', async () => {
    const { calls } = startBackend({ features: ['sessions'], connected: both() })
    const { result } = renderAppHook<{ fetchStatus: string; data: unknown }>(run)
    await settle()
    expect(result.current).toMatchObject({ fetchStatus: 'idle', data: undefined })
    expect(calls('GET /api/notifications')).toEqual([])
  })

  test('fails with an answer of another form', async () => {
    startBackend({ features: [feature], connected: both() })
    server.use(http.get(`*/${name}`, () => HttpResponse.json({ days: -1 })))
    const { result } = renderAppHook<{ error: unknown }>(run)
    await waitFor(() => expect(result.current.error).toMatchObject({ kind: 'format' }))
    expect(takeLog()).toHaveLength(1)
  })
})
