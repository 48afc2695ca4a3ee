import { screen } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { createQueryClient } from '../../src/api/query-client.ts'
import { rulesQuery } from '../../src/api/rules.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, openApp, setOnline, startBackend, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

// What the hooks promise beyond the stories of tests/components.

test('an unavailable backend is checked every 5 s until it is back, and never after that', async () => {
  stopClock()
  const { calls, handlers } = openApp({}, '/contact')
  server.use(http.get('*/health', withStatus(403)))
  await settle()
  await pass(4900)
  expect(calls()).toHaveLength(1)
  await pass(100)
  expect(calls()).toHaveLength(2)
  server.resetHandlers(...handlers)
  await pass(5000)
  expect(screen.getByTitle('Contact form')).toBeVisible()
  await pass(60_000)
  setOnline(false)
  setOnline(true)
  lookAgain()
  await settle()
  expect(calls()).toHaveLength(3)
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
