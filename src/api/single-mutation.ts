import { useMutation, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useLayoutEffect, useRef, useSyncExternalStore } from 'react'
import { assertSamePerson, currentTurn, FormerPersonError, onNextPerson } from './person.ts'
import { type Meta, reloadPerson } from './query-client.ts'

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
 * When the page gets another person, the results disappear. A mutation that began before then has no
 * effect on the page, and if it has not been sent, it never is. If it has been, its effect in the backend may
 * come after the page has loaded, so the page loads again.
 */
export function useSingleMutation<Variables = void, Data = void>(options: {
  /** The action and its target. */
  mutationKey: readonly [name: string, subject: string]
  mutationFn: (variables: Variables) => Promise<Data>
  onSuccess?: (data: Data, variables: Variables) => unknown
  onSettled?: (data: Data | undefined, error: unknown) => unknown
  /** It waits for the others of this kind: they change what it depends on. */
  isInOrder?: true
  /** Its result is about this browser, whoever the person is. */
  isOfBrowser?: true
  meta: Meta
}) {
  const queryClient = useQueryClient()
  const { mutationKey, mutationFn, onSuccess, onSettled, isInOrder, isOfBrowser, meta } = options
  const mutation = useMutation<Data, unknown, Attempt<Variables>>({
    mutationKey,
    ...(isInOrder && { scope: { id: 'in-order' } }),
    mutationFn: async ({ begun, variables }) => {
      assertSamePerson(begun)
      if (isOfBrowser) return mutationFn(variables)
      try {
        return await mutationFn(variables)
      } finally {
        if (isInOrder && begun !== currentTurn()) void reloadPerson(queryClient)
        // Whatever became of it, it is no news of the person on the page.
        assertSamePerson(begun)
      }
    },
    onSuccess: (data, { variables }) => onSuccess?.(data, variables),
    onSettled: (data, error) => onSettled?.(data, visible(error)),
    meta,
  })
  const [name, subject] = mutationKey

  const findRunning = useCallback(
    (): Attempt<Variables> | undefined =>
      queryClient.getMutationCache().find<Data, unknown, Attempt<Variables>>({
        mutationKey: [name, subject],
        status: 'pending',
      })?.state.variables,
    [queryClient, name, subject],
  )
  // Like useMutationState, but much smaller.
  const running = useSyncExternalStore(queryClient.getMutationCache().subscribe, findRunning)
  const { mutate, reset: resetResult, data, isSuccess } = mutation
  const error = visible(mutation.error)
  // Without a result, a reset would render for nothing.
  const hasResult = useRef(false)
  useLayoutEffect(() => {
    hasResult.current = !mutation.isIdle
  }, [mutation.isIdle])
  // Always the same function, because components pass it on.
  const reset = useCallback(() => {
    if (hasResult.current && findRunning() === undefined) resetResult()
  }, [findRunning, resetResult])
  useEffect(() => onNextPerson(reset), [reset])

  // Without `mutateAsync`, which would have no guard.
  return {
    data,
    error,
    isError: error !== null,
    isSuccess,
    isIdle: mutation.isIdle || mutation.error instanceof FormerPersonError,
    isPending: running !== undefined,
    running: running?.variables,
    mutate: (variables: Variables) => {
      if (findRunning() === undefined) mutate({ begun: currentTurn(), variables })
    },
    reset,
  }
}

/** The failure of a call for the former person counts as none. */
function visible(error: unknown): unknown {
  return error instanceof FormerPersonError ? null : error
}
