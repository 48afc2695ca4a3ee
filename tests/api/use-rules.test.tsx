import { waitFor } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { useRules } from '../../src/api/rules.ts'
import { settle } from '../clock.ts'
import { rulesPath } from '../components/dashboard.ts'
import { server } from '../msw/server.ts'
import { lookAgain, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { openHook } from './open-hook.tsx'

test('the rules are pending, and then those that the backend has stored', async () => {
  const rules = ['deal-closed', 'a-rule-of-tomorrow']
  const { result } = openHook(useRules, { rules })
  expect(result.current).toMatchObject({ isPending: true, data: undefined })
  await waitFor(() => expect(result.current.data).toEqual({ rules }))
})

test('rules that fail to load are an error without data', async () => {
  const { calls, result } = openHook(useRules, { rules: ['deal-closed'] })
  server.use(http.get(rulesPath, withStatus(403)))
  await waitFor(() => expect(result.current.isError).toBe(true))
  expect(result.current).toMatchObject({ data: undefined, error: { status: 403 } })
  expect(calls()).toHaveLength(1)
  expect(takeLog()).toEqual(['Loading rules failed: The server answered with an error (403)'])
})

test('several components make one call, and none when the user comes back: it could overwrite ticks', async () => {
  const { calls, result, renderAgain } = openHook(useRules, { rules: ['deal-closed'] })
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  expect(renderAgain().result.current.data).toEqual({ rules: ['deal-closed'] })
  lookAgain()
  await settle()
  expect(calls()).toEqual(['GET /api/notifications/rules'])
})
