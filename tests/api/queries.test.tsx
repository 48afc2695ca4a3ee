import { http } from 'msw'
import { expect, test } from 'vitest'
import { useHealth } from '../../src/api/health.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { rulesQuery } from '../../src/api/rules.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, renderAppHook, setOnline, startBackend, withStatus } from '../render.tsx'
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
