import { availableRuleIds, ruleCatalogue } from '../../../contract/rules.ts'

export const providers = ['HubSpot', 'Slack'] as const
export type Provider = (typeof providers)[number]
export const idOf = (provider: Provider) => provider.toLowerCase()

export const rules = ruleCatalogue.flatMap((category) =>
  category.rules.map(({ id, when }) => ({
    id: id as string,
    label: `Notify me when ${when}`,
    available: category.available as boolean,
  })),
)

export type CallKind = 'save' | 'disconnect' | 'status' | 'rules'
/** How a call fails. 'lost': the backend stores the rules, but its answer never arrives. */
export type Failure = '500' | '503' | '404' | 'network' | 'lost'

/** Whether a read that failed is repeated. */
type Retry = 'once' | 'maybe' | 'never'

export const messages = {
  saved: '✅ Rules saved successfully!',
  failed: '❌ Failed to save rules, try again.',
  refused: '❌ Please connect both HubSpot and Slack before saving rules.',
} as const

/** The page and the backend, as someone who knows the specification expects them. */
export class Model {
  // The backend.
  readonly connected: Set<Provider>
  stored: readonly string[]
  readonly failing = new Map<CallKind, Failure>()

  // The page.
  screen: 'dashboard' | 'contact' = 'dashboard'
  online = true
  /** The last answer of each status, and whether opening the dashboard fetches it again. */
  seen = new Map<Provider, { connected: boolean; isOld: boolean }>()
  /** The rules that were loaded or saved last; undefined until one of both succeeds. */
  saved: readonly string[] | undefined
  /** The selection, if the user has changed it. */
  draft: readonly string[] | undefined
  /** The rules of a save without an answer so far. */
  saving: readonly string[] | undefined
  message: keyof typeof messages | undefined
  /** The disconnects that wait for the end of a save. */
  waiting: Provider[] = []
  /** While a call waits, Query loads what a focus or a reconnect asks for after it. No model has that order. */
  isRefreshHeld = false

  /** What the current step must send and log, in any order. */
  calls: string[] = []
  /** What it may send in addition. */
  mayCall: string[] = []
  log: string[] = []
  /** Whether the current step must ask before the page is left. */
  asks = false

  constructor(initial: { connected: readonly Provider[]; stored: readonly string[] }) {
    this.connected = new Set(initial.connected)
    this.stored = initial.stored
  }

  get selected(): readonly string[] {
    return this.draft ?? this.saved ?? []
  }

  get canSave(): boolean {
    return providers.every((provider) => this.isSeenConnected(provider))
  }

  isSeenConnected(provider: Provider): boolean {
    return this.seen.get(provider)?.connected === true
  }

  failure(kind: CallKind): Failure | undefined {
    return this.online ? this.failing.get(kind) : 'network'
  }

  /** A newly loaded page fetches everything. */
  load(): void {
    this.screen = 'dashboard'
    this.seen = new Map()
    this.saved = undefined
    this.areRulesOld = false
    this.draft = undefined
    this.message = undefined
    this.calls.push('GET /health')
    this.openDashboard()
  }

  /** Fetches what is unknown or too old. */
  openDashboard(): void {
    this.screen = 'dashboard'
    this.message = undefined
    for (const provider of providers) {
      if (this.seen.get(provider)?.isOld !== false) this.askStatus(provider, 'maybe')
    }
    if (this.areRulesOld) this.loadRules('maybe')
    else this.loadUnknownRules('maybe')
  }

  /** Unknown rules are loaded. What was ticked meanwhile is added to them. */
  loadUnknownRules(retry: Retry): void {
    if (this.saved === undefined) this.loadRules(retry)
  }

  loadRules(retry: Retry): void {
    if (!this.ask('rules', '/api/notifications/rules', 'Loading rules', retry)) return
    const known = this.saved ?? []
    this.areRulesOld = false
    this.saved = this.stored
    if (this.draft === undefined) return
    // The draft ticks and unticks the same rules as before.
    const { draft } = this
    const unticked = known.filter((id) => !draft.includes(id))
    const ticked = draft.filter((id) => !known.includes(id))
    this.draft = [...new Set([...this.saved.filter((id) => !unticked.includes(id)), ...ticked])]
    if (this.saving === undefined) this.dropUnchangedDraft()
  }

  /** The tab is visible again, or the network is back: fetches the statuses, where they show. */
  refresh(): void {
    if (this.screen !== 'dashboard') return
    for (const provider of providers) this.askStatus(provider, 'once')
    this.loadUnknownRules('once')
    this.forgetSuccess()
    // A refusal ends when both statuses have arrived, in either order, and say 'connected'.
    if (this.canSave && this.message === 'refused') this.message = undefined
  }

  /** Loads everything again: now on the dashboard, otherwise when it opens. */
  reloadAll(): void {
    this.areRulesOld = true
    if (this.screen === 'dashboard') {
      for (const provider of providers) this.askStatus(provider, 'once')
      this.loadRules('once')
      return
    }
    for (const provider of this.seen.keys()) this.forgetAge(provider)
  }

  askStatus(provider: Provider, retry: Retry): void {
    const path = `/api/${idOf(provider)}/status`
    if (this.ask('status', path, `Loading the ${provider} connection status`, retry)) {
      this.see(provider, this.connected.has(provider))
    } else {
      this.forgetAge(provider)
    }
  }

