import { waitFor } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { useConnectionStatus } from '../../src/api/connections.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, lookAgain, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { openHook } from './open-hook.tsx'

const useStatus = () => useConnectionStatus(config.chat)

test('a status is pending, and then says whether the service is connected', async () => {
  const { result } = openHook(useStatus, { connected: both() })
  expect(result.current).toMatchObject({ isPending: true, data: undefined })
  await waitFor(() => expect(result.current.data).toEqual({ connected: true }))
})

test.each([
  ['a failure that may pass, after a second try', 500, 2],
  ['a refusal, without a second try', 403, 1],
])('a status has no data after %s', async (_what, status, tries) => {
  const { calls, result } = openHook(useStatus)
  server.use(http.get('*/api/slack/status', withStatus(status)))
  await waitFor(() => expect(result.current.isError).toBe(true))
  expect(result.current).toMatchObject({ data: undefined, error: { kind: 'status', status } })
  await settle()
  expect(calls()).toHaveLength(tries)
  takeLog()
})

test('several components make one call, and another one when the user comes back', async () => {
  const { calls, result, state, renderAgain } = openHook(useStatus)
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  expect(renderAgain().result.current.data).toEqual({ connected: false })
  await settle()
  expect(calls()).toEqual(['GET /api/slack/status'])
  state.connected.add('slack')
  lookAgain()
  await waitFor(() => expect(result.current.data).toEqual({ connected: true }))
  expect(calls()).toHaveLength(2)
})
