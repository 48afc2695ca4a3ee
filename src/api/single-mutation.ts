import {
  type UseMutationOptions,
  useIsMutating,
  useMutation,
  useQueryClient,
} from '@tanstack/react-query'
import type { ApiError } from './errors.ts'

/**
 * `useMutation` for a call that changes something. Such calls wait for each other. While one runs, `mutate` with the same
 * key does nothing: a disabled button is not enough, because a double click is faster than the next render. `isPending`
 * is also true if another screen has started the call.
 */
export function useSingleMutation<Data, Variables = void>(
  options: UseMutationOptions<Data, ApiError, Variables> &
    Required<
      Pick<UseMutationOptions<Data, ApiError, Variables>, 'mutationKey' | 'mutationFn' | 'meta'>
    >,
) {
  const queryClient = useQueryClient()
  const { mutationKey } = options
  const isPending = useIsMutating({ mutationKey }) > 0
  const mutation = useMutation({ scope: { id: 'in order' }, ...options })
  // Do not return `mutateAsync`: it would allow two calls at the same time.
  const { mutateAsync: _, mutate, ...result } = mutation
  return {
    ...result,
    isPending,
    mutate: (variables: Variables) => {
      if (queryClient.isMutating({ mutationKey }) === 0) mutate(variables)
    },
  }
}
