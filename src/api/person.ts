import { personHeader } from '../../contract/endpoints.ts'
import { ApiError } from './errors.ts'

/**
 * Everything on a page is about one person. The person can change at any time: a callback or a sign-out in
 * this tab, in another one, or while the browser kept this page frozen. A backend may name the person in
 * its answers. A backend of §7 does not; then only the tabs tell each other
 * (docs/decisions/0505-a-page-belongs-to-one-person.md).
 */

/** The name of the person whose data the page shows. Undefined if no answer has named one. */
let shown: string | undefined

/** Grows whenever everything is forgotten. What began before the last time is of the former person. */
let turn = 0

/** Whether the person's session has ended without a sign-out on this page. */
let hasEnded = false

const listeners = new Set<() => void>()
/** What `beginPage` was given, before anything else is called. */
let page: Page

interface Page {
  /** Forgets all data, perhaps without the unsaved ticks, and loads again what is on screen. */
  forget: (options: { keepsTicks: boolean }) => void
  /** Loads again what a callback may have changed for the same person. */
  reload: () => void
  /** Loads the rules again, because another tab of the same person has saved some. */
  reloadRules: () => void
}

export const currentTurn = (): number => turn

export const shownPerson = (): string | undefined => shown

/**
 * Whether it is not known yet who somebody is: there is no session, or only one that waits for the CRM's answer. What
 * they tick belongs to whoever this browser becomes.
 */
export const isNobodyYet = (person: string | undefined): boolean =>
  person?.startsWith('nobody') === true

export const hasSessionEnded = (): boolean => hasEnded

/** @throws ApiError of the kind `former` if everything was forgotten since this turn. */
export function assertSamePerson(begun: number): void {
  if (begun !== turn) throw new ApiError('former')
}

/** The name of the person in an answer. Undefined if the answer does not say. */
export function personIn(response: Response): string | undefined {
  return response.headers.get(personHeader) ?? undefined
}

/** The header of a call that changes something. The backend refuses it for another person. */
export function shownPersonHeader(): Record<string, string> {
  return shown === undefined ? {} : { [personHeader]: shown }
}

/**
 * Compares the person whom an answer names with the one on the page. If it is another one, forgets
 * everything and loads it again.
 */
export function noticePerson(named: string | undefined): void {
  if (named === undefined || named === shown) return
  if (shown === undefined) shown = named
  else forgetPerson(named, named === 'nobody')
}

/**
 * After a callback or a sign-out: what it may have changed for the same person is loaded again. Another
 * person, or one whom the backend does not name, begins with nothing.
 */
function hearPerson(named: string | undefined): void {
  // An answer to another call may have come before that of the sign-out.
  hasEnded = false
  if (named !== undefined && named === shown) page.reload()
  else forgetPerson(named)
}

/** Makes a call that may change the person, and tells all tabs of it. */
export async function changePerson(change: () => Promise<string | undefined>): Promise<void> {
  try {
    hearPerson(await change())
    tellOtherTabs()
  } catch (error) {
    // Without the backend's own answer, nobody knows whether it has changed the session.
    if (!(error instanceof ApiError && (error.status ?? 500) < 500)) {
      forgetPerson(undefined)
      tellOtherTabs()
    }
    throw error
  }
}

/** Forgets everything of the person on the page, and loads it again for the one who is named. */
function forgetPerson(named: string | undefined, isEnd = false): void {
  const keepsTicks = isNobodyYet(shown) && named !== 'nobody'
  shown = named
  hasEnded = isEnd
  turn += 1
  // The boot script may have started calls that the app has not made yet.
  globalThis.endStartedCalls?.()
  for (const listener of listeners) listener()
  page.forget({ keepsTicks })
}

/** Calls a function after each end of a turn. @returns a function that ends this. */
export function onNextPerson(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Begins a page of which nothing is known, and listens to the other tabs. */
export function beginPage(begun: Page): void {
  shown = undefined
  hasEnded = false
  turn += 1
  page = begun
  listen()
}

/** Tells the other tabs of this browser that the person may have changed, and who it is if that is known. */
function tellOtherTabs(): void {
  globalThis.personChannel?.postMessage(shown ?? null)
}

/** Tells the other tabs that this person has saved rules. With a backend of §7, they could show another person. */
export function tellSave(): void {
  if (shown !== undefined) globalThis.personChannel?.postMessage({ saved: shown })
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
    if (data?.saved === undefined) hearPerson(typeof data === 'string' ? data : undefined)
    else if (data.saved === shown) page.reloadRules()
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
  if (shown === undefined) forgetPerson(undefined)
  else page.reload()
})
