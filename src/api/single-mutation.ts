import { useMutation, useMutationState, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useLayoutEffect, useRef } from 'react'
import type { ApiError } from './errors.ts'
import { personKey } from './keys.ts'
import { assertSamePerson, currentTurn, onNextPerson } from './person.ts'
import type { Meta } from './query-client.ts'

/** A call, and the person for whom it was asked. */
interface Attempt<Variables> {
  begun: number
  variables: Variables
}

/**
 * Like `useMutation`, but runs one mutation at a time per key. While one runs, `mutate` and `reset`
 * do nothing. A disabled button is not enough, because a double click is faster than the next
 * render. `isPending` is also true if another screen has started the mutation, and `running` has its
 * variables.
 *
 * When the person changes, the results disappear. An older mutation that waits is not sent. The answer to one that
 * was sent does not change the page. Its effect in the backend may come after the page has loaded, so the page
 * loads again.
 */
export function useSingleMutation<Variables = void, Data = void>(options: {
  /** The action and its target. */
  mutationKey: readonly [name: string, subject: string]
  mutationFn: (variables: Variables) => Promise<Data>
  onSuccess?: (data: Data, variables: Variables) => unknown
  onSettled?: (data: Data | undefined, error: ApiError | null) => unknown
  /** The mutation waits for other mutations with this flag, because they change the data that it uses. */
  isInOrder?: true
  /** Its result is about this browser, whoever the person is. */
  isOfBrowser?: true
  meta: Meta
}) {
  const queryClient = useQueryClient()
  const { mutationKey, mutationFn, onSuccess, onSettled, isInOrder, isOfBrowser, meta } = options
  const mutation = useMutation<Data, ApiError, Attempt<Variables>>({
    mutationKey,
    ...(isInOrder && { scope: { id: 'in order' } }),
    mutationFn: async ({ begun, variables }) => {
      assertSamePerson(begun)
      if (isOfBrowser) return mutationFn(variables)
      try {
        return await mutationFn(variables)
      } finally {
        if (isInOrder && begun !== currentTurn()) {
          void queryClient.invalidateQueries({ queryKey: personKey })
        }
        // If the person has changed, the page must not show the result.
        assertSamePerson(begun)
      }
    },
    onSuccess: (data, { variables }) => onSuccess?.(data, variables),
    onSettled: (data, error) => onSettled?.(data, visible(error)),
    meta,
  })
  const [running] = useMutationState({
    filters: { mutationKey, status: 'pending' },
    // Only the mutation above has this key.
    select: ({ state }) => state.variables as Attempt<Variables>,
  })
  const [name, subject] = mutationKey
  const isRunning = useCallback(
    () => queryClient.isMutating({ mutationKey: [name, subject] }) > 0,
    [queryClient, name, subject],
  )
  const { mutate, reset: resetResult, data, isSuccess } = mutation
  const error = visible(mutation.error)
  // Without a result, a reset would render for nothing.
  const hasResult = useRef(false)
  useLayoutEffect(() => {
    hasResult.current = !mutation.isIdle
  }, [mutation.isIdle])
  // Always the same function, because components pass it on.
  const reset = useCallback(() => {
    if (hasResult.current && !isRunning()) resetResult()
  }, [isRunning, resetResult])
  useEffect(() => onNextPerson(reset), [reset])

  // Do not return `mutateAsync`: it would allow two mutations at the same time.
  return {
    data,
    error,
    isError: error !== null,
    isSuccess,
    isIdle: mutation.isIdle || mutation.error?.kind === 'former',
    isPending: running !== undefined,
    running: running?.variables,
    mutate: (variables: Variables) => {
      if (!isRunning()) mutate({ begun: currentTurn(), variables })
    },
    reset,
  }
}

/** The failure of a call for the former person counts as none. */
function visible(error: ApiError | null): ApiError | null {
  return error?.kind === 'former' ? null : error
}
