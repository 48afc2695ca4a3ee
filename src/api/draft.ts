import { type QueryClient, queryOptions, skipToken } from '@tanstack/react-query'
import { array, parseJson, pipe, safeParse, string, tuple } from 'valibot'
import { availableRuleIds } from '../../contract/rules.ts'
import { draftKey, rulesKey } from './keys.ts'
import { isNobodyYet, shownPerson } from './person.ts'

/** Rule ids. A newer client may have stored ids that this client does not offer. */
export type RuleIds = readonly string[]

// The selection if it differs from the server's rules, otherwise null. It is in the cache so that a
// remount does not lose it.
export const draftQuery = queryOptions({
  queryKey: draftKey,
  queryFn: skipToken,
  initialData: null as RuleIds | null,
  staleTime: Infinity,
  gcTime: Infinity,
  meta: { action: 'Keeping ticks' },
})

const draftOf = (queryClient: QueryClient) => queryClient.getQueryData(draftQuery.queryKey)

const knownRules = (queryClient: QueryClient) =>
  queryClient.getQueryData<{ rules: RuleIds }>(rulesKey)?.rules

export const savedRules = (queryClient: QueryClient): RuleIds => knownRules(queryClient) ?? []

/** The draft, or without a draft the server's rules (none until loaded, §4). */
export const selectionOf = (queryClient: QueryClient): RuleIds =>
  draftOf(queryClient) ?? savedRules(queryClient)

/** Changes the draft. The one that was kept on the way to a provider is then out of date. */
export function setDraft(queryClient: QueryClient, draft: RuleIds | null): void {
  if (isDraftKept(queryClient)) dropKeptDraft()
  queryClient.setQueryData(draftQuery.queryKey, draft)
}

/** Drops the draft if it equals the server's rules. */
export function dropSavedDraft(queryClient: QueryClient): void {
  const draft = draftOf(queryClient)
  if (draft && sameRules(draft, savedRules(queryClient))) setDraft(queryClient, null)
}

/**
 * Applies to the rules that were just loaded what the draft ticks and unticks: while the rules were unknown, before the
 * browser went to a provider, or before another tab saved.
 * @param keepsAll keeps the draft even if it equals these rules
 */
export function keepTicks(queryClient: QueryClient, rules: RuleIds, keepsAll: boolean): void {
  const known = knownRules(queryClient)
  const draft = draftOf(queryClient)
  const kept = known === undefined && !isDraftKept(queryClient) ? takeKeptDraft() : undefined
  const [from, to] = kept ? [kept.saved, union(kept.draft, draft ?? [])] : [known ?? [], draft]
  if (!to) return
  const ticked = union(without(rules, without(from, to)), without(to, from))
  queryClient.setQueryData(
    draftQuery.queryKey,
    !keepsAll && sameRules(ticked, rules) ? null : ticked,
  )
  // The browser is on its way to a provider, and the person or the saved rules have changed.
  if (isDraftKept(queryClient)) keepDraft(queryClient, rules)
}

// The draft of this tab while the browser is at a provider: the person, the saved rules, which may change meanwhile, and
// the draft.
const keptKey = 'dealbell-draft'
const keptAnswer = pipe(string(), parseJson(), tuple([string(), array(string()), array(string())]))
/** Which page has kept its draft, and is about to end. */
let keptBy: QueryClient | undefined

/** Keeps the draft, unless the backend does not say whose it is. */
export function keepDraft(queryClient: QueryClient, saved = savedRules(queryClient)): void {
  const person = shownPerson()
  const draft = draftOf(queryClient)
  if (!draft || person === undefined) return
  try {
    sessionStorage.setItem(keptKey, JSON.stringify([person, saved, draft]))
    keptBy = queryClient
  } catch {
    // The user has forbidden the storage, or it is full. Then the browser asks before it leaves.
  }
}

export const isDraftKept = (queryClient: QueryClient): boolean => keptBy === queryClient

function dropKeptDraft(): void {
  keptBy = undefined
  takeStored()
}

// The browser came back from the provider without an answer. This page still has the ticks.
window.addEventListener('pageshow', ({ persisted }) => {
  if (persisted) dropKeptDraft()
})

/** Returns the kept draft and the rules that it changes, once. Undefined if there is none that belongs to this person. */
function takeKeptDraft(): Record<'saved' | 'draft', RuleIds> | undefined {
  const { success, output } = safeParse(keptAnswer, takeStored())
  if (!success) return undefined
  const [person, saved, draft] = output
  if (!isNobodyYet(person) && person !== shownPerson()) return undefined
  const isOffered = (id: string) => availableRuleIds.has(id) || saved.includes(id)
  return { saved, draft: draft.filter(isOffered) }
}

/** Returns what is stored, once. Null if there is nothing, or if the user has forbidden the storage. */
function takeStored(): string | null {
  try {
    const text = sessionStorage.getItem(keptKey)
    sessionStorage.removeItem(keptKey)
    return text
  } catch {
    return null
  }
}

/** Whether two selections contain the same rules, in any order. */
export function sameRules(a: RuleIds, b: RuleIds): boolean {
  return a.length === b.length && a.every((id) => b.includes(id))
}

export const union = (a: RuleIds, b: RuleIds): RuleIds => [...new Set([...a, ...b])]

const without = (a: RuleIds, b: RuleIds): RuleIds => a.filter((id) => !b.includes(id))
