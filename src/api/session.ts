import { endSessionCall } from '../../contract/features/sessions.ts'
import { call, callForPerson } from './client.ts'
import { endSessionKey } from './keys.ts'
import { changePerson } from './person.ts'
import { useSingleMutation } from './single-mutation.ts'

const { method, path } = endSessionCall

/** Ends this browser's session. All tabs then load what a browser without a session sees. */
export function useEndSession() {
  return useSingleMutation({
    mutationKey: endSessionKey,
    mutationFn: () =>
      changePerson(() => callForPerson(method, path, { readsRefusal: true }), 'signed out'),
    meta: { action: 'Signing out of this browser' },
  })
}

/** Ends all other sessions of this browser's user. */
export function useEndOtherSessions() {
  return useSingleMutation({
    mutationKey: ['end-other-sessions', 'user'],
    mutationFn: () => call(method, path, { searchParams: { others: 'true' }, readsRefusal: true }),
    meta: { action: 'Signing out of all other browsers' },
  })
}
