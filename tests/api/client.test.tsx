import { HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { healthAnswer } from '../../contract/endpoints.ts'
import { call, getJson } from '../../src/api/client.ts'
import { authorizeUrl } from '../../src/api/connections.ts'
import { ApiError } from '../../src/api/errors.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { startBackend, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

describe('the error of a call', () => {
  const notUnderstood = 'The server sent an answer that could not be understood'
  test.each([
    [() => HttpResponse.html('<p>Hi</p>'), 'format', notUnderstood],
    [() => HttpResponse.json({ no: 1 }), 'format', notUnderstood],
    [withStatus(409), 'status', 'The server answered with an error (409)'],
    [() => HttpResponse.error(), 'network', 'The server could not be reached'],
  ])('%#: %s', async (answer, kind, message) => {
    server.use(http.get('*/health', answer))
    const error = await getJson('health', healthAnswer).catch((error: unknown) => error)
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ name: 'ApiError', kind, message })
  })

  test('has neither the address nor the answer in it', async () => {
    startBackend()
    server.use(http.get('*', () => HttpResponse.json({ secret: 'SECRET' }, { status: 418 })))
    const searchParams = { code: 'SECRET' }
    const error: unknown = await call('GET', 'api/hubspot/callback', { searchParams }).catch(
      (reason: unknown) => reason,
    )
    expect((error as ApiError).message).toBe('The server answered with an error (418)')
    expect(JSON.stringify({ ...(error as ApiError) })).not.toContain('SECRET')
    expect((error as ApiError).cause).toBeUndefined()
  })

  test('is not changed if it is no Error', async () => {
    vi.spyOn(globalThis, 'fetch').mockRejectedValue('not an error')
    await expect(call('GET', 'api/x')).rejects.toBe('not an error')
  })

  test('that is no Error is logged in one line, too', async () => {
    const queryFn = () => Promise.reject('no error object')
    await createQueryClient()
      .query({ queryKey: ['x'], queryFn })
      .catch(() => {})
    expect(takeLog()).toEqual(['A call failed: unknown reason'])
  })
})

test.each([200, 500])(
  'an unread body of a %s is cancelled, which frees the connection',
  async (status) => {
    const cancel = vi.fn()
    vi.spyOn(globalThis, 'fetch').mockImplementation(async () => {
      return new Response(new ReadableStream({ cancel }), { status })
    })
    await call('GET', 'api/x').catch(() => {})
    await settle()
    expect(cancel).toHaveBeenCalledOnce()
  },
)

test('a call with an unread answer succeeds although the body breaks off', async () => {
  const body = new ReadableStream({
    start: (controller) => controller.error(new TypeError('terminated')),
  })
  vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response(body))
  await expect(call('DELETE', 'api/slack/disconnect')).resolves.toBeUndefined()
})

test('a call goes to the backend’s root from every address', async () => {
  window.history.replaceState(null, '', '/hubspot/callback')
  const { calls } = startBackend()
  expect(await getJson('health', healthAnswer)).toEqual({ status: 'ok' })
  await call('DELETE', 'api/slack/disconnect')
  expect(calls()).toEqual(['GET /health', 'DELETE /api/slack/disconnect'])
  expect(authorizeUrl(config.crm)).toBe('/api/hubspot/auth')
  window.history.replaceState(null, '', '/')
})
