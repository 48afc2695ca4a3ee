import { useQueryClient } from '@tanstack/react-query'
import { activityEndpoints, retryAllAnswer } from '../../contract/activity.ts'
import { getJson } from './client.ts'
import { useHasFeature } from './health.ts'
import { useSingleMutation } from './single-mutation.ts'

const { feature, method, path } = activityEndpoints.retryAll

export const useCanRetryAll = () => useHasFeature(feature)

/** Sends failed messages again: `broken` for those that failed because of a broken connection, or all. */
export function useRetryAll() {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['retry-all', 'messages'],
    isInOrder: true,
    mutationFn: (which: 'broken' | 'all') =>
      getJson(which === 'broken' ? `${path}?because=broken` : path, retryAllAnswer, { method }),
    // Also after a failure: the answer may be lost.
    onSettled: () => {
      void queryClient.invalidateQueries({ predicate: ({ meta }) => meta?.feature === 'activity' })
    },
    meta: { action: 'Sending messages again' },
  })
}
