import {
  type UseMutationOptions,
  type UseMutationResult,
  useIsMutating,
  useMutation,
  useQueryClient,
} from '@tanstack/react-query'
import { useEffect, useRef } from 'react'
import type { ApiError } from './errors.ts'
import { personKey } from './keys.ts'
import { assertSamePerson, currentTurn, onNextPerson } from './person.ts'

/**
 * `useMutation` for a call that changes something. Such calls wait for each other. While one runs, `mutate` with the same
 * key does nothing: a disabled button is not enough, because a double click is faster than the next render. `isPending`
 * is also true if another screen has started the call.
 *
 * When the person changes, the result disappears, and a call that waits is not made. One that was made does not change
 * the page. Its effect in the backend may come after the page has loaded, so the page loads again.
 */
export function useSingleMutation<Data, Variables = void>({
  isOfBrowser,
  ...options
}: UseMutationOptions<Data, ApiError, Variables> &
  Required<
    Pick<UseMutationOptions<Data, ApiError, Variables>, 'mutationKey' | 'mutationFn' | 'meta'>
  > & {
    /** Its result is about this browser, whoever the person is. */
    isOfBrowser?: true
  }) {
  const queryClient = useQueryClient()
  const { mutationKey, mutationFn } = options
  /** The turn in which the user clicked. */
  const begun = useRef(0)
  const mutation: UseMutationResult<Data, ApiError, Variables> = useMutation({
    scope: { id: 'in order' },
    ...options,
    mutationFn: async (variables, context) => {
      if (isOfBrowser) return mutationFn(variables, context)
      assertSamePerson(begun.current)
      try {
        return await mutationFn(variables, context)
      } finally {
        if (begun.current !== currentTurn()) {
          void queryClient.invalidateQueries({ queryKey: personKey })
        }
        assertSamePerson(begun.current)
      }
    },
    onSettled: (data, error, ...rest) =>
      error?.kind === 'former' ? mutation.reset() : options.onSettled?.(data, error, ...rest),
  })
  const isPending = useIsMutating({ mutationKey }) > 0
  // Do not return `mutateAsync`: it would allow two calls at the same time.
  const { mutateAsync: _, mutate, ...result } = mutation
  const { reset, isIdle } = result
  const hasResult = !isIdle && !isPending
  useEffect(() => {
    if (hasResult && !isOfBrowser) return onNextPerson(reset)
  }, [hasResult, isOfBrowser, reset])

  return {
    ...result,
    isPending,
    mutate: (variables: Variables) => {
      if (queryClient.isMutating({ mutationKey }) > 0) return
      begun.current = currentTurn()
      mutate(variables)
    },
  }
}
