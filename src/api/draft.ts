import { boolean, parseJson, pipe, record, safeParse, string, tuple } from 'valibot'
import { availableRuleIds } from '../../contract/rules.ts'
import { createStore } from './store.ts'

/** Rule ids. A newer client may have stored ids that this client does not offer. */
export type RuleIds = readonly string[]

/** The rules that the user has ticked (true) or unticked since the last save. */
export type Changes = Readonly<Record<string, boolean>>

/**
 * The user is unknown: there is no session, it waits for the CRM's answer, or the backend names nobody. The ticks of an
 * unknown user belong to the next user of this browser.
 */
const nobody = 'nobody'

const draft = createStore({
  changes: {} as Changes,
  /** Whose draft an earlier page has kept. Their session may have ended since. */
  owner: nobody,
  /** Whether this page has kept its draft, and is about to end. */
  isKept: false,
})

export const currentDraft = (): Changes => draft.get().changes

export const useDraft = (): Changes => draft.use(({ changes }) => changes)

/** The saved rules with the changes. */
export function changed(saved: RuleIds, changes: Changes): RuleIds {
  const ticked = Object.keys(changes).filter((id) => changes[id])
  return [...new Set([...saved, ...ticked])].filter((id) => changes[id] !== false)
}

/** Replaces the draft. The one that was kept on the way to a provider is then out of date. */
export function setDraft(changes: Changes): void {
  const { isKept, owner } = draft.get()
  if (isKept) takeStored()
  const isEmpty = Object.keys(changes).length === 0
  draft.set({ changes, owner: isEmpty ? nobody : owner, isKept: false })
}

/** Drops the changes that the saved rules contain already. */
export function dropSavedChanges(saved: RuleIds): void {
  const changes = Object.entries(currentDraft())
  const unsaved = changes.filter(([id, isTicked]) => saved.includes(id) !== isTicked)
  if (unsaved.length < changes.length) setDraft(Object.fromEntries(unsaved))
}

// The draft of this tab while the browser is at a provider or loads the page again, and its person.
const keptKey = 'dealbell-draft'
const keptAnswer = pipe(string(), parseJson(), tuple([string(), record(string(), boolean())]))

export function keepDraft(person = nobody): void {
  const { changes, owner } = draft.get()
  if (Object.keys(changes).length === 0) return
  try {
    sessionStorage.setItem(keptKey, JSON.stringify([owner === nobody ? person : owner, changes]))
    draft.set({ changes, owner, isKept: true })
  } catch {
    // The user has forbidden the storage, or it is full. Then the browser asks before it leaves.
  }
}

export const isDraftKept = (): boolean => draft.get().isKept

/** Adds the draft that a page before this one has kept, once, unless it belongs to somebody else. */
export function restoreDraft(shown = nobody): void {
  if (isDraftKept()) return
  const { success, output } = safeParse(keptAnswer, takeStored())
  if (!success) return
  const [person, changes] = output
  const isKnown = !person.startsWith(nobody)
  if (isKnown && !shown.startsWith(nobody) && person !== shown) return
  const offered = Object.entries(changes).filter(([id]) => availableRuleIds.has(id))
  setDraft({ ...Object.fromEntries(offered), ...currentDraft() })
  if (isKnown) draft.set({ ...draft.get(), owner: person })
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
