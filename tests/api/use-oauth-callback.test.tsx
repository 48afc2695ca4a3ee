import { waitFor } from '@testing-library/react'
import { expect, test } from 'vitest'
import { type AuthorizationResponse, useOAuthCallback } from '../../src/api/oauth.ts'
import { config } from '../../src/config.ts'
import { settle } from '../clock.ts'
import { lookAgain, setOnline } from '../render.tsx'
import { takeLog } from '../setup.ts'
import { openHook } from './open-hook.tsx'

const useCallback = (response: AuthorizationResponse) => useOAuthCallback(config.crm, response)

/** Opens the hook for HubSpot's response. The backend knows the code `abc`. */
const open = (response: AuthorizationResponse) =>
  openHook(useCallback, { codes: new Set(['abc']) }, response)

test('a callback is pending, and then the service is connected', async () => {
  const { calls, result, state } = open({ code: 'abc', state: 'xyz' })
  expect(result.current.isPending).toBe(true)
  await waitFor(() => expect(result.current.isSuccess).toBe(true))
  expect(state.connected).toContain('hubspot')
  expect(calls()).toEqual(['GET /api/hubspot/callback?code=abc&state=xyz'])
})

test.each([
  ['abc', undefined],
  // The message does not contain the code.
  ['refused', 'The server answered with an error (400)'],
])(
  'the code %s is sent once, whatever happens later, and the error is %j',
  async (code, message) => {
    const { calls, result, unmount, renderAgain } = open({ code })
    await waitFor(() => expect(result.current.isFetched).toBe(true))
    expect(result.current.error?.message).toBe(message)
    for (const leave of [() => {}, unmount]) {
      leave()
      renderAgain()
      lookAgain()
      setOnline(false)
      setOnline(true)
      await settle()
    }
    expect(calls(`GET /api/hubspot/callback?code=${code}`)).toHaveLength(1)
    takeLog()
  },
)

test.each([{}, { code: 'abc', error: 'access_denied' }])(
  '%j is an error without a call',
  async (response) => {
    const { calls, result } = open(response)
    await waitFor(() => expect(result.current.error?.message).toBe('Missing HubSpot code'))
    expect(calls()).toEqual([])
    takeLog()
  },
)
