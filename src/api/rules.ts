import {
  type QueryClient,
  queryOptions,
  skipToken,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { useCallback } from 'react'
import { endpoints, rulesAnswer, type SaveRulesBody } from '../../contract/endpoints.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { call, getJson } from './client.ts'
import { ApiError } from './errors.ts'
import { reloadStatuses } from './query-client.ts'
import { useSingleMutation } from './single-mutation.ts'

/** Rule ids. A newer client may have stored ids that this client does not offer. */
export type RuleIds = readonly string[]

export const rulesQuery = queryOptions({
  queryKey: ['rules'],
  queryFn: () => getJson(endpoints.rules.path, rulesAnswer),
  // The dashboard loads the rules once, when it opens (§4).
  staleTime: Infinity,
  gcTime: Infinity,
  retryOnMount: false,
  refetchOnMount: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
  meta: { action: 'Loading rules' },
})

export const useRules = () => useQuery(rulesQuery)

// The selection if it differs from the server's rules, otherwise null. It is in the cache so that a
// remount does not lose it.
const draftQuery = queryOptions({
  queryKey: ['rules-draft'],
  queryFn: skipToken,
  initialData: null as RuleIds | null,
  staleTime: Infinity,
  gcTime: Infinity,
})

/** The selected rules: the draft, or without a draft the server's (none until loaded, §4). */
export function useRuleSelection() {
  const queryClient = useQueryClient()
  const draft = useQuery(draftQuery).data
  const saved = useQuery(rulesQuery).data?.rules ?? []

  /** Adds or removes a rule. Does nothing if the user cannot tick this rule now (§5). */
  const toggle = useCallback(
    (id: string): void => {
      if (!availableRuleIds.has(id)) return
      const selected = currentSelection(queryClient)
      queryClient.setQueryData(
        draftQuery.queryKey,
        selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id],
      )
      // During a save, the server's rules are unknown. So keep the draft.
      if (queryClient.isMutating({ mutationKey: saveKey }) === 0) {
        dropSavedDraft(queryClient)
      }
    },
    [queryClient],
  )

  return {
    selected: draft ?? saved,
    isUnsaved: draft !== null,
    toggle,
    /** Drops the draft. */
    discard: () => queryClient.setQueryData(draftQuery.queryKey, null),
  }
}

/** Forgets the rules and the draft: a browser without a session has none. */
export function forgetRules(queryClient: QueryClient): void {
  queryClient.setQueryData(rulesQuery.queryKey, { rules: [] })
  queryClient.setQueryData(draftQuery.queryKey, null)
}

const saveKey = ['save', 'rules'] as const

export function useSaveRules() {
  const queryClient = useQueryClient()
  return useSingleMutation<RuleIds, RuleIds>({
    mutationKey: saveKey,
    isInOrder: true,
    mutationFn: async (rules) => {
      await call('POST', endpoints.saveRules.path, {
        json: { rules: [...rules] } satisfies SaveRulesBody,
      })
      return rules
    },
    onSuccess: async (rules) => {
      // The answer to an earlier call must not replace what was saved.
      await queryClient.cancelQueries({ queryKey: rulesQuery.queryKey })
      queryClient.setQueryData(rulesQuery.queryKey, { rules: [...rules] })
    },
    onSettled: (_rules, error) => {
      // A change made during the save stays in the draft.
      dropSavedDraft(queryClient)
      // The backend refuses the rules of a user who is not connected.
      if (error instanceof ApiError && error.status === 409) void reloadStatuses(queryClient)
    },
    meta: { action: 'Saving rules' },
  })
}

/** Whether two selections contain the same rules, in any order. */
export function sameRules(a: RuleIds, b: RuleIds): boolean {
  return a.length === b.length && a.every((id) => b.includes(id))
}

function currentSelection(queryClient: QueryClient): RuleIds {
  return queryClient.getQueryData(draftQuery.queryKey) ?? savedRules(queryClient)
}

function savedRules(queryClient: QueryClient): RuleIds {
  return queryClient.getQueryData(rulesQuery.queryKey)?.rules ?? []
}

/** Drops the draft if it equals the server's rules. */
function dropSavedDraft(queryClient: QueryClient): void {
  const draft = queryClient.getQueryData(draftQuery.queryKey)
  if (draft && sameRules(draft, savedRules(queryClient))) {
    queryClient.setQueryData(draftQuery.queryKey, null)
  }
}
