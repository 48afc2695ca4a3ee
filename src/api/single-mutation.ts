import {
  type MutationCache,
  type MutationKey,
  type MutationState,
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
 * components with the same key have the same call. Its result stays until one of them has shown it and has unmounted.
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
  const cache = queryClient.getMutationCache()
  const reset = () => forget(cache, endedOf(cache, mutationKey))
  // StrictMode takes a component away and puts it back at once.
  const end = useRef<ReturnType<typeof setTimeout>>(undefined)
  useEffect(() => {
    clearTimeout(end.current)
    return () => {
      // The user has not seen the result of a call that ends after this point.
      const shown = endedOf(cache, mutationKey)
      end.current = setTimeout(() => forget(cache, shown))
    }
  }, [cache, mutationKey])

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

const endedOf = (cache: MutationCache, mutationKey: MutationKey) =>
  cache.findAll({ mutationKey }).filter(({ state }) => state.status !== 'pending')

function forget(cache: MutationCache, mutations: ReturnType<typeof endedOf>): void {
  for (const mutation of mutations) cache.remove(mutation)
}
