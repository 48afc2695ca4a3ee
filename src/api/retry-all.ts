import { useQueryClient } from '@tanstack/react-query'
import { retryAllAnswer, retryAllCall } from '../../contract/features/retry-all.ts'
import type { ActivityFilter } from './activity.ts'
import { getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { activityKey } from './keys.ts'
import { useSingleMutation } from './single-mutation.ts'
import { queryOf } from './summary.ts'

const { feature, method, path } = retryAllCall

export const useCanRetryAll = () => useHasFeature(feature)

/** Which failed messages: those that failed because of a broken connection, or those of a filter, as a query. */
export type Which = { because: 'broken' } | Pick<ActivityFilter, 'q' | 'rule' | 'day'>

/** Sends failed messages again. */
export function useRetryAll() {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['retry-all', 'messages'],
    mutationFn: (which: Which) => getJson(path + queryOf(which), retryAllAnswer, { method }),
    // Also after a failure: the answer may be lost.
    onSettled: () => {
      void queryClient.invalidateQueries({ queryKey: activityKey })
    },
    meta: { action: 'Sending messages again' },
  })
}
