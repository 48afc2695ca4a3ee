import { act, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { call } from '../../src/api/client.ts'
import { useConnectionStatus, useDisconnect } from '../../src/api/connections.ts'
import { ApiError } from '../../src/api/errors.ts'
import { sameRules, useRuleSelection, useRules, useSaveRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import { renderAppHook, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const both = () => new Set(['hubspot', 'slack'])

const useRulesWhole = () => ({
  rules: useRules(),
  selection: useRuleSelection(),
  save: useSaveRules(),
})

const useChat = () => ({
  status: useConnectionStatus(config.chat),
  disconnect: useDisconnect(config.chat),
})

describe('useSaveRules', () => {
  test('keeps what it sent as the saved rules', async () => {
    const { requests, calls } = startBackend({ rules: ['deal-closed'] })
    const { result } = renderAppHook(useRulesWhole)
    await waitFor(() => expect(result.current.selection.selected).toEqual(['deal-closed']))
    await act(async () => result.current.selection.toggle('deal-stage-changed'))
    expect(result.current.selection.isUnsaved).toBe(true)
    await act(async () => result.current.save.mutate(result.current.selection.selected))
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
    expect(result.current.selection.isUnsaved).toBe(false)
    expect(result.current.rules.data).toEqual({ rules: ['deal-closed', 'deal-stage-changed'] })
    expect(calls()).toHaveLength(2)
    expect(requests[1]?.body).toBe('{"rules":["deal-closed","deal-stage-changed"]}')
  })

  test.each([400, 409, 429, 500, 503])('fails once with %s', async (status) => {
    const { calls } = startBackend({ rules: ['deal-closed'] })
    server.use(
      http.post(
        '*/rules',
        () => new HttpResponse(null, { status, headers: { 'Retry-After': '3600' } }),
      ),
    )
    const { result } = renderAppHook(useRulesWhole)
    await waitFor(() => expect(result.current.rules.isSuccess).toBe(true))
    await act(async () => result.current.selection.toggle('deal-closed'))
    await act(async () => result.current.save.mutate([]))
    await waitFor(() => expect(result.current.save.isError).toBe(true))
    expect(result.current.save.error).toMatchObject({ kind: 'status', status })
    expect(result.current.rules.data).toEqual({ rules: ['deal-closed'] })
    expect(result.current.selection).toMatchObject({ selected: [], isUnsaved: true })
    await settle()
    expect(calls('POST')).toHaveLength(1)
    expect(takeLog()).toEqual([
      `Saving rules failed: The server answered with an error (${status})`,
    ])
  })

  test('runs once at a time, also across components', async () => {
    const { calls } = startBackend()
    const { result } = renderAppHook(() => ({ one: useSaveRules(), other: useSaveRules() }))
    await act(async () => {
      result.current.one.mutate(['deal-closed'])
      result.current.one.mutate(['deal-closed'])
      result.current.other.mutate([])
      result.current.one.reset()
    })
    await waitFor(() => expect(result.current.one.isSuccess).toBe(true))
    expect(calls('POST')).toHaveLength(1)
    await act(async () => result.current.one.mutate([]))
    await waitFor(() => expect(calls('POST')).toHaveLength(2))
    await waitFor(() => expect(result.current.one.isSuccess).toBe(true))
  })

  test('offers no way around that guard', () => {
    startBackend()
    const { result } = renderAppHook(useSaveRules)
    expect(result.current).not.toHaveProperty('mutateAsync')
  })

  test('makes its rules the saved ones, even if the rules could not be loaded', async () => {
    startBackend()
    server.use(http.get('*/rules', () => new HttpResponse(null, { status: 403 })))
    const { result } = renderAppHook(useRulesWhole)
    await waitFor(() => expect(result.current.rules.isError).toBe(true))
    await act(async () => result.current.selection.toggle('deal-closed'))
    await act(async () => result.current.save.mutate(result.current.selection.selected))
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: false })
    takeLog()
  })
})

describe('useRuleSelection', () => {
  test('ignores rules that cannot be selected', async () => {
    startBackend({ rules: ['invoice-paid', 'a-rule-of-tomorrow'] })
    const { result } = renderAppHook(useRuleSelection)
    await waitFor(() => expect(result.current.selected).toHaveLength(2))
    for (const id of ['invoice-paid', 'a-rule-of-tomorrow', 'custom-rule', '', 'nonsense']) {
      await act(async () => result.current.toggle(id))
    }
    expect(result.current).toMatchObject({
      selected: ['invoice-paid', 'a-rule-of-tomorrow'],
      isUnsaved: false,
    })
  })

  test('is empty until the rules are loaded, and counts two toggles in one task', async () => {
    startBackend()
    const { result } = renderAppHook(useRuleSelection)
    expect(result.current).toMatchObject({ selected: [], isUnsaved: false })
    await settle()
    await act(async () => {
      result.current.toggle('deal-closed')
      result.current.toggle('deal-stage-changed')
    })
    expect(result.current.selected).toEqual(['deal-closed', 'deal-stage-changed'])
    await act(async () => result.current.discard())
    expect(result.current).toMatchObject({ selected: [], isUnsaved: false })
  })
})

test.each([
  [[], [], true],
  [['a', 'b'], ['b', 'a'], true],
  [['a'], ['b'], false],
  [['a'], ['a', 'b'], false],
  [['a', 'b'], ['a'], false],
])('%j and %j are the same rules: %s', (a, b, same) => {
  expect(sameRules(a, b)).toBe(same)
})

describe('useDisconnect', () => {
  test('changes the status without fetching it', async () => {
    const { calls, requests } = startBackend({ connected: both() })
    const { result } = renderAppHook(useChat)
    await waitFor(() => expect(result.current.status.data).toEqual({ connected: true }))
    await act(async () => result.current.disconnect.mutate())
    await waitFor(() => expect(result.current.status.data).toEqual({ connected: false }))
    await settle()
    expect(calls()).toEqual(['GET /api/slack/status', 'DELETE /api/slack/disconnect'])
    expect(requests[1]?.body).toBe('')
  })

  test.each([404, 429, 500, 503])('fails once with %s and leaves the status', async (status) => {
    const { calls } = startBackend({ connected: both() })
    server.use(http.delete('*/disconnect', () => new HttpResponse(null, { status })))
    const { result } = renderAppHook(useChat)
    await waitFor(() => expect(result.current.status.isSuccess).toBe(true))
    await act(async () => result.current.disconnect.mutate())
    await waitFor(() => expect(result.current.disconnect.isError).toBe(true))
    expect(result.current.status.data).toEqual({ connected: true })
    await settle()
    expect(calls('DELETE')).toHaveLength(1)
    expect(takeLog()).toHaveLength(1)
  })
})

describe('a call with an unread answer', () => {
  test('succeeds although the body breaks off', async () => {
    const body = new ReadableStream({
      start: (controller) => controller.error(new TypeError('terminated')),
    })
    vi.spyOn(globalThis, 'fetch').mockResolvedValue(new Response(body))
    await expect(call('DELETE', 'api/slack/disconnect')).resolves.toBeUndefined()
  })

  test('has neither the address nor the answer in its error', async () => {
    startBackend()
    server.use(http.get('*', () => HttpResponse.json({ secret: 'SECRET' }, { status: 418 })))
    const error: unknown = await call('GET', 'api/hubspot/callback', {
      searchParams: { code: 'SECRET' },
    }).catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(ApiError)
    expect((error as ApiError).message).toBe('The server answered with an error (418)')
    expect(JSON.stringify({ ...(error as ApiError) })).not.toContain('SECRET')
    expect((error as ApiError).cause).toBeUndefined()
  })
})
