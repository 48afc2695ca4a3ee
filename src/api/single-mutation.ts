import { type QueryClient, useMutation, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect, useLayoutEffect, useRef, useSyncExternalStore } from 'react'
import type { ApiError } from './errors.ts'
import { assertSamePerson, currentTurn, onNextPerson } from './person.ts'
import { type Meta, reloadPerson } from './query-client.ts'

/** A call, and the person for whom it was asked. */
interface Attempt<Variables> {
  begun: number
  variables: Variables
  /** Lets the next call begin that waits for this one. */
  endTurn?: () => void
}

/** When the last of the calls that wait for each other ends. */
const lastEnds = new WeakMap<QueryClient, Promise<void>>()

/**
 * Waits for the calls that were asked for before. Query's own `scope` would do the same, but while a call waits
 * in it, Query refetches nothing on focus or reconnect.
 */
async function takeTurn(queryClient: QueryClient, attempt: Pick<Attempt<unknown>, 'endTurn'>) {
  const before = lastEnds.get(queryClient)
  const { promise, resolve } = Promise.withResolvers<void>()
  lastEnds.set(queryClient, promise)
  attempt.endTurn = resolve
  await before
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
    mutationFn: async (attempt) => {
      const { begun, variables } = attempt
      if (isInOrder) await takeTurn(queryClient, attempt)
      assertSamePerson(begun)
      if (isOfBrowser) return mutationFn(variables)
      try {
        return await mutationFn(variables)
      } finally {
        if (isInOrder && begun !== currentTurn()) void reloadPerson(queryClient)
        // If the person has changed, the page must not show the result.
        assertSamePerson(begun)
      }
    },
    onSuccess: (data, { variables }) => onSuccess?.(data, variables),
    onSettled: async (data, error, { endTurn }) => {
      try {
        await onSettled?.(data, visible(error))
      } finally {
        endTurn?.()
      }
    },
    meta,
  })
  const [name, subject] = mutationKey

  const findRunning = useCallback(
    (): Attempt<Variables> | undefined =>
      queryClient.getMutationCache().find<Data, ApiError, Attempt<Variables>>({
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
      if (findRunning() === undefined) mutate({ begun: currentTurn(), variables })
    },
    reset,
  }
}

/** The failure of a call for the former person counts as none. */
function visible(error: ApiError | null): ApiError | null {
  return error?.kind === 'former' ? null : error
}
