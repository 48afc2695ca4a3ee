import { createBrowserHistory, type RouterHistory } from '@tanstack/react-router'
import { act, cleanup, fireEvent, screen } from '@testing-library/react'
import { getResponse, HttpResponse, http } from 'msw'
import { expect, vi } from 'vitest'
import { server } from '../../msw/server.ts'
import {
  comeOutOfCache,
  hearFromOtherTab,
  loading,
  renderAppWith,
  setOnline,
  startBackend,
} from '../../render.tsx'
import { expectNoOwnTexts, takeLog } from '../../setup.ts'
import {
  type CallKind,
  type Failure,
  idOf,
  type Model,
  messages,
  type Provider,
  providers,
  rules,
  type Screen,
  saveCall,
} from './model.ts'

const start = new Date('2026-11-20T12:00:00Z').getTime()

/** The page and its backend. All elements are found by role and name. */
export class Page {
  #backend
  #app: ReturnType<typeof renderAppWith> | undefined
  #history: RouterHistory | undefined
  readonly #failing = new Map<CallKind, Failure>()
  #isOnline = true
  #held: PromiseWithResolvers<void> | undefined
  #codes = 0
  #persons = 0
  #read = 0
  readonly #found = new Map<string, HTMLElement>()
  /** The addresses to which Connect sent the browser. */
  readonly went: string[] = []
  #answer = false
  #asked = 0

