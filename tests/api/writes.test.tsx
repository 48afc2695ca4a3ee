import { act, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { useConnectionStatus, useDisconnect } from '../../src/api/connections.ts'
import { sameRules, useRuleSelection, useRules, useSaveRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hold,
  lookAgain,
  renderAppHook,
  setOnline,
  startBackend,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'

const rulesPath = '*/api/notifications/rules'

/** The hooks of the dashboard, with these rules stored. */
async function opened(rules: string[] = []) {
  const backend = startBackend({ connected: both(), rules })
  const { result } = renderAppHook(() => ({
    rules: useRules(),
    selection: useRuleSelection(),
    save: useSaveRules(),
    saveElsewhere: useSaveRules(),
    status: useConnectionStatus(config.chat),
    crm: useDisconnect(config.crm),
    chat: useDisconnect(config.chat),
    chatElsewhere: useDisconnect(config.chat),
  }))
  await waitFor(() => expect(result.current.rules.isSuccess).toBe(true))
  await waitFor(() => expect(result.current.status.isSuccess).toBe(true))
  const toggle = (id: string) => act(async () => result.current.selection.toggle(id))
  const save = () => act(async () => result.current.save.mutate(result.current.selection.selected))
  return { ...backend, result, toggle, save }
}

describe('a selection', () => {
  test('loses only the rule that is unticked', async () => {
    const { result, toggle } = await opened(['deal-closed', 'deal-stage-changed', 'custom-rule'])
    await toggle('deal-closed')
    expect(result.current.selection.selected).toEqual(['deal-stage-changed', 'custom-rule'])
    expect(result.current.selection.isUnsaved).toBe(true)
  })

  test('ignores rules that cannot be selected', async () => {
    const { result, toggle } = await opened(['invoice-paid', 'a-rule-of-tomorrow'])
    for (const id of ['invoice-paid', 'a-rule-of-tomorrow', 'custom-rule', '', 'nonsense']) {
      await toggle(id)
    }
    expect(result.current.selection).toMatchObject({
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

  test('that equals the saved one is not unsaved, even during another call', async () => {
    const { result, toggle } = await opened(['deal-closed'])
    const answer = hold('delete', '*/disconnect')
    await act(async () => result.current.chat.mutate())
    await toggle('deal-closed')
    await toggle('deal-closed')
    expect(result.current.chat.isPending).toBe(true)
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: false })
    answer()
    await waitFor(() => expect(result.current.chat.isPending).toBe(false))
  })

  test('that equals the old one is unsaved during a save, which may change what is stored', async () => {
    const { result, toggle, save, state } = await opened(['deal-closed'])
    const answer = hold('post', rulesPath)
    await toggle('deal-stage-changed')
    await save()
    await toggle('deal-stage-changed')
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: true })
    answer()
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
    expect(state.rules).toEqual(['deal-closed', 'deal-stage-changed'])
    expect(result.current.selection).toMatchObject({ selected: ['deal-closed'], isUnsaved: true })
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

describe('a save', () => {
  test('keeps what it sent as the saved rules', async () => {
    const { result, toggle, save, requests, calls } = await opened(['deal-closed'])
    await toggle('deal-stage-changed')
    expect(result.current.selection.isUnsaved).toBe(true)
    await save()
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
    expect(result.current.selection.isUnsaved).toBe(false)
    expect(result.current.rules.data).toEqual({ rules: ['deal-closed', 'deal-stage-changed'] })
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-closed","deal-stage-changed"]}')
  })

  test.each([400, 409, 429, 500, 503])('fails once with %s', async (status) => {
    const { result, toggle, save, calls } = await opened(['deal-closed'])
    const headers = { 'Retry-After': '3600' }
    server.use(http.post(rulesPath, () => new HttpResponse(null, { status, headers })))
    await toggle('deal-closed')
    await save()
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

  test('fails while offline, and is not sent later', async () => {
    const { result, toggle, save, calls } = await opened()
    await toggle('deal-closed')
    setOnline(false)
    server.use(http.post(rulesPath, () => HttpResponse.error()))
    await save()
    await waitFor(() => expect(result.current.save.isError).toBe(true))
    setOnline(true)
    await settle()
    expect(calls('POST')).toHaveLength(1)
    takeLog()
  })

  test.each([
    [true, ['deal-closed', 'deal-stage-changed']],
    [false, ['deal-stage-changed']],
  ])(
    'loads rules that are unknown first, and keeps what is stored if that works: %j',
    async (works, stored) => {
      const { state } = startBackend({ connected: both(), rules: ['deal-closed'] })
      server.use(http.get(rulesPath, withStatus(403), { once: works }))
      const { result } = renderAppHook(() => ({
        rules: useRules(),
        selection: useRuleSelection(),
        save: useSaveRules(),
      }))
      await waitFor(() => expect(result.current.rules.isError).toBe(true))
      await act(async () => result.current.selection.toggle('deal-stage-changed'))
      await act(async () => result.current.save.mutate(result.current.selection.selected))
      await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
      expect(state.rules).toEqual(stored)
      expect(result.current.selection).toMatchObject({ selected: stored, isUnsaved: false })
      takeLog()
    },
  )

  test('runs once at a time, also across components', async () => {
    const { result, calls } = await opened()
    await act(async () => {
      result.current.save.mutate(['deal-closed'])
      result.current.save.mutate(['deal-closed'])
      result.current.saveElsewhere.mutate([])
      result.current.save.reset()
    })
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
    expect(calls('POST')).toHaveLength(1)
    // There is no way around that guard.
    expect(result.current.save).not.toHaveProperty('mutateAsync')
    await act(async () => result.current.save.mutate([]))
    await waitFor(() => expect(calls('POST')).toHaveLength(2))
    await waitFor(() => expect(result.current.save.isSuccess).toBe(true))
  })
})

describe('rules that could not be loaded', () => {
  test('are fetched again by focus and reconnect, but not by another component', async () => {
    const { calls } = startBackend()
    server.use(http.get(rulesPath, withStatus(403)))
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

describe('a disconnect', () => {
  test('changes the status without fetching it', async () => {
    const { result, calls, requests } = await opened()
    await act(async () => result.current.chat.mutate())
    await waitFor(() => expect(result.current.status.data).toEqual({ connected: false }))
    await settle()
    expect(calls('GET /api/slack/status')).toHaveLength(1)
    expect(calls('DELETE')).toEqual(['DELETE /api/slack/disconnect'])
    expect(requests.at(-1)?.body).toBe('')
  })

  test.each([404, 429, 500, 503])('fails once with %s and leaves the status', async (status) => {
    const { result, calls } = await opened()
    server.use(http.delete('*/disconnect', withStatus(status)))
    await act(async () => result.current.chat.mutate())
    await waitFor(() => expect(result.current.chat.isError).toBe(true))
    expect(result.current.status.data).toEqual({ connected: true })
    await settle()
    expect(calls('DELETE')).toHaveLength(1)
    expect(takeLog()).toEqual([
      `Disconnecting Slack failed: The server answered with an error (${status})`,
    ])
  })

  test('runs once per service, and one after the other', async () => {
    const { result, calls } = await opened()
    const answer = hold('delete', '*/disconnect')
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
    answer()
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

  test('does not cancel other calls', async () => {
    const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
    const answer = hold('get', rulesPath)
    const { result } = renderAppHook(() => ({
      chat: useDisconnect(config.chat),
      rules: useRules(),
    }))
    await act(async () => result.current.chat.mutate())
    await waitFor(() => expect(result.current.chat.isSuccess).toBe(true))
    answer()
    await waitFor(() => expect(result.current.rules.data).toEqual({ rules: ['deal-closed'] }))
    expect(calls('GET')).toHaveLength(1)
  })
})
