import { type QueryClient, queryOptions, skipToken, useQuery } from '@tanstack/react-query'
import { boolean, parseJson, pipe, record, safeParse, string, tuple } from 'valibot'
import { availableRuleIds } from '../../contract/rules.ts'
import { draftKey } from './keys.ts'

/** Rule ids. A newer client may have stored ids that this client does not offer. */
export type RuleIds = readonly string[]

/** The rules that the user has ticked (true) or unticked since the last save. */
export type Changes = Readonly<Record<string, boolean>>

const none: Changes = {}

// It is in the cache so that a remount does not lose it.
const draftQuery = queryOptions({
  queryKey: draftKey,
  queryFn: skipToken,
  initialData: none,
  staleTime: Infinity,
  gcTime: Infinity,
  meta: { action: 'Keeping ticks' },
})

export const draftOf = (queryClient: QueryClient): Changes =>
  queryClient.getQueryData(draftQuery.queryKey) ?? none

export const useDraft = (): Changes => useQuery(draftQuery).data ?? none

/** The saved rules with the changes. */
export function changed(saved: RuleIds, changes: Changes): RuleIds {
  const ticked = Object.keys(changes).filter((id) => changes[id])
  return [...new Set([...saved, ...ticked])].filter((id) => changes[id] !== false)
}

/** Replaces the draft. The one that was kept on the way to a provider is then out of date. */
export function setDraft(queryClient: QueryClient, changes: Changes): void {
  if (isDraftKept(queryClient)) dropKeptDraft()
  queryClient.setQueryData(draftQuery.queryKey, changes)
}

/** Drops the changes that the saved rules contain already. */
export function dropSavedChanges(queryClient: QueryClient, saved: RuleIds): void {
  const changes = Object.entries(draftOf(queryClient))
  const unsaved = changes.filter(([id, isTicked]) => saved.includes(id) !== isTicked)
  if (unsaved.length < changes.length) setDraft(queryClient, Object.fromEntries(unsaved))
}

// The draft of this tab while the browser is at a provider or loads the page again, and its person.
const keptKey = 'dealbell-draft'
const keptAnswer = pipe(string(), parseJson(), tuple([string(), record(string(), boolean())]))
/** Which page has kept its draft, and is about to end. */
let keptBy: QueryClient | undefined

/** Keeps the draft, unless the backend does not say whose it is. */
export function keepDraft(queryClient: QueryClient, person: string | undefined): void {
  const changes = draftOf(queryClient)
  if (Object.keys(changes).length === 0 || person === undefined) return
  try {
    sessionStorage.setItem(keptKey, JSON.stringify([person, changes]))
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

/** Adds the draft that a page before this one has kept, once, if it belongs to this person. */
export function restoreDraft(queryClient: QueryClient, shown: string | undefined): void {
  if (isDraftKept(queryClient)) return
  const { success, output } = safeParse(keptAnswer, takeStored())
  if (!success) return
  const [person, changes] = output
  // Without a session, or with one that waits for the CRM's answer, somebody is nobody yet. What they tick belongs to
  // whoever this browser becomes.
  if (!person.startsWith('nobody') && person !== shown) return
  const offered = Object.entries(changes).filter(([id]) => availableRuleIds.has(id))
  setDraft(queryClient, { ...Object.fromEntries(offered), ...draftOf(queryClient) })
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
