import { act, waitFor } from '@testing-library/react'
import { http } from 'msw'
import { expect, test } from 'vitest'
import { useConnectionStatus } from '../../src/api/connections.ts'
import { useRuleSelection, useRules, useSaveRules } from '../../src/api/rules.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { rulesPath } from '../components/dashboard.ts'
import { server } from '../msw/server.ts'
import { both, hold, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { openHook } from './open-hook.tsx'

/** The hook beside what the dashboard loads. */
const useDashboard = () => ({
  save: useSaveRules(),
  selection: useRuleSelection(),
  loads: [useRules(), useConnectionStatus(config.crm), useConnectionStatus(config.chat)],
})

/** Waits until everything is loaded, and ticks a rule beside the stored one. */
async function tick(connected = both()) {
  const opened = openHook(useDashboard, { connected, rules: ['deal-closed'] })
  const now = () => opened.result.current
  await waitFor(() => expect(now().loads.every(({ isFetched }) => isFetched)).toBe(true))
  act(() => now().selection.toggle('deal-stage-changed'))
  await waitFor(() => expect(now().selection.isUnsaved).toBe(true))
  return { ...opened, now, save: () => act(() => now().save.mutate(now().selection.changes)) }
}

test('a save sends the whole selection once, and is pending until it is stored', async () => {
  const { calls, now, save, state } = await tick()
  const answer = hold('post', rulesPath)
  save()
  save()
  await waitFor(() => expect(now().save.isPending).toBe(true))
  answer()
  await waitFor(() => expect(now().save.isSuccess).toBe(true))
  expect(state.rules).toEqual(['deal-closed', 'deal-stage-changed'])
  expect(now().selection.isUnsaved).toBe(false)
  expect(calls('POST')).toHaveLength(1)
})

test('a save that fails is an error, keeps the ticks, and is not sent again by itself', async () => {
  const { calls, now, save } = await tick()
  server.use(http.post(rulesPath, withStatus(500)))
  save()
  await waitFor(() => expect(now().save.isError).toBe(true))
  await settle()
  expect(now().selection.selected).toContain('deal-stage-changed')
  expect(calls('POST')).toHaveLength(1)
  expect(takeLog()).toEqual(['Saving rules failed: The server answered with an error (500)'])
})

test('without both services, a save is refused without a call and a line in the log', async () => {
  const { calls, now, save } = await tick(new Set(['slack']))
  save()
  await waitFor(() => expect(now().save.error?.kind).toBe('unconnected'))
  expect(calls('POST')).toEqual([])
})
