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
import { useSingleMutation } from './single-mutation.ts'

/** Rule ids, those that this client does not offer included: what a newer client set is kept. */
export type RuleIds = readonly string[]

export const rulesQuery = queryOptions({
  queryKey: ['rules'],
  queryFn: () => getJson(endpoints.rules.path, rulesAnswer),
  // §4: rules load once when the dashboard opens; a refetch must not fight the user's ticks.
  staleTime: Infinity,
  gcTime: Infinity,
  retryOnMount: false,
  refetchOnMount: false,
  refetchOnWindowFocus: false,
  refetchOnReconnect: false,
  meta: { action: 'Loading rules' },
})

export const useRules = () => useQuery(rulesQuery)

// The ticks that differ from the server's rules; null when none do. They stand in the cache, beside
// the server's, so that no remount loses one.
const draftQuery = queryOptions({
  queryKey: ['rules-draft'],
  queryFn: skipToken,
  initialData: null as RuleIds | null,
  staleTime: Infinity,
  gcTime: Infinity,
})

/** The rules as the user sees them: the server's (none until loaded, §4) until a tick changes them. */
export function useRuleSelection() {
  const queryClient = useQueryClient()
  const draft = useQuery(draftQuery).data
  const saved = useQuery(rulesQuery).data?.rules ?? []

  /** Adds the rule or takes it out. Ids that cannot be selected now are left as they are (§5). */
  const toggle = useCallback(
    (id: string): void => {
      if (!availableRuleIds.has(id)) return
      const selected = currentSelection(queryClient)
      queryClient.setQueryData(
        draftQuery.queryKey,
        selected.includes(id) ? selected.filter((other) => other !== id) : [...selected, id],
      )
      // While a save is under way, what the server holds is not known: every change is kept.
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
    /** Forgets what was not saved. */
    discard: () => queryClient.setQueryData(draftQuery.queryKey, null),
  }
}

const saveKey = ['save', 'rules'] as const

export function useSaveRules() {
  const queryClient = useQueryClient()
  return useSingleMutation<RuleIds>({
    mutationKey: saveKey,
    mutationFn: (rules) =>
      call('POST', endpoints.saveRules.path, {
        json: { rules: [...rules] } satisfies SaveRulesBody,
      }),
    onSuccess: (_nothing, rules) => {
      queryClient.setQueryData(rulesQuery.queryKey, { rules: [...rules] })
    },
    // A tick that was changed while saving is kept.
    onSettled: () => dropSavedDraft(queryClient),
    meta: { action: 'Saving rules' },
  })
}

/** Whether two selections hold the same rules, in whatever order. */
export function sameRules(a: RuleIds, b: RuleIds): boolean {
  return a.length === b.length && a.every((id) => b.includes(id))
}

function currentSelection(queryClient: QueryClient): RuleIds {
  return queryClient.getQueryData(draftQuery.queryKey) ?? savedRules(queryClient)
}

function savedRules(queryClient: QueryClient): RuleIds {
  return queryClient.getQueryData(rulesQuery.queryKey)?.rules ?? []
}

/** Forgets ticks that say what the server holds anyway. */
function dropSavedDraft(queryClient: QueryClient): void {
  const draft = queryClient.getQueryData(draftQuery.queryKey)
  if (draft && sameRules(draft, savedRules(queryClient))) {
    queryClient.setQueryData(draftQuery.queryKey, null)
  }
}
