import { waitFor } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { useHealth } from '../../src/api/health.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { openHook } from './open-hook.tsx'

test('the health is pending, and then what the backend says of itself', async () => {
  const { result } = openHook(useHealth, { features: ['activity'] })
  expect(result.current).toMatchObject({ isPending: true, data: undefined })
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  expect(result.current.data).toEqual({ status: 'ok', features: ['activity'] })
})

test('a health check that fails is an error at once, without a second try', async () => {
  const { calls, result } = openHook(useHealth)
  server.use(http.get('*/health', withStatus(500)))
  await waitFor(() => expect(result.current.isError).toBe(true))
  expect(result.current.error).toMatchObject({ kind: 'status', status: 500 })
  await settle()
  expect(calls()).toEqual(['GET /health'])
  expect(takeLog()).toEqual([
    'Checking the backend failed: The server answered with an error (500)',
  ])
})

test('a healthy backend is asked once, by however many components, and also when the user comes back', async () => {
  const { calls, result, renderAgain } = openHook(useHealth)
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  expect(renderAgain().result.current.data).toEqual({ status: 'ok' })
  lookAgain()
  await settle()
  expect(calls()).toEqual(['GET /health'])
})
