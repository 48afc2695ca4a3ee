import { type UseMutationOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { useCallback, useSyncExternalStore } from 'react'

/**
 * Like `useMutation`, but runs one mutation at a time per key. While one runs, `mutate` and `reset`
 * do nothing. A disabled button is not enough, because a double click is faster than the next
 * render. `isPending` is also true if another screen has started the mutation.
 */
export function useSingleMutation<Variables = void, Data = void>(
  options: Pick<
    UseMutationOptions<Data, unknown, Variables>,
    'mutationFn' | 'onSuccess' | 'onSettled' | 'meta'
  > & {
    /** The action and its target. */
    mutationKey: readonly [name: string, subject: string]
  },
) {
  const queryClient = useQueryClient()
  const mutation = useMutation<Data, unknown, Variables>(options)
  const [name, subject] = options.mutationKey

  const isRunning = useCallback(
    () => queryClient.isMutating({ mutationKey: [name, subject] }) > 0,
    [queryClient, name, subject],
  )
  // Like useIsMutating, but much smaller.
  const isPending = useSyncExternalStore(queryClient.getMutationCache().subscribe, isRunning)
  const { mutate, reset } = mutation

  return {
    ...mutation,
    isPending,
    mutate: (variables: Variables) => {
      if (!isRunning()) mutate(variables)
    },
    // Always the same function, because components pass it on.
    reset: useCallback(() => {
      if (!isRunning()) reset()
    }, [isRunning, reset]),
  }
}
