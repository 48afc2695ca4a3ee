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

export type Screen = 'dashboard' | 'contact' | 'activity'
export type CallKind = 'save' | 'disconnect' | 'status' | 'rules'
/** How a call fails. 'lost': the backend does what is asked, but its answer never arrives. */
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
  /** Whether the answers name the person. */
  readonly isNamed: boolean
  readonly failing = new Map<CallKind, Failure>()

  // The page.
  screen: Screen = 'dashboard'
  online = true
  /** The last answer of each status, and whether opening the dashboard fetches it again. */
  seen = new Map<Provider, { connected: boolean; isOld: boolean }>()
  /** The rules that were loaded or saved last; undefined until one of both succeeds. */
  saved: readonly string[] | undefined
  /** Whether the page has asked nothing about a person since it was loaded. */
  isBlank = true
  /** Whether an answer has named the person. */
  isPersonKnown = false
  /** The changes that the page keeps while the browser is at a provider. */
  kept: ReadonlyMap<string, boolean> = new Map()
  /** Whether it is known whose they are. */
  isOwnerKnown = false
  /** Whether nobody knows what the backend has stored, so that the rules load again when they can. */
  areRulesOld = false
  /** The rules that the user has ticked (true) or unticked. */
  changes = new Map<string, boolean>()
  /** The rules of a save without an answer so far, and the changes in it. */
  saving: { rules: readonly string[]; changes: ReadonlyMap<string, boolean> } | undefined
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

  constructor(initial: {
    connected: readonly Provider[]
    stored: readonly string[]
    isNamed: boolean
  }) {
    this.connected = new Set(initial.connected)
    this.stored = initial.stored
    this.isNamed = initial.isNamed
  }

  get selected(): readonly string[] {
    const ticked = [...this.changes.keys()].filter((id) => this.changes.get(id))
    const all = new Set([...(this.saved ?? []), ...ticked])
    return [...all].filter((id) => this.changes.get(id) !== false)
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
  load(screen: Screen = 'dashboard'): void {
    this.screen = screen
    this.seen = new Map()
    this.saved = undefined
    this.areRulesOld = false
    this.changes.clear()
    this.isPersonKnown = false
    this.message = undefined
    this.saving = undefined
    this.waiting = []
    this.isRefreshHeld = false
    this.isBlank = true
    this.calls.push('GET /health')
    if (screen === 'dashboard') this.openDashboard()
  }

  /** Fetches the rules, and the statuses that are unknown or too old. */
  openDashboard(): void {
    this.screen = 'dashboard'
    this.isBlank = false
    for (const provider of providers) {
      if (this.seen.get(provider)?.isOld !== false) this.askStatus(provider, 'maybe')
    }
    this.loadRules('maybe')
    this.endMessage()
  }

  loadUncertainRules(retry: Retry): void {
    if (this.saved === undefined || this.areRulesOld) this.loadRules(retry)
  }

  /** What the user has ticked and unticked stays so. */
  loadRules(retry: Retry): void {
    this.areRulesOld = !this.ask('rules', '/api/notifications/rules', 'Loading rules', retry)
    if (this.areRulesOld) return
    this.saved = this.stored
    this.changes = new Map([...this.kept, ...this.changes])
    this.kept = new Map()
    this.dropSavedChanges()
  }

  /** The tab is visible again, or the network is back: fetches the statuses, where they show. */
  refresh(reason: 'shown' | 'online'): void {
    if (this.screen !== 'dashboard') {
      // The person may be another one now. The next screen with a status finds out.
      if (reason === 'shown' && this.isPersonKnown) this.forgetAges()
      return
    }
    for (const provider of providers) this.askStatus(provider, 'once')
    this.loadUncertainRules('once')
    this.endMessage()
  }

  /** The page comes out of the back-forward cache. Another tab may have done anything meanwhile. */
  comeOutOfCache(): void {
    this.keepChanges()
    this.loadAgain()
  }

  keepChanges(): void {
    if (this.changes.size === 0) return
    this.kept = new Map(this.changes)
    this.isOwnerKnown = this.isPersonKnown
  }

  endMessage(): void {
    this.forgetSuccess()
    // A refusal ends when both statuses have arrived, in either order, and say 'connected'.
    if (this.canSave && this.message === 'refused') this.message = undefined
  }

  reloadStatuses(): void {
    if (this.screen !== 'dashboard') this.forgetAges()
    else for (const provider of providers) this.askStatus(provider, 'once')
  }

  /** A backend that names the person refuses the rules of one who has not connected both. */
  get refusesUnconnected(): boolean {
    return this.isNamed && this.connected.size < providers.length
  }

  forgetAges(): void {
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
    if (failure === undefined) {
      this.isPersonKnown = this.isNamed
      return true
    }
    // A 503 asks to wait.
    if (failure !== '404' && failure !== '503' && retry !== 'never') {
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
      // Nobody knows whether the server has disconnected.
      if (this.failure('disconnect') === 'lost') this.connected.delete(provider)
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
    this.changes.set(id, !this.selected.includes(id))
    this.dropSavedChanges()
    if (this.saving === undefined) this.message = undefined
  }

  beginSave(): void {
    if (!this.canSave) {
      this.message = 'refused'
      return
    }
    this.message = undefined
    const changes = new Map(this.changes)
    // During the save, no change is dropped.
    this.saving = { rules: [], changes }
    this.loadUncertainRules('never')
    this.saving = { rules: this.selected, changes }
    this.calls.push(saveCall(this.saving.rules))
  }

  /** Another tab signs in as somebody else. Nothing that is known to be the former person's stays, and nothing waits. */
  becomeAnother(person: { connected: readonly Provider[]; stored: readonly string[] }): void {
    this.connected.clear()
    for (const provider of person.connected) this.connected.add(provider)
    this.stored = person.stored
    this.keepChanges()
    if (this.isOwnerKnown) this.kept = new Map()
    const { saving } = this
    this.loadAgain()
    // The other tab says who it is.
    if (this.isBlank) this.isPersonKnown = this.isNamed
    // The backend may take it after the page has loaded. It refuses a call that names another person.
    if (saving && !this.isNamed && this.takes(saving.rules)) {
      const failure = this.failure('save')
      if (failure === 'lost' || failure === undefined) this.stored = saving.rules
    }
  }

  /** The page loads itself again, unless it has asked nothing about a person. */
  loadAgain(): void {
    if (!this.isBlank) this.load(this.screen)
    this.isPersonKnown &&= !this.isBlank
  }

  /** The backend refuses a rule that it does not offer, unless the person who is signed in by now has it. */
  takes(rules: readonly string[]): boolean {
    return (
      !this.refusesUnconnected &&
      rules.every((id) => availableRuleIds.has(id) || this.stored.includes(id))
    )
  }

  endSave(): void {
    if (this.saving === undefined) return
    const { rules } = this.saving
    this.saving = undefined
    this.isRefreshHeld = false
    const failure = this.failure('save')
    const isTaken = this.takes(rules)
    if (isTaken && (failure === 'lost' || failure === undefined)) this.stored = rules
    const isRefused = failure === '404' || (failure === undefined && !isTaken)
    if (failure === undefined && isTaken) {
      this.saved = rules
      this.areRulesOld = false
      this.dropSavedChanges()
    } else {
      this.log.push('Saving rules')
      if (failure === undefined && this.refusesUnconnected) this.reloadStatuses()
      if (isRefused) this.dropSavedChanges()
      else if (this.screen === 'dashboard') this.loadRules('once')
      else this.areRulesOld = true
    }
    if (failure !== undefined || isRefused) this.message = 'failed'
    else this.message = this.changes.size === 0 ? 'saved' : undefined
    this.forgetSuccess()
    for (const provider of this.waiting.splice(0)) this.disconnect(provider)
  }

  /** Leaving with unsaved changes asks. Leaving all the same discards them. */
  leave(to: Screen, goes: boolean): void {
    // What a save sends is not lost.
    const sent = this.saving?.changes
    const isSaved = sent && [...this.changes].every(([id, isTicked]) => sent.get(id) === isTicked)
    this.asks = this.changes.size > 0 && !isSaved
    if (this.asks && !goes) return
    if (this.asks) this.changes.clear()
    this.message = undefined
    this.screen = to
  }

  /**
   * A change that equals what is stored is none. But every change counts while nobody knows what is stored: during a
   * save, before the rules have loaded, and after a save without the backend's own answer.
   */
  dropSavedChanges(): void {
    const { saved, changes } = this
    if (this.saving !== undefined || saved === undefined || this.areRulesOld) return
    for (const [id, isTicked] of changes) {
      if (saved.includes(id) === isTicked) changes.delete(id)
    }
  }
}

/** No order of the rules is promised. */
export const saveCall = (rules: readonly string[]) =>
  `POST /api/notifications/rules ${JSON.stringify({ rules: rules.toSorted() })}`
