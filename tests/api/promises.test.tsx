import { act, waitFor } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { healthAnswer } from '../../contract/endpoints.ts'
import { call, getJson } from '../../src/api/client.ts'
import { authorizeUrl, useConnectionStatus, useDisconnect } from '../../src/api/connections.ts'
import { ApiError } from '../../src/api/errors.ts'
import { useHealth } from '../../src/api/health.ts'
import { useOAuthCallback } from '../../src/api/oauth.ts'
import { createQueryClient } from '../../src/api/query-client.ts'
import { useRuleSelection, useRules, useSaveRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, renderAppHook, setOnline, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const both = () => new Set(['hubspot', 'slack'])
const refused = () => new HttpResponse(null, { status: 403 })
const rulesPath = '*/api/notifications/rules'

const useRulesWhole = () => ({
  selection: useRuleSelection(),
  save: useSaveRules(),
  disconnect: useDisconnect(config.chat),
})
const useThree = () => ({
  crm: useDisconnect(config.crm),
  chat: useDisconnect(config.chat),
  chatElsewhere: useDisconnect(config.chat),
  rules: useRules(),
})

// Query only tells a component of the fields that it reads, so read them all.
const useHealthWhole = () => ({ ...useHealth() })
const useAll = () => ({
  health: useHealthWhole(),
  rules: useRules(),
  status: useConnectionStatus(config.crm),
})

describe('the error of a call', () => {
  const errorOf = (running: Promise<unknown>) => running.then(String, (error: ApiError) => error)

  test.each([
    [() => HttpResponse.html('<p>Hi</p>'), 'format', 'an answer that could not be understood'],
    [() => HttpResponse.json({ no: 1 }), 'format', 'an answer that could not be understood'],
    [() => new HttpResponse(null, { status: 409 }), 'status', 'answered with an error (409)'],
    [() => HttpResponse.error(), 'network', 'could not be reached'],
  ])('%#: %s', async (answer, kind, words) => {
    server.use(http.get('*/health', answer))
    const error = await errorOf(getJson('health', healthAnswer))
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ name: 'ApiError', kind })
    expect((error as ApiError).message).toMatch(/^The server /)
    expect((error as ApiError).message).toContain(words)
  })

  test('after 10 s is a timeout', async () => {
    stopClock()
    server.use(http.get('*/health', () => delay('infinite')))
    const error = errorOf(getJson('health', healthAnswer))
    await settle()
    await pass(10_000)
    expect((await error) as ApiError).toMatchObject({
      kind: 'timeout',
      message: 'The server took too long to answer',
    })
  })

  test('is not changed if it is no Error', async () => {
    vi.spyOn(globalThis, 'fetch').mockRejectedValue('not an error')
    await expect(call('GET', 'api/x')).rejects.toBe('not an error')
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

test('a call goes to the backend’s root from every address', async () => {
  window.history.replaceState(null, '', '/hubspot/callback')
  const { calls } = startBackend()
  expect(await getJson('health', healthAnswer)).toEqual({ status: 'ok' })
  await call('DELETE', 'api/slack/disconnect')
  expect(calls()).toEqual(['GET /health', 'DELETE /api/slack/disconnect'])
  window.history.replaceState(null, '', '/')
})

test('the authorization URL is on the backend', () => {
  expect(authorizeUrl(config.crm)).toBe('/api/hubspot/auth')
  expect(authorizeUrl(config.chat)).toBe('/api/slack/auth')
})

test('a failure without an Error is logged in one line, too', async () => {
  const queryClient = createQueryClient()
  const queryFn = () => Promise.reject('no error object')
  await queryClient.query({ queryKey: ['x'], queryFn }).catch(() => {})
  expect(takeLog()).toEqual(['A call failed: unknown reason'])
})

describe('a backend that was unavailable', () => {
  test('is checked every 5 s until it is back, and never after that', async () => {
    stopClock()
    const { calls } = startBackend()
    server.use(http.get('*/health', refused))
    const { result } = renderAppHook(useHealthWhole)
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
    expect(takeLog()).toEqual(
      Array(2).fill(expect.stringMatching(/^Checking the backend failed: /)),
    )
  })

  test('is checked at once when the network is back', async () => {
    const { calls } = startBackend()
    server.use(http.get('*/health', () => HttpResponse.error(), { once: true }))
    const { result } = renderAppHook(useHealthWhole)
    await waitFor(() => expect(result.current.isError).toBe(true))
    setOnline(false)
    setOnline(true)
    await waitFor(() => expect(result.current.isSuccess).toBe(true))
    expect(calls()).toHaveLength(2)
    takeLog()
  })

  test('gets no second request while the first is pending', async () => {
    stopClock()
    const { calls } = startBackend()
    server.use(http.get('*/health', () => delay('infinite')))
    renderAppHook(useHealthWhole)
    await settle()
    await pass(9000)
    expect(calls()).toHaveLength(1)
  })

  test('has everything else fetched again once it is back', async () => {
    const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
    server.use(
      http.get('*/health', refused, { once: true }),
      http.get(rulesPath, refused, { once: true }),
      http.get('*/api/hubspot/status', () => HttpResponse.json({ connected: false }), {
        once: true,
      }),
    )
    const { result, rerender } = renderAppHook(useAll)
    await waitFor(() => expect(result.current.health.isError).toBe(true))
    await waitFor(() => expect(result.current.rules.isError).toBe(true))
    await waitFor(() => expect(result.current.status.data).toEqual({ connected: false }))
    await act(() => result.current.health.refetch())
    await waitFor(() => expect(result.current.health.data).toEqual({ status: 'ok' }))
    // The app renders again, and its hooks find no old answers.
    rerender()
    await waitFor(() => expect(result.current.status.data).toEqual({ connected: true }))
    await waitFor(() => expect(result.current.rules.data).toEqual({ rules: ['deal-closed'] }))
    expect(calls('GET /health')).toHaveLength(2)
    takeLog()
  })

  test('that was only slow has nothing fetched again', async () => {
    const { calls } = startBackend({ connected: both() })
    const health = Promise.withResolvers<void>()
    server.use(
      http.get('*/health', async () => {
        await health.promise
        return undefined
      }),
    )
    const { result } = renderAppHook(useAll)
    await waitFor(() => expect(result.current.rules.isSuccess).toBe(true))
    await waitFor(() => expect(result.current.status.isSuccess).toBe(true))
    health.resolve()
    await waitFor(() => expect(result.current.health.isSuccess).toBe(true))
    await settle()
    expect(calls()).toHaveLength(3)
  })
})

describe('rules that could not be loaded', () => {
  test('are fetched again by focus and reconnect, but not by another component', async () => {
    const { calls } = startBackend()
    server.use(http.get(rulesPath, refused))
    const { result, queryClient } = renderAppHook(useRules)
    await waitFor(() => expect(result.current.isError).toBe(true))
    lookAgain()
    await settle()
    expect(calls()).toHaveLength(2)
    setOnline(false)
    setOnline(true)
    await settle()
    expect(calls()).toHaveLength(3)
    renderAppHook(useRules, queryClient)
    await settle()
    expect(calls()).toHaveLength(3)
    expect(takeLog()).toEqual(Array(3).fill(expect.stringMatching(/^Loading rules failed: /)))
  })

  test('are retried once after a temporary failure, also while offline', async () => {
    const { calls } = startBackend()
    renderAppHook(() => undefined)
    setOnline(false)
    server.use(http.get(rulesPath, () => HttpResponse.error()))
    const { result } = renderAppHook(useRules)
    await waitFor(() => expect(result.current.isError).toBe(true))
    expect(calls()).toHaveLength(2)
    setOnline(true)
    takeLog()
  })
})

describe('a selection', () => {
  async function opened(rules: string[] = []) {
    const backend = startBackend({ connected: both(), rules })
    const { result } = renderAppHook(useRulesWhole)
    await settle()
    const toggle = (id: string) => act(async () => result.current.selection.toggle(id))
    return { ...backend, result, toggle }
  }
  function hold(method: 'post' | 'delete', path: string) {
    const held = Promise.withResolvers<void>()
    server.use(
      http[method](path, async () => {
        await held.promise
        return undefined
      }),
    )
    return held.resolve
  }

  test('loses only the rule that is unticked', async () => {
    const { result, toggle } = await opened(['deal-closed', 'deal-stage-changed', 'custom-rule'])
    await toggle('deal-closed')
    expect(result.current.selection.selected).toEqual(['deal-stage-changed', 'custom-rule'])
    expect(result.current.selection.isUnsaved).toBe(true)
  })

  test('that equals the saved one is not unsaved, even during another call', async () => {
    const { result, toggle } = await opened(['deal-closed'])
    const answer = hold('delete', '*/disconnect')
    await act(async () => result.current.disconnect.mutate())
    expect(result.current.disconnect.isPending).toBe(true)
    await toggle('deal-closed')
    await toggle('deal-closed')
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: false })
    answer()
    await waitFor(() => expect(result.current.disconnect.isPending).toBe(false))
  })

  test('that equals the old one is unsaved during a save, which may change what is stored', async () => {
    const { result, toggle, state } = await opened(['deal-closed'])
    const answer = hold('post', rulesPath)
    await toggle('deal-stage-changed')
    await act(async () => result.current.save.mutate(result.current.selection.selected))
    await toggle('deal-stage-changed')
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: true })
    answer()
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
    expect(state.rules).toEqual(['deal-closed', 'deal-stage-changed'])
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: true })
  })

  test('cannot be saved while offline, and is not sent later', async () => {
    const { result, toggle, calls } = await opened()
    await toggle('deal-closed')
    setOnline(false)
    server.use(http.post(rulesPath, () => HttpResponse.error()))
    await act(async () => result.current.save.mutate(result.current.selection.selected))
    await waitFor(() => expect(result.current.save.isError).toBe(true))
    setOnline(true)
    await settle()
    expect(calls('POST')).toHaveLength(1)
    takeLog()
  })
})

