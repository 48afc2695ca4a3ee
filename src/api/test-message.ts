import { useQueryClient } from '@tanstack/react-query'
import { testAnswer, testCall } from '../../contract/features/test-message.ts'
import { getJson } from './client.ts'
import { activityKey, reloadStatuses } from './keys.ts'
import { useSingleMutation } from './single-mutation.ts'

const { method, path } = testCall

/**
 * Sends a test message. `data` says what became of it. If the backend refuses, the message of `error` is
 * the backend's own sentence, which users may see.
 */
export function useSendTest() {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: ['test-message', 'own'],
    // It changes nothing that a write uses, and may take seconds.
    scope: { id: 'test-message' },
    mutationFn: () => getJson(path, testAnswer, { method, readsRefusal: true }),
    onSettled: (_data, error) => {
      // The refusal may have broken a connection.
      if (error) void reloadStatuses(queryClient)
      void queryClient.invalidateQueries({ queryKey: activityKey })
    },
    meta: { action: 'Sending a test message' },
  })
}
