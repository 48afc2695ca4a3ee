import {
  type MutationKey,
  type MutationState,
  type QueryClient,
  type UseMutationOptions,
  useMutation,
  useMutationState,
  useQueryClient,
} from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { ApiError } from './errors.ts'

/**
 * `useMutation` for a call that changes something. Such calls wait for each other. While one runs, `mutate` with the same
 * key does nothing: a disabled button is not enough, because a double click is faster than the next render. All
 * components with the same key have the same call. What it ends with stays until one of them has shown it and goes.
 */
export function useSingleMutation<Data, Variables = void, Context = unknown>(
  options: UseMutationOptions<Data, ApiError, Variables, Context> &
    Required<
      Pick<
        UseMutationOptions<Data, ApiError, Variables, Context>,
        'mutationKey' | 'mutationFn' | 'meta'
      >
    >,
) {
  const queryClient = useQueryClient()
  const { mutationKey } = options
  const { mutate } = useMutation({ scope: { id: 'in order' }, gcTime: Infinity, ...options })
  const states = useMutationState({
    filters: { mutationKey },
    select: ({ state }) => state as MutationState<Data, ApiError, Variables, Context>,
  })
  const { status = 'idle', data, error = null } = states.at(-1) ?? {}
  const reset = () => forgetEnded(queryClient, mutationKey)
  // StrictMode takes a component away and puts it back at once.
  const end = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => {
    clearTimeout(end.current)
    return () => {
      end.current = setTimeout(forgetEnded, 0, queryClient, mutationKey)
    }
  }, [queryClient, mutationKey])

  return {
    data,
    error,
    isIdle: status === 'idle',
    isPending: status === 'pending',
    isSuccess: status === 'success',
    isError: status === 'error',
    reset,
    mutate(...args: Parameters<typeof mutate>): void {
      if (queryClient.isMutating({ mutationKey }) > 0) return
      reset()
      mutate(...args)
    },
  }
}

function forgetEnded(queryClient: QueryClient, mutationKey: MutationKey): void {
  const cache = queryClient.getMutationCache()
  for (const mutation of cache.findAll({ mutationKey })) {
    if (mutation.state.status !== 'pending') cache.remove(mutation)
  }
}