  /** The page keeps what it shows, and fetches it when the dashboard opens the next time. */
  forgetAge(provider: Provider): void {
    const seen = this.seen.get(provider)
    if (seen) this.seen.set(provider, { ...seen, isOld: true })
  }

  see(provider: Provider, connected: boolean): void {
    this.seen.set(provider, { connected, isOld: false })
  }

  /**
   * A read. A temporary failure is retried once, but not by a save. While a screen opens, the retry may be
   * missing: StrictMode mounts the screen twice (only in development) and drops a retry in between.
   */
  ask(kind: CallKind, path: string, action: string, retry: Retry): boolean {
    const failure = this.failure(kind)
    this.calls.push(`GET ${path}`)
    if (failure === undefined) return true
    if (failure !== '404' && retry !== 'never') {
      ;(retry === 'maybe' ? this.mayCall : this.calls).push(`GET ${path}`)
    }
    this.log.push(action)
    return false
  }

  /** The success was about connections that have ended. */
  forgetSuccess(): void {
    if (this.message === 'saved' && !this.canSave) this.message = undefined
  }

  /** During a save, a disconnect waits for its end. */
  disconnect(provider: Provider): void {
    if (this.saving !== undefined) {
      this.waiting.push(provider)
      this.isRefreshHeld = true
      return
    }
    this.calls.push(`DELETE /api/${idOf(provider)}/disconnect`)
    if (this.failure('disconnect') !== undefined) {
      this.log.push(`Disconnecting ${provider}`)
      // The server may have disconnected all the same.
      if (this.screen === 'dashboard') this.askStatus(provider, 'once')
      else this.forgetAge(provider)
      this.forgetSuccess()
      return
    }
    this.connected.delete(provider)
    this.see(provider, false)
    this.forgetSuccess()
  }

  toggle(id: string): void {
    this.draft = this.selected.includes(id)
      ? this.selected.filter((other) => other !== id)
      : [...this.selected, id]
    // During a save, what the backend holds is unknown, so every change counts.
    if (this.saving === undefined) this.dropUnchangedDraft()
    if (this.saving === undefined) this.message = undefined
  }

  beginSave(): void {
    if (!this.canSave) {
      this.message = 'refused'
      return
    }
    this.message = undefined
    // A page that does not know the rules loads them first.
    this.loadUnknownRules('never')
    this.saving = this.selected
    this.calls.push(`POST /api/notifications/rules ${JSON.stringify({ rules: this.saving })}`)
  }

  /** Another tab signs in as somebody else. Nothing of the former person stays, and nothing waits any more. */
  becomeAnother(person: { connected: readonly Provider[]; stored: readonly string[] }): void {
    this.connected.clear()
    for (const provider of person.connected) this.connected.add(provider)
    this.stored = person.stored
    this.seen = new Map()
    this.saved = undefined
    this.draft = undefined
    this.message = undefined
    this.waiting = []
    this.areRulesOld = false
    this.isSaveOfFormer = this.saving !== undefined
    if (this.screen === 'dashboard') this.openDashboard()
  }

  /** The save was sent before the page forgot everything. Its message does not show. */
  isSaveOfFormer = false
  /** The rules are loaded again when the dashboard opens. */
  areRulesOld = false

  endSave(): void {
    const sent = this.saving
    if (sent === undefined) return
    this.saving = undefined
    this.isRefreshHeld = false
    const failure = this.failure('save')
    // The backend refuses a rule that it does not offer, unless the person who is signed in by now has it.
    const isKnown = sent.every((id) => availableRuleIds.has(id) || this.stored.includes(id))
    if (failure === 'lost' || (failure === undefined && isKnown)) this.stored = sent
    if (this.isSaveOfFormer) {
      this.isSaveOfFormer = false
      this.wasLeftWhileSaving = false
      this.dropUnchangedDraft()
      // It may be stored later than the page was loaded.
      this.reloadAll()
      return
    }
    if (failure === undefined) {
      this.saved = sent
      this.areRulesOld = false
    } else this.log.push('Saving rules')
    this.dropUnchangedDraft()
    if (this.screen !== 'dashboard' || this.wasLeftWhileSaving) this.message = undefined
    else if (failure !== undefined) this.message = 'failed'
    else this.message = this.draft === undefined ? 'saved' : undefined
    this.wasLeftWhileSaving = false
    this.forgetSuccess()
    for (const provider of this.waiting.splice(0)) this.disconnect(provider)
  }

  /** Leaving with unsaved changes asks. Leaving all the same discards them. */
  leave(goes: boolean): void {
    // What a save sends is not lost.
    const isSaved = this.saving !== undefined && sameRules(this.saving, this.selected)
    this.asks = this.draft !== undefined && !isSaved
    if (this.asks && !goes) return
    if (this.asks) this.draft = undefined
    this.message = undefined
    this.screen = 'contact'
    this.wasLeftWhileSaving = this.saving !== undefined
  }

  /** The screen on which the save began is gone, and so is its message. */
  wasLeftWhileSaving = false

  dropUnchangedDraft(): void {
    if (this.draft && sameRules(this.draft, this.saved ?? [])) this.draft = undefined
  }
}

/** Whether two selections contain the same rules, in any order. */
function sameRules(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((id) => b.includes(id))
}
