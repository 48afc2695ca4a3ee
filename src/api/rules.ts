import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { useCallback, useEffect } from 'react'
import { endpoints, rulesAnswer, type SaveRulesBody } from '../../contract/endpoints.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { config } from '../config.ts'
import { call, getJson } from './client.ts'
import { areConnected, useConnectionStatus } from './connections.ts'
import {
  draftQuery,
  dropSavedDraft,
  keepTicks,
  type RuleIds,
  savedRules,
  selectionOf,
  setDraft,
  union,
} from './draft.ts'
import { ApiError } from './errors.ts'
import { reloadStatuses, rulesKey } from './keys.ts'
import { assertSamePerson, currentTurn, tellSave } from './person.ts'
import { callOptions, logFailure, whileFailed } from './query-client.ts'
import { useSingleMutation } from './single-mutation.ts'

const loadRules = () => getJson(endpoints.rules.path, rulesAnswer)

export const rulesQuery = callOptions({
  queryKey: rulesKey,
  queryFn: async ({ client }) => {
    const begun = currentTurn()
    const answer = await loadRules()
    if (begun === currentTurn()) keepTicks(client, answer.rules, isSaving(client))
    return answer
  },
  // The dashboard loads the rules once, when it opens (§4). Until they are known, it tries again.
  staleTime: Infinity,
  gcTime: Infinity,
  retryOnMount: false,
  refetchOnMount: false,
  refetchOnWindowFocus: ({ state }) => state.data === undefined && 'always',
  refetchOnReconnect: ({ state }) => state.data === undefined && 'always',
  refetchInterval: whileFailed,
  meta: { action: 'Loading rules' },
})

export const useRules = () => useQuery(rulesQuery)

/** The selected rules: the draft, or without a draft the server's (none until loaded, §4). */
export function useRuleSelection() {
  const queryClient = useQueryClient()
  const draft = useQuery(draftQuery).data
  const saved = useQuery(rulesQuery).data?.rules ?? []

  /** Adds or removes a rule. Does nothing if the user cannot tick this rule now (§5). */
  const toggle = useCallback(
    (id: string): void => {
      if (!availableRuleIds.has(id)) return
      const selected = selectionOf(queryClient)
      setDraft(
        queryClient,
        selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id],
      )
      if (!isSaving(queryClient)) dropSavedDraft(queryClient)
    },
    [queryClient],
  )

  return {
    selected: draft ?? saved,
    isUnsaved: draft !== null,
    toggle,
    /** Drops the draft. */
    discard: () => setDraft(queryClient, null),
  }
}

const saveKey = ['save', 'rules'] as const

/** During a save, what the server holds is unknown. So no draft equals it. */
function isSaving(queryClient: QueryClient): boolean {
  return queryClient.isMutating({ mutationKey: saveKey }) > 0
}

/**
 * Saves a selection if both services are connected. Otherwise it makes no call, and `isRefused` says so until they are
 * (§5). If the saved rules are unknown, it loads them first.
 */
export function useSaveRules() {
  const queryClient = useQueryClient()
  const statuses = [useConnectionStatus(config.crm), useConnectionStatus(config.chat)]
  const canSave = statuses.every((status) => status.data?.connected)
  const save = useSingleMutation<RuleIds, RuleIds>({
    mutationKey: saveKey,
    isInOrder: true,
    mutationFn: async (selected) => {
      if (!areConnected(queryClient)) throw new ApiError('unconnected')
      const rules = await withUnknownRules(queryClient, selected)
      await call('POST', endpoints.saveRules.path, {
        json: { rules: [...rules] } satisfies SaveRulesBody,
      })
      return rules
    },
    onSuccess: async (rules) => {
      // The answer to an earlier call must not replace what was saved.
      await queryClient.cancelQueries({ queryKey: rulesKey })
      queryClient.setQueryData(rulesQuery.queryKey, { rules: [...rules] })
      tellSave()
    },
    onSettled: (_rules, error) => {
      // A change made during the save stays in the draft.
      dropSavedDraft(queryClient)
      // The backend refuses the rules of a user who is not connected.
      if (error?.status === 409) void reloadStatuses(queryClient)
    },
    meta: { action: 'Saving rules' },
  })

  const { isSuccess, reset } = save
  const wasRefused = save.error?.kind === 'unconnected'
  // A success was about connections that have ended. A refusal ends when both services are connected, so a later
  // disconnect does not show it again. Wait for both statuses. Otherwise their order would decide whether it ends.
  const isOver = canSave ? wasRefused && !statuses.some((status) => status.isFetching) : isSuccess
  useEffect(() => {
    if (isOver) reset()
  }, [isOver, reset])

  return {
    ...save,
    canSave,
    isRefused: wasRefused && !canSave,
    isError: save.isError && !wasRefused,
    isSaved: isSuccess && canSave,
  }
}

/**
 * Returns the rules to save. If the saved rules are unknown, loads them and adds them to the selection, because the
 * selection then contains only the new ticks. If loading fails, returns only the selection (§8).
 */
async function withUnknownRules(queryClient: QueryClient, selected: RuleIds): Promise<RuleIds> {
  if (queryClient.getQueryData(rulesKey) !== undefined) return selected
  const begun = currentTurn()
  // Not the query: Query can pause that in a hidden tab, until nothing waits for this save any more.
  const answer = await loadRules().catch((error) => logFailure(rulesQuery.meta, error))
  assertSamePerson(begun)
  if (answer) {
    keepTicks(queryClient, answer.rules, false)
    queryClient.setQueryData(rulesQuery.queryKey, answer)
  }
  return union(savedRules(queryClient), selected)
}
