import { useQueryClient } from '@tanstack/react-query'
import { extraEndpoints } from '../../contract/endpoints.ts'
import { config } from '../config.ts'
import { call } from './client.ts'
import { connectionStatusQuery } from './connections.ts'
import { useHasFeature } from './health.ts'
import { replacePerson, tellOtherTabs } from './person.ts'
import { reloadStatuses, resetFeatures } from './query-client.ts'
import { forgetRules, rulesQuery } from './rules.ts'
import { useSingleMutation } from './single-mutation.ts'

const { feature, method, path } = extraEndpoints.endSession

export const useCanEndSessions = () => useHasFeature(feature)

/** Ends this browser's session. The dashboard then shows what a browser without a session sees. */
export function useEndSession() {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['end-session', 'own'],
    isInOrder: true,
    mutationFn: () => call(method, path),
    onSuccess: async (person) => {
      // What a browser without a session sees is known, so nothing needs to be loaded.
      replacePerson(person)
      tellOtherTabs()
      for (const provider of [config.crm, config.chat]) {
        const { queryKey } = connectionStatusQuery(provider)
        // An answer from before must not restore the connection.
        await queryClient.cancelQueries({ queryKey })
        queryClient.setQueryData(queryKey, { connected: false })
      }
      await queryClient.cancelQueries({ queryKey: rulesQuery.queryKey })
      forgetRules(queryClient)
      void resetFeatures(queryClient)
    },
    // The server may have ended the session although its answer did not arrive.
    onSettled: (_data, error) => {
      if (error) void reloadStatuses(queryClient)
    },
    meta: { action: 'Signing out of this browser' },
  })
}

/** Ends all other sessions of this browser's user. */
export function useEndOtherSessions() {
  return useSingleMutation({
    mutationKey: ['end-other-sessions', 'user'],
    isInOrder: true,
    mutationFn: () => call(method, path, { searchParams: { others: 'true' } }),
    meta: { action: 'Signing out of all other browsers' },
  })
}
