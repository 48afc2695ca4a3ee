import { focusManager, type QueryClient } from '@tanstack/react-query'
import { personHeader } from '../../contract/endpoints.ts'
import { isDraftKept, keepDraft, setDraft } from './draft.ts'
import { ApiError } from './errors.ts'
import { endSessionKey, personKey, rulesKey, statusKey } from './keys.ts'
import { createStore, resetStores } from './store.ts'

/**
 * A page is about one person. The person can change at any time: a callback or a sign-out in this tab, in another one,
 * or while the browser kept this page frozen. Then the page loads itself again. A backend may name the person in its
 * answers. A backend of §7 does not; then only the tabs tell each other (docs/decisions.md, 505).
 */

/** What a page that ends leaves to the next one to say. */
export type Notice = 'session ended' | 'signed out' | 'not saved' | ''

const page = createStore({
  /** The name of the person whose data the page shows. Undefined if no answer has named one. */
  person: undefined as string | undefined,
  notice: '',
})
/** The client with the data of the page. */
let queryClient: QueryClient
/** An answer may load the page again once, until the user clicks or looks: a backend may name two persons in turn. */
let mayReload = true
window.addEventListener('click', () => {
  mayReload = true
})

export const shownPerson = (): string | undefined => page.get().person

export const usePerson = (): string | undefined => page.use(({ person }) => person)

export const useHasNotice = (notice: Notice): boolean => page.use((now) => now.notice === notice)

export function dropNotice(notice: Notice): void {
  if (page.get().notice === notice) page.set({ ...page.get(), notice: '' })
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

/** Loads the page again if an answer names another person than the one on it. Then the promise never ends. */
export async function noticePerson(named: string | undefined, failure?: Notice): Promise<void> {
  if (named === undefined || named === shownPerson()) return
  if (shownPerson() === undefined) page.set({ ...page.get(), person: named })
  else if (mayReload) {
    // The answer to a sign-out may be late or lost.
    const signOut = queryClient.getMutationCache().find({ mutationKey: endSessionKey })
    const ending = signOut ? 'signed out' : 'session ended'
    await beginAgain(named, failure ?? (named === 'nobody' ? ending : ''))
  }
}

/** Makes a call that may change the person, and tells the other tabs who it is: null if nobody knows. */
export async function changePerson(change: () => Promise<string | undefined>, notice?: Notice) {
  try {
    const named = await change()
    globalThis.personChannel?.postMessage(named ?? null)
    await beginAgain(named, notice)
  } catch (error) {
    // Without the backend's own answer, nobody knows whether it has changed the session. What it says now belongs to
    // the result of this call.
    if (!(error instanceof ApiError && error.isRefusal)) {
      globalThis.personChannel?.postMessage(null)
      await queryClient.invalidateQueries({ queryKey: personKey })
    }
    throw error
  }
}

const noticeKey = 'dealbell-notice'
/** What a page says whose session has ended by itself. */
const ended: ReadonlySet<Notice> = new Set(['session ended', 'not saved'])

/** Loads the page again, unless it has nothing of a person. The ticks stay, unless the next person is another one. */
async function beginAgain(named: string | undefined, notice: Notice = ''): Promise<void> {
  if (queryClient.getQueryCache().find({ queryKey: personKey, exact: false }) === undefined) {
    page.set({ person: named, notice })
    return
  }
  // A session that has ended may come back. A sign-out in any tab is the end.
  if (named !== 'nobody' || ended.has(notice)) keepDraft(shownPerson())
  // Otherwise the browser asks before it loads the page.
  if (!isDraftKept()) setDraft({})
  try {
    sessionStorage.setItem(noticeKey, notice)
  } catch {
    // The user has forbidden the storage, or it is full.
  }
  // Another answer has nothing to add.
  mayReload = false
  window.location.reload()
  await new Promise(() => {})
}

/** Loads the page again with its ticks, for the same person as far as anybody knows. */
export function loadAgain(): void {
  keepDraft(shownPerson())
  window.location.reload()
}

/** Begins a page of which nothing is known, and listens to the other tabs. */
export function beginPage(client: QueryClient): void {
  queryClient = client
  resetStores()
  focusManager.setFocused(undefined)
  let notice: string | null = ''
  try {
    notice = sessionStorage.getItem(noticeKey)
    sessionStorage.removeItem(noticeKey)
  } catch {
    // Then nobody knows whether the page was loaded again.
  }
  mayReload = notice === null
  page.set({ person: undefined, notice: notice ?? '' })
  listen()
}

/**
 * The person may have changed while the tab was hidden. Query loads the statuses on screen again. A screen without calls
 * notices the change when the next screen loads a status.
 */
export const watchFocus = () =>
  focusManager.subscribe(() => {
    mayReload = true
    if (shownPerson() === undefined) return
    void queryClient.invalidateQueries({ queryKey: statusKey, refetchType: 'none' })
  })

/** Tells the other tabs that this person has saved rules. With a backend of §7, they could show another person. */
export function tellSave(): void {
  const saved = shownPerson()
  if (saved !== undefined) globalThis.personChannel?.postMessage({ saved })
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
    if (data?.saved === undefined) void beginAgain(typeof data === 'string' ? data : undefined)
    else if (data.saved === shownPerson())
      void queryClient.invalidateQueries({ queryKey: rulesKey })
  }
}

// An open channel can keep a page out of the browser's back-forward cache.
window.addEventListener('pagehide', () => {
  // Query would load the statuses of a page that comes back, and then the page loads itself again.
  focusManager.setFocused(false)
  globalThis.personChannel?.close()
  globalThis.personChannel = undefined
})
window.addEventListener('pageshow', ({ persisted }) => {
  if (!persisted) return
  listen()
  // What the other tabs said meanwhile is lost.
  void beginAgain(undefined).then(() => focusManager.setFocused(undefined))
})
