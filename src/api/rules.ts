import { type QueryClient, useQuery, useQueryClient } from '@tanstack/react-query'
import { endpoints, rulesAnswer, type SaveRulesBody } from '../../contract/endpoints.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { call, getJson } from './client.ts'
import { areConnected } from './connections.ts'
import {
  type Changes,
  changed,
  currentDraft,
  dropSavedChanges,
  type RuleIds,
  restoreDraft,
  setDraft,
  useDraft,
} from './draft.ts'
import { ApiError } from './errors.ts'
import { reloadStatuses, rulesKey } from './keys.ts'
import { shownPerson, tellSave } from './person.ts'
import { callOptions, logFailure, whileFailed } from './query-client.ts'
import { useSingleMutation } from './single-mutation.ts'

async function loadRules(queryClient: QueryClient) {
  const answer = await getJson(endpoints.rules.path, rulesAnswer)
  restoreDraft(shownPerson())
  if (!isSaving(queryClient)) dropSavedChanges(answer.rules)
  return answer
}

export const rulesQuery = callOptions({
  queryKey: rulesKey,
  queryFn: ({ client }) => loadRules(client),
  // The dashboard loads the rules when it opens (§4). Otherwise it loads them only while they are unknown, or while it is
  // unknown what the server has stored.
  staleTime: Infinity,
  gcTime: Infinity,
  refetchOnWindowFocus: true,
  refetchOnReconnect: true,
  refetchInterval: whileFailed,
  meta: { action: 'Loading rules' },
})

/** Lets the next call of the query load the rules again. */
export const expireRules = (queryClient: QueryClient) =>
  queryClient.invalidateQueries({ queryKey: rulesKey, refetchType: 'none' })

export const useRules = () => useQuery(rulesQuery)

/** What is saved, as far as the page knows (nothing until loaded, §4), and whether it is certain. */
function savedRules(queryClient: QueryClient): { saved: RuleIds; isCertain: boolean } {
  const { data, isInvalidated } = queryClient.getQueryState(rulesQuery.queryKey) ?? {}
  return { saved: data?.rules ?? [], isCertain: data !== undefined && isInvalidated === false }
}

/** The selected rules: the saved ones (none until loaded, §4) with the unsaved changes. */
export function useRuleSelection() {
  const queryClient = useQueryClient()
  const changes = useDraft()
  const saved = useRules().data?.rules ?? []

  /** Adds or removes a rule. Does nothing if the user cannot tick this rule now (§5). */
  function toggle(id: string): void {
    if (!availableRuleIds.has(id)) return
    const changes = currentDraft()
    const { saved, isCertain } = savedRules(queryClient)
    const isTicked = changes[id] ?? saved.includes(id)
    setDraft({ ...changes, [id]: !isTicked })
    // Otherwise the user may take back what the server has stored, and the page does not know it.
    if (isCertain && !isSaving(queryClient)) dropSavedChanges(saved)
  }

  return {
    selected: changed(saved, changes),
    changes,
    isUnsaved: Object.keys(changes).length > 0,
    toggle,
    /** Drops the changes. */
    discard: () => setDraft({}),
  }
}

const saveKey = ['save', 'rules'] as const

/** During a save, what the server holds is unknown. So it contains no change already. */
export function isSaving(queryClient: QueryClient): boolean {
  return queryClient.isMutating({ mutationKey: saveKey }) > 0
}

/** Whether a save is under way that leaves no change unsaved. */
export function isAllBeingSaved(queryClient: QueryClient): boolean {
  const saves = queryClient.getMutationCache()
  const changes = currentDraft()
  const save = saves.find<void, ApiError, Changes>({ mutationKey: saveKey, status: 'pending' })
  const sent = save?.state.variables
  return sent !== undefined && Object.keys(changes).every((id) => changes[id] === sent[id])
}

/**
 * Saves changes: sends the saved rules with these changes. It takes no list of rules, because another tab may have saved
 * since. If both services are not connected, it makes no call (§5), and
 * the error is of the kind `unconnected`.
 */
export function useSaveRules() {
  const queryClient = useQueryClient()
  return useSingleMutation({
    mutationKey: saveKey,
    mutationFn: async (changes: Changes) => {
      if (!areConnected(queryClient)) throw new ApiError('unconnected')
      const rules = changed(await loadUncertainRules(queryClient), changes)
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
      // The server may have stored the rules although its answer did not arrive.
      if (error && !error.isRefusal) void queryClient.invalidateQueries({ queryKey: rulesKey })
      const { saved, isCertain } = savedRules(queryClient)
      // A change made during the save stays.
      if (isCertain) dropSavedChanges(saved)
      // The backend refuses the rules of a user who is not connected.
      if (error?.status === 409) void reloadStatuses(queryClient)
    },
    meta: { action: 'Saving rules', failure: 'not saved' },
  })
}

/** Returns the saved rules. Loads them first unless they are certain; if that fails, they are the last known ones (§8). */
async function loadUncertainRules(queryClient: QueryClient): Promise<RuleIds> {
  if (!savedRules(queryClient).isCertain) {
    // Not the query: Query can pause that in a hidden tab, until nothing waits for this save any more.
    const answer = await loadRules(queryClient).catch((error) => logFailure(rulesQuery.meta, error))
    if (answer) queryClient.setQueryData(rulesQuery.queryKey, answer)
  }
  return savedRules(queryClient).saved
}
