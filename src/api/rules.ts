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
import {
  assertSamePerson,
  currentTurn,
  isNobodyYet,
  onNextPerson,
  shownPerson,
  tellSave,
} from './person.ts'
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
  meta: { action: 'Keeping ticks', about: 'ticks' },
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
  const kept = known === undefined && !isDraftKept(queryClient) ? takeKeptDraft() : undefined
  const [from, to] = kept ? [kept.saved, union(kept.draft, draft ?? [])] : [known ?? [], draft]
  if (!to) return
  const ticked = rebase(rules, from, to)
  queryClient.setQueryData(
    draftQuery.queryKey,
    !keepsAll && sameRules(ticked, rules) ? null : ticked,
  )
  // The browser is on its way to a provider, and the person or the saved rules have changed.
  if (isDraftKept(queryClient)) keepDraft(queryClient, rules)
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
  if (isDraftKept(queryClient)) dropKeptDraft()
  queryClient.setQueryData(draftQuery.queryKey, draft)
}

// The draft of this tab while the browser is at a provider: the person, the saved rules, which may change meanwhile, and
// the draft.
const keptKey = 'dealbell-draft'
/** Which page has kept its draft, and is about to end. */
let keptBy: QueryClient | undefined

/** Keeps the draft, unless the backend does not say whose it is. */
export function keepDraft(queryClient: QueryClient, saved = savedRules(queryClient)): void {
  const person = shownPerson()
  const draft = queryClient.getQueryData(draftQuery.queryKey)
  if (!draft || person === undefined) return
  inStorage((storage) => {
    storage.setItem(keptKey, JSON.stringify([person, saved, draft]))
    keptBy = queryClient
  })
}

export const isDraftKept = (queryClient: QueryClient): boolean => keptBy === queryClient

function dropKeptDraft(): void {
  keptBy = undefined
  inStorage((storage) => storage.removeItem(keptKey))
}

// The browser came back from the provider without an answer. This page still has the ticks.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) dropKeptDraft()
})

/** Returns the kept draft and the rules that it changes, once. Undefined if there is none that belongs to this person. */
function takeKeptDraft(): Record<'saved' | 'draft', RuleIds> | undefined {
  return inStorage((storage) => {
    const text = storage.getItem(keptKey)
    storage.removeItem(keptKey)
    // Anything else throws.
    const [person, saved, draft] = JSON.parse(text ?? '')
    if (!isNobodyYet(person) && person !== shownPerson()) return undefined
    const isOffered = (id: string) => availableRuleIds.has(id) || saved.includes(id)
    return { saved: [...saved], draft: draft.filter(isOffered) }
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
