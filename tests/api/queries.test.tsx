import { act, waitFor } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { useConnectionStatus, useDisconnect } from '../../src/api/connections.ts'
import { useHealth } from '../../src/api/health.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { rulesQuery, useRuleSelection, useRules, useSaveRules } from '../../src/api/rules.ts'
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

// What the hooks promise beyond the stories of tests/components.

test('an unavailable backend is checked every 5 s until it is back, and never after that', async () => {
  stopClock()
  const { calls } = startBackend()
  server.use(http.get('*/health', withStatus(403)))
  // Query only tells a component of the fields that it reads, so read them all.
  const { result } = renderAppHook(() => ({ ...useHealth() }))
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

test('known rules are not loaded again when the browser is online again, even after a failure', async () => {
  const { calls } = startBackend()
  const { result } = renderAppHook(() => ({ ...useRules() }))
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  server.use(http.get('*/rules', withStatus(403), { once: true }))
  await act(() => result.current.refetch())
  setOnline(false)
  setOnline(true)
  await act(settle)
  expect(result.current.data).toEqual({ rules: [] })
  expect(calls()).toHaveLength(2)
  expect(takeLog()).toHaveLength(1)
})

test('a read that gets no answer fails after 10 s, without a retry', async () => {
  stopClock()
  const { calls } = startBackend()
  hold('get', '*/status')
  const { result } = renderAppHook(() => useConnectionStatus(config.crm))
  await settle()
  await pass(9900)
  expect(result.current.isError).toBe(false)
  await pass(200)
  expect(result.current.error).toMatchObject({ kind: 'timeout' })
  expect(calls()).toHaveLength(1)
  takeLog()
})

test('a read is retried a second later, and is not logged if it then succeeds', async () => {
  stopClock()
  const { calls } = startBackend({ rules: ['deal-closed'] })
  server.use(http.get('*/rules', withStatus(500), { once: true }))
  // The tests' own client retries at once.
  const rules = createQueryClient().query(rulesQuery)
  await settle()
  await pass(990)
  expect(calls()).toHaveLength(1)
  await pass(20)
  expect(await rules).toEqual({ rules: ['deal-closed'] })
})

const useDashboard = () => ({
  chat: useDisconnect(config.chat),
  rules: useRules(),
  selection: useRuleSelection(),
})

test('a selection that equals the saved one is not unsaved during another call than a save', async () => {
  startBackend({ connected: both(), rules: ['deal-closed'] })
  hold('delete', '*/disconnect')
  const { result } = renderAppHook(useDashboard)
  await waitFor(() => expect(result.current.rules.isSuccess).toBe(true))
  await act(async () => result.current.chat.mutate())
  for (const isUnsaved of [true, false]) {
    await act(async () => result.current.selection.toggle('deal-closed'))
    expect(result.current.selection.isUnsaved).toBe(isUnsaved)
  }
  expect(result.current.chat.isPending).toBe(true)
})

test('the hook alone saves nothing while it is not known that both services are connected', async () => {
  const { calls } = startBackend({ connected: both() })
  const answer = hold('get', '*/api/slack/status')
  const { result } = renderAppHook(useSaveRules)
  await settle()
  await act(async () => result.current.mutate(['deal-closed']))
  expect(result.current).toMatchObject({ isRefused: true, isSaved: false, isPending: false })
  answer()
  await waitFor(() => expect(result.current.isRefused).toBe(false))
  expect(calls('POST')).toEqual([])
  await act(async () => {
    // A double click can be faster than the next render.
    for (let click = 0; click < 2; click++) result.current.mutate(['deal-closed'])
  })
  await waitFor(() => expect(result.current.isSaved).toBe(true))
  await settle()
  expect(calls('POST')).toHaveLength(1)
})
