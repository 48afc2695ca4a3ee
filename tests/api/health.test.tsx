import { act, waitFor } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { expect, test } from 'vitest'
import { useConnectionStatus } from '../../src/api/connections.ts'
import { healthQuery, useHealth } from '../../src/api/health.ts'
import { useRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hold,
  lookAgain,
  renderAppHook,
  setOnline,
  startBackend,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'

// Query only tells a component of the fields that it reads, so read them all.
const useHealthWhole = () => ({ ...useHealth() })
const useAll = () => ({
  health: useHealthWhole(),
  rules: useRules(),
  status: useConnectionStatus(config.crm),
})

test('an unavailable backend is checked every 5 s until it is back, and never after that', async () => {
  stopClock()
  const { calls } = startBackend()
  server.use(http.get('*/health', withStatus(403)))
  const { result } = renderAppHook(useHealthWhole)
  await settle()
  expect(result.current.isError).toBe(true)
  await pass(4900)
  expect(calls()).toHaveLength(1)
  await pass(100)
  expect(calls()).toHaveLength(2)
  server.resetHandlers(...startBackend().handlers)
  await pass(5000)
  await settle()
  expect(result.current.data).toEqual({ status: 'ok' })
  const { calls: later } = startBackend()
  await pass(60_000)
  setOnline(false)
  setOnline(true)
  lookAgain()
  await settle()
  expect(later()).toEqual([])
  expect(takeLog()).toEqual(Array(2).fill(expect.stringMatching(/^Checking the backend failed: /)))
})

test('an unavailable backend is checked at once when the network is back', async () => {
  const { calls } = startBackend()
  server.use(http.get('*/health', () => HttpResponse.error(), { once: true }))
  const { result } = renderAppHook(useHealthWhole)
  await waitFor(() => expect(result.current.isError).toBe(true))
  setOnline(false)
  setOnline(true)
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  expect(calls()).toHaveLength(2)
  takeLog()
})

test('a backend that hangs gets no second request meanwhile', async () => {
  stopClock()
  const { calls } = startBackend()
  server.use(http.get('*/health', () => delay('infinite')))
  renderAppHook(useHealthWhole)
  await settle()
  await pass(9000)
  expect(calls()).toHaveLength(1)
})

test('a health check that failed before the first render is not repeated', async () => {
  const { calls } = startBackend()
  server.use(http.get('*/health', withStatus(500)))
  const { queryClient } = renderAppHook(() => undefined)
  await queryClient.query(healthQuery).catch(() => {})
  const { result } = renderAppHook(useHealth, queryClient)
  await settle()
  expect(result.current.isError).toBe(true)
  expect(calls()).toHaveLength(1)
  takeLog()
})

test('everything else is fetched again once the backend is back', async () => {
  const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
  const disconnected = () => HttpResponse.json({ connected: false })
  server.use(
    http.get('*/health', withStatus(403), { once: true }),
    http.get('*/rules', withStatus(403), { once: true }),
    http.get('*/api/hubspot/status', disconnected, { once: true }),
  )
  const { result, rerender } = renderAppHook(useAll)
  await waitFor(() => expect(result.current.health.isError).toBe(true))
  await waitFor(() => expect(result.current.rules.isError).toBe(true))
  await waitFor(() => expect(result.current.status.data).toEqual({ connected: false }))
  await act(() => result.current.health.refetch())
  await waitFor(() => expect(result.current.health.data).toEqual({ status: 'ok' }))
  // The app renders again, and its hooks find no old answers.
  rerender()
  await waitFor(() => expect(result.current.status.data).toEqual({ connected: true }))
  await waitFor(() => expect(result.current.rules.data).toEqual({ rules: ['deal-closed'] }))
  expect(calls('GET /health')).toHaveLength(2)
  takeLog()
})

test('nothing is fetched again after a backend that was only slow', async () => {
  const { calls } = startBackend({ connected: both() })
  const answer = hold('get', '*/health')
  const { result } = renderAppHook(useAll)
  await waitFor(() => expect(result.current.rules.isSuccess).toBe(true))
  await waitFor(() => expect(result.current.status.isSuccess).toBe(true))
  answer()
  await waitFor(() => expect(result.current.health.isSuccess).toBe(true))
  await settle()
  expect(calls()).toHaveLength(3)
})