  constructor(initial: ConstructorParameters<typeof Model>[0]) {
    vi.setSystemTime(start)
    server.resetHandlers()
    // A run may end before its rules have loaded, and with them the ticks of the page before.
    window.sessionStorage.clear()
    setOnline(true)
    this.#backend = startBackend({
      connected: new Set(initial.connected.map(idOf)),
      rules: [...initial.stored],
      person: initial.isNamed ? 'person-0' : undefined,
    })
    server.use(
      http.all('*/api/*', async ({ request }) => {
        const kind = kindOf(request)
        if (kind === 'save') await this.#held?.promise
        const failure = this.#isOnline ? kind && this.#failing.get(kind) : 'network'
        switch (failure) {
          case undefined:
            return undefined
          case 'lost':
            await getResponse(this.#backend.handlers, request)
            return HttpResponse.error()
          case 'network':
            return HttpResponse.error()
          default:
            return HttpResponse.json(
              { error: { code: 'no', message: 'no' } },
              { status: Number(failure), headers: { 'Retry-After': '3600' } },
            )
        }
      }),
    )
    vi.spyOn(window.location, 'assign').mockImplementation((address) => {
      this.went.push(String(address))
    })
    vi.spyOn(window, 'confirm').mockImplementation(() => {
      this.#asked += 1
      return this.#answer
    })
  }

  /** Loads the page at an address. Nothing of an earlier page remains, as in a browser. */
  async load(address: string): Promise<void> {
    this.close()
    window.history.replaceState(null, '', address)
    this.#history = createBrowserHistory()
    this.#app = renderAppWith(this.#history)
    await this.#idle()
  }

  close(): void {
    cleanup()
    this.#history?.destroy()
    // Until the test ends, something keeps each client (tests/render.tsx) and each text (tests/setup.ts).
    this.#app?.queryClient.clear()
    expectNoOwnTexts()
    this.#app = undefined
    this.#found.clear()
  }

  /** Ends all that is under way, so that it cannot affect the next page. */
  async end(): Promise<void> {
    await this.answerSave()
    this.close()
    takeLog()
  }

  /** Returns from the provider's consent page with a code. */
  async returnFrom(provider: Provider): Promise<string> {
    this.#codes += 1
    const code = `code-${this.#codes}`
    this.#backend.state.codes.add(code)
    await this.load(`/${idOf(provider)}/callback?code=${code}&state=state-${this.#codes}`)
    return `GET /api/${idOf(provider)}/callback?code=${code}&state=state-${this.#codes}`
  }

  setFailing(kind: CallKind, failure: Failure | undefined): void {
    if (failure === undefined) this.#failing.delete(kind)
    else this.#failing.set(kind, failure)
  }

  setConnectedElsewhere(provider: Provider, isConnected: boolean): void {
    if (isConnected) this.#backend.state.connected.add(idOf(provider))
    else this.#backend.state.connected.delete(idOf(provider))
  }

  saveElsewhere(ids: readonly string[]): void {
    this.#backend.state.rules = [...ids]
  }

  /** Another tab signs in as somebody else, and says so. */
  async becomeAnother(person: {
    connected: readonly Provider[]
    stored: readonly string[]
  }): Promise<void> {
    this.#backend.state.connected = new Set(person.connected.map(idOf))
    this.#backend.state.rules = [...person.stored]
    this.#persons += 1
    const name = this.#backend.state.person && `person-${this.#persons}`
    this.#backend.state.person = name
    await this.#idle(() => hearFromOtherTab(name ?? null))
    // The answer to a save of the former page.
    await this.answerSave()
  }

  async setOnline(isOnline: boolean): Promise<void> {
    this.#isOnline = isOnline
    setOnline(isOnline)
    await this.#idle()
  }

  async comeOutOfCache(): Promise<void> {
    await this.#idle(comeOutOfCache)
  }

  async lookAgain(): Promise<void> {
    act(() => {
      document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
    })
    await this.#idle()
  }

  /** Clicks `times` times in one task. */
  async click(role: 'button' | 'checkbox' | 'link', name: string, times = 1): Promise<void> {
    const element = this.#find(role, name)
    act(() => {
      for (let time = 1; time <= times; time++) fireEvent.click(element, { detail: time })
    })
    await this.#idle()
  }

  /** The second click of a double click, after the answer has arrived. */
  async clickLate(provider: Provider): Promise<void> {
    const element = screen.getByRole('button', {
      name: new RegExp(`^(Connect|Disconnect) ${provider}$`),
      hidden: true,
    })
    act(() => {
      fireEvent.click(element, { detail: 2 })
    })
    await this.#idle()
  }

  holdSave(): void {
    this.#held = Promise.withResolvers()
  }

  async answerSave(): Promise<void> {
    this.#held?.resolve()
    this.#held = undefined
    await this.#idle()
  }

  async leave(to: Screen, goes: boolean): Promise<void> {
    this.#answer = goes
    act(() => {
      // This promise never ends when the user stays.
      void this.#app?.router.navigate({ to: `/${to}` })
    })
    await this.#idle()
  }

  /** Compares the page, and everything sent and logged since the last step, with the model. */
  expectToBe(model: Model): void {
    const sent = this.#backend.requests.slice(this.#read)
    this.#read = this.#backend.requests.length
    const calls = sent.map(({ method, target, body }) =>
      method === 'POST' ? saveCall(JSON.parse(body).rules) : `${method} ${target}`,
    )
    for (const call of model.mayCall) {
      const expected = model.calls.filter((other) => other === call).length
      if (calls.filter((other) => other === call).length > expected) model.calls.push(call)
    }
    expect(calls.toSorted(), 'calls').toEqual(model.calls.toSorted())
    model.calls = []
    model.mayCall = []

    const logged = takeLog().map((line) => line.split(' failed: ')[0])
    expect(logged.toSorted(), 'log').toEqual(model.log.toSorted())
    model.log = []

    expect(this.went, 'where the browser was sent').toEqual([])
    expect(this.#asked, 'questions before leaving').toBe(model.asks ? 1 : 0)
    this.#asked = 0
    model.asks = false
    const unload = new Event('beforeunload', { cancelable: true })
    window.dispatchEvent(unload)
    // Only the dashboard asks. Elsewhere, a draft is left only of a save that the user has begun.
    expect(unload.defaultPrevented, 'the browser asks on unload').toBe(
      model.screen === 'dashboard' && model.changes.size > 0,
    )

    expect(this.#backend.state.rules.toSorted(), 'stored').toEqual(model.stored.toSorted())

    const text = document.body.textContent ?? ''
    const shows = (phrase: string) => text.includes(phrase)
    const shown = Object.entries(messages).filter(([, message]) => shows(message))
    expect(
      shown.map(([name]) => name),
      'message',
    ).toEqual(model.message === undefined || model.screen !== 'dashboard' ? [] : [model.message])
    // A backend of §7 has no list of messages.
    expect(shows('Something went wrong')).toBe(model.screen === 'activity')
    expect(shows('Service Unavailable')).toBe(false)

    const isDashboard = model.screen === 'dashboard'
    expect(window.location.pathname).toBe(isDashboard ? '/' : `/${model.screen}`)
    if (!isDashboard) return

    expect(shows('Loading'), 'still loading').toBe(false)
    expect(shows('Connections required')).toBe(!model.canSave)
    expect(shows('No notification rules defined')).toBe(model.selected.length === 0)
    for (const provider of providers) {
      const word = model.isSeenConnected(provider) ? 'Disconnect' : 'Connect'
      expect(this.#find('button', `${word} ${provider}`)).toHaveTextContent(word)
    }
    const ticked = rules.filter(({ label }) => this.#box(label).checked)
    expect(
      ticked.map(({ id }) => id),
      'ticks',
    ).toEqual(rules.map(({ id }) => id).filter((id) => model.selected.includes(id)))
    for (const { label, available } of rules) expect(this.#box(label).disabled).toBe(!available)
    const isSaving = model.saving !== undefined
    const save = this.#find('button', isSaving ? 'Saving…' : 'Save')
    expect((save as HTMLButtonElement).disabled, 'Save is disabled').toBe(isSaving)
  }

  #box(label: string): HTMLInputElement {
    return this.#find('checkbox', label) as HTMLInputElement
  }

  /** Finds by role and name. A search is slow, so an element is reused while it keeps its name. */
  #find(role: string, name: string): HTMLElement {
    const known = this.#found.get(`${role} ${name}`)
    if (known?.isConnected && nameOf(known) === name) return known
    const element = screen.getByRole(role, { name, hidden: true })
    if (nameOf(element) === name) this.#found.set(`${role} ${name}`, element)
    return element
  }

  /** Does something first. Then waits until everything has arrived and rendered, apart from a held answer. */
  async #idle(first?: () => Promise<void> | void): Promise<void> {
    const app = this.#app
    if (!app) return
    const { times } = loading
    const isIdle = () =>
      !loading.isUnderWay &&
      app.queryClient.isFetching() === 0 &&
      // During a held save, disconnects wait.
      (this.#held !== undefined || app.queryClient.isMutating() === 0) &&
      app.router.state.status === 'idle' &&
      !window.location.pathname.endsWith('/callback')
    await act(async () => {
      await first?.()
      for (let idleTurns = 0, turn = 0; idleTurns < 4 && turn < 5000; turn++) {
        await new Promise((resolve) => setImmediate(resolve))
        idleTurns = isIdle() ? idleTurns + 1 : 0
      }
    })
    // What was rendered meanwhile is mounted only now.
    if (times !== loading.times) await this.#idle()
  }
}

/** The accessible name: the label's text, the aria-label, or the element's own text. */
const nameOf = (element: HTMLElement) =>
  (element as HTMLInputElement).labels?.[0]?.textContent ??
  element.getAttribute('aria-label') ??
  element.textContent

/** Undefined for the callback, which never fails in this test. */
function kindOf({ method, url }: Request): CallKind | undefined {
  if (method === 'POST') return 'save'
  if (method === 'DELETE') return 'disconnect'
  if (url.endsWith('/status')) return 'status'
  return url.endsWith('/rules') ? 'rules' : undefined
}
