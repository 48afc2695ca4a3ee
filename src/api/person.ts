import { focusManager, type QueryClient } from '@tanstack/react-query'
import { personHeader } from '../../contract/endpoints.ts'
import { ApiError } from './errors.ts'
import {
  draftKey,
  forgetFailures,
  personKey,
  reloadStatuses,
  resetFeatures,
  rulesKey,
  statusKey,
} from './keys.ts'
import { createStore } from './store.ts'

/**
 * Everything on a page is about one person. The person can change at any time: a callback or a sign-out in
 * this tab, in another one, or while the browser kept this page frozen. A backend may name the person in
 * its answers. A backend of §7 does not; then only the tabs tell each other
 * (docs/decisions.md, 505).
 */

const page = createStore({
  /** The name of the person whose data the page shows. Undefined if no answer has named one. */
  person: undefined as string | undefined,
  /** Grows whenever everything is forgotten. What began before the last time is of the former person. */
  turn: 0,
  /** Whether the person's session has ended without a sign-out on this page. */
  hasEnded: false,
})
/** The client with the data of the page. */
let queryClient: QueryClient

export const currentTurn = (): number => page.get().turn

export const shownPerson = (): string | undefined => page.get().person

/**
 * Whether it is not known yet who somebody is: there is no session, or only one that waits for the CRM's answer. What
 * they tick belongs to whoever this browser becomes.
 */
export const isNobodyYet = (person: string | undefined): boolean =>
  person?.startsWith('nobody') === true

export const usePerson = (): string | undefined => page.use(({ person }) => person)

export const useHasSessionEnded = (): boolean => page.use(({ hasEnded }) => hasEnded)

/** @throws ApiError of the kind `former` if everything was forgotten since this turn. */
export function assertSamePerson(begun: number): void {
  if (begun !== currentTurn()) throw new ApiError('former')
}

/** The name of the person in an answer. Undefined if the answer does not say. */
export function personIn(response: Response): string | undefined {
  return response.headers.get(personHeader) ?? undefined
}

/** The header of a call that changes something. The backend refuses it for another person. */
export function shownPersonHeader(): Record<string, string> {
  const person = shownPerson()
  return person === undefined ? {} : { [personHeader]: person }
}

/**
 * Compares the person whom an answer names with the one on the page. If it is another one, forgets
 * everything and loads it again.
 */
export function noticePerson(named: string | undefined): void {
  if (named === undefined || named === shownPerson()) return
  if (shownPerson() === undefined) page.set({ ...page.get(), person: named })
  else forgetPerson(named, named === 'nobody')
}

/**
 * After a callback or a sign-out: what it may have changed for the same person is loaded again. Another person begins
 * with nothing. If nobody knows who it is, the backend is asked, and one that names nobody counts as another person.
 */
async function hearPerson(named: string | undefined): Promise<void> {
  const person = shownPerson()
  if (person !== undefined && (named === undefined || named === person)) {
    // An answer to another call may have come before that of the sign-out.
    page.set({ ...page.get(), hasEnded: false })
    void resetFeatures(queryClient)
    await reloadStatuses(queryClient)
  } else forgetPerson(named)
}

/** Makes a call that may change the person, and tells all tabs of it. */
export async function changePerson(change: () => Promise<string | undefined>): Promise<void> {
  try {
    const named = await change()
    void hearPerson(named)
    tellOtherTabs(named)
  } catch (error) {
    // Without the backend's own answer, nobody knows whether it has changed the session. What it says now belongs to
    // the result of this call.
    if (!(error instanceof ApiError && error.isRefusal)) {
      tellOtherTabs(undefined)
      await hearPerson(undefined)
    }
    throw error
  }
}

/** Forgets everything of the person on the page, and loads it again for the one who is named. */
function forgetPerson(person: string | undefined, hasEnded = false): void {
  const keepsTicks = isNobodyYet(shownPerson()) && person !== 'nobody'
  // The boot script may have started calls that the app has not made yet.
  globalThis.startedCalls?.clear()
  page.set({ person, hasEnded, turn: currentTurn() + 1 })
  // This also drops the answers that are on their way.
  if (!keepsTicks) void queryClient.resetQueries({ queryKey: draftKey })
  void queryClient.resetQueries({ queryKey: personKey })
  forgetFailures(queryClient)
}

/** Calls a function after each end of a turn. @returns a function that ends this. */
export function onNextPerson(listener: () => void): () => void {
  let last = currentTurn()
  return page.subscribe(() => {
    if (last === currentTurn()) return
    last = currentTurn()
    listener()
  })
}

/** Begins a page of which nothing is known, and listens to the other tabs. */
export function beginPage(client: QueryClient): void {
  queryClient = client
  page.set({ person: undefined, hasEnded: false, turn: currentTurn() + 1 })
  listen()
}

/**
 * The person may have changed while the tab was hidden. Query loads the statuses on screen again. A screen without calls
 * notices the change when the next screen loads a status.
 */
export const watchFocus = () =>
  focusManager.subscribe(() => {
    if (shownPerson() === undefined) return
    void queryClient.invalidateQueries({ queryKey: statusKey, refetchType: 'none' })
  })

/** Tells the other tabs of this browser that the person may have changed, and who it is if that is known. */
function tellOtherTabs(named: string | undefined): void {
  globalThis.personChannel?.postMessage(named ?? null)
}

/** Tells the other tabs that this person has saved rules. With a backend of §7, they could show another person. */
export function tellSave(): void {
  const saved = shownPerson()
  if (saved !== undefined) globalThis.personChannel?.postMessage({ saved })
}

/** Another tab has saved rules, or may have. */
function reloadRules(): void {
  void queryClient.invalidateQueries({ queryKey: rulesKey })
}

function listen(): void {
  try {
    // The boot script has opened it, unless the page comes out of the back-forward cache.
    globalThis.personChannel ??= new BroadcastChannel('dealbell-person')
  } catch {
    // A browser that has none, or refuses it, learns about a change when the tab is shown.
    return
  }
  globalThis.personChannel.onmessage = ({ data }) => {
    if (data?.saved === undefined) void hearPerson(typeof data === 'string' ? data : undefined)
    else if (data.saved === shownPerson()) reloadRules()
  }
}

// An open channel can keep a page out of the browser's back-forward cache.
window.addEventListener('pagehide', () => {
  globalThis.personChannel?.close()
  globalThis.personChannel = undefined
})
window.addEventListener('pageshow', ({ persisted }) => {
  if (!persisted) return
  listen()
  // What the other tabs said meanwhile is lost.
  void hearPerson(undefined)
  reloadRules()
})
