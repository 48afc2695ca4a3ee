import { type UseMutationOptions, useMutation, useQueryClient } from '@tanstack/react-query'
import { useCallback } from 'react'

/**
 * `useMutation`, of which one at a time runs for a key: while one is under way, `mutate` and `reset` do
 * nothing. `isPending` reaches the screen too late for that; a double click gets through a disabled button.
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
    () => queryClient.isMutating({ mutationKey: [name, subject], exact: true }) > 0,
    [queryClient, name, subject],
  )
  const { mutate, reset } = mutation

  return {
    ...mutation,
    mutate: useCallback(
      (variables: Variables) => {
        if (!isUnderWay()) mutate(variables)
      },
      [isUnderWay, mutate],
    ),
    reset: useCallback(() => {
      if (!isUnderWay()) reset()
    }, [isUnderWay, reset]),
  }
}
