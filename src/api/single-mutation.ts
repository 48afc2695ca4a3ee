import { type UseMutationOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { useCallback, useSyncExternalStore } from 'react'

/**
 * `useMutation`, of which one at a time runs for a key: while one is under way, `mutate` and `reset` do
 * nothing. `isPending` reaches the screen too late for that; a double click gets through a disabled button.
 * It is also true for one that was begun on a screen that has been left since.
 */
export function useSingleMutation<Variables = void>(
  options: Pick<
    UseMutationOptions<void, unknown, Variables>,
    'mutationFn' | 'onSuccess' | 'onSettled' | 'meta'
  > & {
    /** What is done, and to what. */
    mutationKey: readonly [name: string, subject: string]
  },
) {
  const queryClient = useQueryClient()
  const mutation = useMutation<void, unknown, Variables>(options)
  const [name, subject] = options.mutationKey

  const isUnderWay = useCallback(
    () => queryClient.isMutating({ mutationKey: [name, subject] }) > 0,
    [queryClient, name, subject],
  )
  // As useIsMutating does, in a fraction of its size: the page's script has a budget.
  const isPending = useSyncExternalStore(queryClient.getMutationCache().subscribe, isUnderWay)
  const { mutate, reset } = mutation

  return {
    ...mutation,
    isPending,
    mutate: (variables: Variables) => {
      if (!isUnderWay()) mutate(variables)
    },
    // The same function always, for those who hand it on.
    reset: useCallback(() => {
      if (!isUnderWay()) reset()
    }, [isUnderWay, reset]),
  }
}
