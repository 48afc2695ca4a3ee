import { useQueryClient } from '@tanstack/react-query'
import { type ActivityItem, retryCall, retryPath } from '../../contract/features/activity.ts'
import { retryAllAnswer, retryAllCall } from '../../contract/features/retry-all.ts'
import { type ActivityFilter, type Refresh, refreshKey } from './activity.ts'
import { call, getJson } from './client.ts'
import { activityKey } from './keys.ts'
import { queryString } from './query-string.ts'
import { useSingleMutation } from './single-mutation.ts'

const { method, path } = retryAllCall

/** The failed messages to send: those of a broken connection, or those of a filter. */
export type RetriedMessages = { because: 'broken' } | Pick<ActivityFilter, 'q' | 'rule' | 'day'>

/** Sends failed messages again. */
export function useRetryAll() {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['retry-all', 'messages'],
    mutationFn: (messages: RetriedMessages) =>
      getJson(path + queryString(messages), retryAllAnswer, { method, readsRefusal: true }),
    // Also after a failure: the answer may be lost.
    onSettled: () => void queryClient.invalidateQueries({ queryKey: activityKey }),
    meta: { action: 'Sending messages again' },
  })
}

/** Sends a failed message again. Then it is waiting. */
export function useRetry(item: ActivityItem) {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['retry-message', item.id],
    mutationFn: () => call(retryCall.method, retryPath(item.id), { readsRefusal: true }),
    onSuccess: () => {
      const waiting: ActivityItem = { ...item, state: 'waiting', reason: null, nextTryAt: null }
      queryClient.setQueriesData<Refresh>(
        { queryKey: refreshKey },
        (former) => former && { ...former, current: { ...former.current, [item.id]: waiting } },
      )
    },
    // Also if the call was refused. This drops the answer to an earlier refresh, which would show the message as
    // failed again.
    onSettled: () => void queryClient.invalidateQueries({ queryKey: activityKey }),
    meta: { action: 'Sending a message again' },
  })
}
