import { expect, test, vi } from 'vitest'
import { healthAnswer } from '../../contract/endpoints.ts'
import { call, getJson } from '../../src/api/client.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { settle } from '../clock.ts'
import { startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

test('what is thrown and is no Error becomes an error without a reason, and is logged in one line', async () => {
  const queryFn = () => call('GET', 'api/x')
  vi.spyOn(globalThis, 'fetch').mockRejectedValue('not an error')
  const failing = createQueryClient().query({ queryKey: ['x'], queryFn })
  await expect(failing).rejects.toMatchObject({ kind: 'unknown' })
  expect(takeLog()).toEqual(['A call failed: The reason is unknown'])
})

test.each([200, 500])('an answer %s that nobody reads frees its connection', async (status) => {
  const cancel = vi.fn()
  vi.spyOn(globalThis, 'fetch').mockImplementation(async () => {
    return new Response(new ReadableStream({ cancel }), { status })
  })
  await call('GET', 'api/x').catch(() => {})
  await settle()
  expect(cancel).toHaveBeenCalledOnce()
})

test('a call goes to the backend’s root from every address', async () => {
  window.history.replaceState(null, '', '/hubspot/callback')
  const { calls } = startBackend()
  expect(await getJson('health', healthAnswer)).toEqual({ status: 'ok' })
  await call('DELETE', 'api/slack/disconnect')
  expect(calls()).toEqual(['GET /health', 'DELETE /api/slack/disconnect'])
  window.history.replaceState(null, '', '/')
})