describe('disconnects', () => {
  test('run once per service, and one after the other', async () => {
    const { calls } = startBackend({ connected: both() })
    const held = Promise.withResolvers<void>()
    server.use(
      http.delete('*/disconnect', async () => {
        await held.promise
        return undefined
      }),
    )
    const { result } = renderAppHook(useThree)
    await act(async () => {
      result.current.chat.mutate()
      result.current.chat.mutate()
      result.current.chatElsewhere.mutate()
    })
    expect(result.current.chat.isPending).toBe(true)
    expect(result.current.chatElsewhere.isPending).toBe(true)
    expect(result.current.crm.isPending).toBe(false)
    await act(async () => result.current.crm.mutate())
    expect(result.current.crm.isPending).toBe(true)
    await settle()
    expect(calls('DELETE')).toEqual(['DELETE /api/slack/disconnect'])
    // A reset does not forget the running call.
    await act(async () => result.current.chat.reset())
    expect(result.current.chat.isPending).toBe(true)
    held.resolve()
    await waitFor(() => expect(result.current.chat.isSuccess).toBe(true))
    await waitFor(() => expect(result.current.crm.isSuccess).toBe(true))
    expect(result.current.chatElsewhere.isPending).toBe(false)
    await act(async () => result.current.chat.reset())
    expect(result.current.chat).toMatchObject({ isSuccess: false, isIdle: true })
    expect(calls('DELETE').toSorted()).toEqual([
      'DELETE /api/hubspot/disconnect',
      'DELETE /api/slack/disconnect',
    ])
  })

  test('log their failure with the service’s name', async () => {
    startBackend({ connected: both() })
    server.use(http.delete('*/disconnect', refused))
    const { result } = renderAppHook(useThree)
    await act(async () => result.current.chat.mutate())
    await waitFor(() => expect(result.current.chat.isError).toBe(true))
    expect(takeLog()).toEqual([
      'Disconnecting Slack failed: The server answered with an error (403)',
    ])
  })

  test('do not cancel other calls', async () => {
    const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
    const held = Promise.withResolvers<void>()
    server.use(
      http.get(rulesPath, async () => {
        await held.promise
        return undefined
      }),
    )
    const { result } = renderAppHook(useThree)
    await act(async () => result.current.chat.mutate())
    await waitFor(() => expect(result.current.chat.isSuccess).toBe(true))
    held.resolve()
    await waitFor(() => expect(result.current.rules.data).toEqual({ rules: ['deal-closed'] }))
    expect(calls('GET')).toHaveLength(1)
  })
})

test('a callback sends the state only if there is one', async () => {
  const { calls } = startBackend({ codes: new Set(['abc', 'def']) })
  const one = renderAppHook(() => useOAuthCallback(config.crm, { code: 'abc', state: 's' }))
  await waitFor(() => expect(one.result.current.isSuccess).toBe(true))
  const other = renderAppHook(() => useOAuthCallback(config.crm, { code: 'def' }))
  await waitFor(() => expect(other.result.current.isSuccess).toBe(true))
  expect(calls()).toEqual([
    'GET /api/hubspot/callback?code=abc&state=s',
    'GET /api/hubspot/callback?code=def',
  ])
})
