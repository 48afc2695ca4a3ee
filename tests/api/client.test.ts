import { expect, test, vi } from 'vitest'
import { call } from '../../src/api/client.ts'
import { settle } from '../clock.ts'

test.each([200, 500])('an answer %s that nobody reads frees its connection', async (status) => {
  const cancel = vi.fn()
  vi.spyOn(globalThis, 'fetch').mockImplementation(async () => {
    return new Response(new ReadableStream({ cancel }), { status })
  })
  await call('GET', 'api/x').catch(() => {})
  await settle()
  expect(cancel).toHaveBeenCalledOnce()
})
