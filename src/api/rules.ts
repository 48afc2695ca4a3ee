import {
  type QueryClient,
  queryOptions,
  skipToken,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { useCallback, useEffect, useState } from 'react'
import { endpoints, rulesAnswer, type SaveRulesBody } from '../../contract/endpoints.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { config } from '../config.ts'
import { call, getJson } from './client.ts'
import { areConnected, useConnectionStatus } from './connections.ts'
import { assertSamePerson, currentTurn, onNextPerson, shownPerson, tellSave } from './person.ts'
import { callOptions, logFailure, reloadStatuses, whileFailed } from './query-client.ts'
import { useSingleMutation } from './single-mutation.ts'

/** Rule ids. A newer client may have stored ids that this client does not offer. */
export type RuleIds = readonly string[]

const loadRules = () => getJson(endpoints.rules.path, rulesAnswer)

export const rulesQuery = callOptions({
  queryKey: ['rules'],
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
  meta: { action: 'Loading rules', about: 'rules' },
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
  // The data are what was sent. Null: nothing was sent, because a disconnect came first.
  const save = useSingleMutation<RuleIds, RuleIds | null>({
    mutationKey: saveKey,
    isInOrder: true,
    mutationFn: async (selected) => {
      if (!areConnected(queryClient)) return null
      const rules = await withUnknownRules(queryClient, selected)
      await call('POST', endpoints.saveRules.path, {
        json: { rules: [...rules] } satisfies SaveRulesBody,
      })
      return rules
    },
    onSuccess: async (rules) => {
      if (rules === null) return
      // The answer to an earlier call must not replace what was saved.
      await queryClient.cancelQueries({ queryKey: rulesQuery.queryKey })
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

  const { mutate, reset, data } = save
  const [wasRefused, setWasRefused] = useState(false)
  useEffect(() => onNextPerson(() => setWasRefused(false)), [])
  // The refusal ends when both services are connected, so a later disconnect does not show it
  // again. Wait for both statuses. Otherwise their order would decide whether the refusal ends.
  if (wasRefused && canSave && !statuses.some((status) => status.isFetching)) setWasRefused(false)
  // The success was about connections that have ended, or the save was not sent because of that.
  const isOver = data !== undefined && !canSave
  useEffect(() => {
    if (!isOver) return
    if (data === null) setWasRefused(true)
    reset()
  }, [isOver, data, reset])

  return {
    ...save,
    canSave,
    isRefused: wasRefused && !canSave,
    isSaved: canSave && Boolean(data),
    mutate: (selected: RuleIds) => {
      setWasRefused(!canSave)
      if (canSave) mutate(selected)
      else reset()
    },
    // Always the same function, because components pass it on.
    reset: useCallback(() => {
      setWasRefused(false)
      reset()
    }, [reset]),
  }
}

/**
 * Returns the rules to save. If the saved rules are unknown, loads them and adds them to the selection, because the
 * selection then contains only the new ticks. If loading fails, returns only the selection (§8).
 */
async function withUnknownRules(queryClient: QueryClient, selected: RuleIds): Promise<RuleIds> {
  if (queryClient.getQueryData(rulesQuery.queryKey) !== undefined) return selected
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

/**
 * Applies to the rules that were just loaded what the draft ticks and unticks: while the rules were unknown, before the
 * browser went to a provider, or before another tab saved.
 * @param keepsAll keeps the draft even if it equals these rules
 */
function keepTicks(queryClient: QueryClient, rules: RuleIds, keepsAll: boolean): void {
  const known = queryClient.getQueryData(rulesQuery.queryKey)?.rules
  const draft = queryClient.getQueryData(draftQuery.queryKey)
  const kept = known === undefined ? takeKeptDraft(rules) : undefined
  if (!draft && !kept) return
  const ticked = rebase(kept ?? rules, known ?? [], draft ?? known ?? [])
  setDraft(queryClient, !keepsAll && sameRules(ticked, rules) ? null : ticked)
}

/** Changes `rules` as `to` changes `from`. */
function rebase(rules: RuleIds, from: RuleIds, to: RuleIds): RuleIds {
  return union(without(rules, without(from, to)), without(to, from))
}

function union(a: RuleIds, b: RuleIds): RuleIds {
  return [...new Set([...a, ...b])]
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
    setDraft(queryClient, null)
  }
}

/** Changes the draft. The one that was kept on the way to a provider is then out of date. */
function setDraft(queryClient: QueryClient, draft: RuleIds | null): void {
  inStorage((storage) => storage.removeItem(keptKey))
  queryClient.setQueryData(draftQuery.queryKey, draft)
}

// The draft of this tab while the browser is at a provider: the person, and the rules that were ticked and unticked. The
// saved rules may change meanwhile.
const keptKey = 'dealbell-draft'

/** Keeps the draft, unless the backend does not say whose it is. */
export function keepDraft(queryClient: QueryClient): void {
  const person = shownPerson()
  const draft = queryClient.getQueryData(draftQuery.queryKey)
  if (!draft || person === undefined) return
  const saved = savedRules(queryClient)
  const kept = [person, without(draft, saved), without(saved, draft)]
  inStorage((storage) => storage.setItem(keptKey, JSON.stringify(kept)))
}

// The browser came back from the provider without an answer. This page still has the ticks.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) inStorage((storage) => storage.removeItem(keptKey))
})

export const isDraftKept = (): boolean => Boolean(inStorage((storage) => storage.getItem(keptKey)))

/**
 * Applies the kept changes to the saved rules, once. Returns undefined if there are none of this person. Who had no
 * session before the authorization is somebody after it.
 */
function takeKeptDraft(rules: RuleIds): RuleIds | undefined {
  return inStorage((storage) => {
    const text = storage.getItem(keptKey)
    storage.removeItem(keptKey)
    // Anything else throws.
    const [person, ticked, unticked] = JSON.parse(text ?? '')
    if (person !== 'nobody' && person !== shownPerson()) return undefined
    return rebase(
      rules,
      unticked,
      ticked.filter((id: string) => availableRuleIds.has(id)),
    )
  })
}

function without(a: RuleIds, b: RuleIds): RuleIds {
  return a.filter((id) => !b.includes(id))
}

/** The user may have forbidden the storage, it may be full, or it may contain anything. */
function inStorage<Result>(use: (storage: Storage) => Result): Result | undefined {
  try {
    return use(sessionStorage)
  } catch {
    return undefined
  }
}
