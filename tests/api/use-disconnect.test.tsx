import { act, waitFor } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { useConnectionStatus, useDisconnect } from '../../src/api/connections.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, hold, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { openHook } from './open-hook.tsx'

const path = '*/api/slack/disconnect'

/** The hook beside the status that it changes. */
const useSlack = () => ({
  disconnect: useDisconnect(config.chat),
  status: useConnectionStatus(config.chat),
})

async function openConnected() {
  const opened = openHook(useSlack, { connected: both() })
  const now = () => opened.result.current
  await waitFor(() => expect(now().status.data).toEqual({ connected: true }))
  return { ...opened, now, mutate: () => act(() => now().disconnect.mutate()) }
}

test('a disconnect is made once, is pending, and then the service is not connected, without another call', async () => {
  const { calls, mutate, now } = await openConnected()
  const answer = hold('delete', path)
  mutate()
  mutate()
  await waitFor(() => expect(now().disconnect.isPending).toBe(true))
  expect(now().status.data).toEqual({ connected: true })
  answer()
  await waitFor(() => expect(now().disconnect.isSuccess).toBe(true))
  expect(now().status.data).toEqual({ connected: false })
  await settle()
  expect(calls()).toEqual(['GET /api/slack/status', 'DELETE /api/slack/disconnect'])
})

test('a disconnect that fails is not repeated; the status is asked, because the answer may be lost', async () => {
  const { calls, mutate, now, state } = await openConnected()
  server.use(http.delete(path, withStatus(500)))
  state.connected.delete('slack')
  mutate()
  await waitFor(() => expect(now().disconnect.error).toMatchObject({ status: 500 }))
  await waitFor(() => expect(now().status.data).toEqual({ connected: false }))
  expect(calls('DELETE')).toHaveLength(1)
  expect(takeLog()).toEqual(['Disconnecting Slack failed: The server answered with an error (500)'])
})
