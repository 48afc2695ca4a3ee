import { expect, vi } from 'vitest'
import { personHeader } from '../../contract/endpoints.ts'
import { appUrl } from '../relay/hubspot-webhook.ts'
import { backend, outside } from '../relay/shared.ts'
import { hold, openBrowser } from './harness.ts'

// A callback waits for its provider. Meanwhile two browsers do everything that can end its right to be completed, in
// all orders. The rules are written once, in the model below.

type Service = 'hubspot' | 'slack'
const services: readonly Service[] = ['hubspot', 'slack']
const otherOf = (service: Service): Service => (service === 'hubspot' ? 'slack' : 'hubspot')

const kinds = [
  'signs out',
  'signs all others out',
  'connects the other service',
  'disconnects the service',
  'becomes another person',
] as const
type Kind = (typeof kinds)[number]
interface Step {
  kind: Kind
  /** 0 is the browser whose callback waits. */
  browser: 0 | 1
}
const steps: Step[] = kinds.flatMap((kind) => [
  { kind, browser: 0 },
  { kind, browser: 1 },
])

/**
 * What the browsers are at the beginning: of one person who has connected both services, or a new browser whose token
 * somebody else knows.
 */
type Start = 'one person' | 'one token'

interface Order {
  start: Start
  service: Service
  /** What happens before the authorization begins, between its begin and its callback, during the callback, and after. */
  slots: [Step[], Step[], Step[], Step[]]
}

// ---- The rules ----

/** What is in a browser's cookie. Who has connected nothing yet has a token and is no person. */
interface Token {
  person?: Person
  isEnded: boolean
}

interface Person {
  identity?: string
  hubspot?: string
  slack?: string
}

class Model {
  readonly persons: Person[] = []
  readonly tokens: Token[] = []
  readonly browsers: [Token?, Token?] = []
  /** The authorization that the callback will complete. */
  begun: { service: Service; token: Token; ended: boolean } | undefined

  newPerson(person: Person = {}): Person {
    this.persons.push(person)
    return person
  }

  newToken(person?: Person): Token {
    const token: Token = { ...(person && { person }), isEnded: false }
    this.tokens.push(token)
    return token
  }

  /** The person of a browser, if it is signed in. */
  personOf(browser: 0 | 1): Person | undefined {
    const token = this.browsers[browser]
    return token?.isEnded ? undefined : token?.person
  }

  end(token: Token): void {
    token.isEnded = true
    if (this.begun?.token === token) this.begun.ended = true
  }

  begin(browser: 0 | 1): Token {
    const token = this.browsers[browser]
    if (token !== undefined && !token.isEnded) return token
    const fresh = this.newToken()
    this.browsers[browser] = fresh
    return fresh
  }

  complete(browser: 0 | 1, token: Token, service: Service, code: string): void {
    const { person: before } = token
    const wasNamed = before?.identity !== undefined
    const person =
      service === 'slack' ? (before ?? this.newPerson()) : this.personWith(before, code)
    person[service] = code
    if (wasNamed && person === before) return
    this.end(token)
    this.browsers[browser] = this.newToken(person)
  }

  /** Who an identity at HubSpot is. What an unnamed browser has connected becomes theirs. */
  personWith(person: Person | undefined, identity: string): Person {
    const known = this.persons.find((each) => each.identity === identity)
    if (known !== undefined) {
      if (person !== undefined && person.identity === undefined) {
        if (known.slack === undefined && person.slack !== undefined) known.slack = person.slack
        delete person.slack
      }
      return known
    }
    if (person === undefined || person.identity !== undefined) return this.newPerson({ identity })
    person.identity = identity
    return person
  }

  step({ kind, browser }: Step, service: Service, codes: Codes): void {
    const token = this.browsers[browser]
    const person = this.personOf(browser)
    switch (kind) {
      case 'signs out':
        if (person !== undefined && token !== undefined) this.end(token)
        delete this.browsers[browser]
        return
      case 'signs all others out':
        if (person === undefined) return
        for (const each of this.tokens) {
          if (each.person === person && each !== token) this.end(each)
        }
        return
      case 'disconnects the service':
        delete person?.[service]
        return
      case 'connects the other service':
        this.complete(browser, this.begin(browser), otherOf(service), codes[otherOf(service)])
        return
      case 'becomes another person':
        this.complete(browser, this.begin(browser), 'hubspot', codes.anotherPerson)
        return
    }
  }
}

// ---- The real server ----

interface Codes {
  hubspot: string
  slack: string
  anotherPerson: string
  callback: string
}

/** A browser that makes the steps, and shows what the dashboard shows. */
function openTab() {
  const browser = openBrowser(backend)
  const headers = { Origin: appUrl, 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'cors' }
  const call = (path: string, method = 'GET') => browser.send(path, { method, headers })

  async function begin(service: Service): Promise<string> {
    const { headers } = await browser.send(`/api/${service}/auth`)
    return new URL(headers.get('Location') ?? '').searchParams.get('state') ?? ''
  }
  const callback = (service: Service, state: string, code: string) =>
    call(`/api/${service}/callback?${new URLSearchParams({ state, code })}`)
  const connect = async (service: Service, code: string) =>
    await callback(service, await begin(service), code)

  function step({ kind }: Step, service: Service, codes: Codes): Promise<Response> {
    switch (kind) {
      case 'signs out':
        return call('/api/session', 'DELETE')
      case 'signs all others out':
        return call('/api/session?others=true', 'DELETE')
      case 'disconnects the service':
        return call(`/api/${service}/disconnect`, 'DELETE')
      case 'connects the other service':
        return connect(otherOf(service), codes[otherOf(service)])
      case 'becomes another person':
        return connect('hubspot', codes.anotherPerson)
    }
  }

  async function shown() {
    const hubspot = await call('/api/hubspot/status')
    const slack = await call('/api/slack/status')
    return {
      person: hubspot.headers.get(personHeader) ?? '',
      hubspot: (await hubspot.json()).connected,
      slack: (await slack.json()).channel,
    }
  }
  return { browser, begin, callback, connect, step, shown }
}

let count = 0

/** Plays an order on the model and on the server. Throws where they differ. */
async function play({ start, service, slots }: Order): Promise<void> {
  const n = ++count
  const codes: Codes = {
    hubspot: `${n}:1`,
    slack: `T${n}:C1`,
    anotherPerson: `${n}:2`,
    callback: service === 'hubspot' ? `${n}:1` : `T${n}-later:C2`,
  }
  const model = new Model()
  const tabs = [openTab(), openTab()] as const
  const persons = new Map<Person, string>()
  const shownBy = (browser: 0 | 1) => {
    const person = model.personOf(browser)
    return {
      person,
      hubspot: person?.hubspot !== undefined,
      slack: person?.slack && `#${person.slack.split(':')[1]}`,
    }
  }
  /** Users of a Slack workspace share a token. */
  const grantOf = (code: string | undefined) => (service === 'slack' ? code?.split(':')[0] : code)
  const mark = service === 'slack' ? `T${n}-later` : `-${n}-1-`
  const endedTokens = () =>
    [...outside.revoked, ...outside.uninstalled].filter((each) => each.includes(mark)).length
  /** Both browsers show what the model says, and never the same name for two persons. */
  async function compare(): Promise<void> {
    for (const browser of [0, 1] as const) {
      const { person: said, ...shown } = await tabs[browser].shown()
      const { person, ...expected } = shownBy(browser)
      expect(shown).toEqual(expected)
      // Whom the CRM has not named is nobody yet.
      const [beginning] = /^nobody-?|/.exec(said) ?? []
      expect(beginning).toBe(person ? (person.identity ? '' : 'nobody-') : 'nobody')
      if (person === undefined) continue
      const name = said.replace('nobody-', '')
      expect(name).toBe(persons.get(person) ?? name)
      for (const [other, otherName] of persons)
        if (other !== person) expect(name).not.toBe(otherName)
      persons.set(person, name)
    }
  }
  async function connect(browser: 0 | 1, which: Service): Promise<void> {
    expect((await tabs[browser].connect(which, codes[which])).status).toBe(204)
    model.complete(browser, model.begin(browser), which, codes[which])
  }
  async function doAll(some: readonly Step[]): Promise<void> {
    for (const step of some) {
      model.step(step, service, codes)
      const { status } = await tabs[step.browser].step(step, service, codes)
      expect({ step, status }).toEqual({ step, status: 204 })
    }
  }

  if (start === 'one person') {
    await connect(0, 'hubspot')
    await connect(0, 'slack')
    await connect(1, 'hubspot')
    await compare()
  } else {
    await tabs[0].begin(service)
    model.browsers[1] = model.begin(0)
    tabs[1].browser.cookie = tabs[0].browser.cookie
  }

  const [before, begun, during, after] = slots
  await doAll(before)
  const token = model.begin(0)
  model.begun = { service, token, ended: false }
  const state = await tabs[0].begin(service)
  await doAll(begun)

  let exchanges = 0
  const exchange = hold()
  outside.beforeExchange = async (code) => {
    if (code === codes.callback && ++exchanges === 1) await exchange.wait()
  }
  // The callback brings the cookie of now. Only the token that began it counts.
  const isOther = model.browsers[0] !== token
  if (isOther) model.begun.ended = true
  // Whether the token of a new browser was used is known only when the answer is stored.
  const isRefused = isOther || (token.isEnded && token.person !== undefined)
  // A proxy repeats the call with the same cookie, while the first one is under way or later.
  const repeater = openTab()
  repeater.browser.cookie = tabs[0].browser.cookie
  const repeat = () => repeater.callback(service, state, codes.callback)
  const callback = tabs[0].callback(service, state, codes.callback)
  await Promise.race([exchange.reached, callback])
  const isExchanged = exchanges === 1
  expect(isExchanged).toBe(!isRefused)
  const repeatedAtOnce = n % 8 === 0 && repeat()
  await doAll(during)
  const endedBefore = endedTokens()
  exchange.release()
  const answer = await callback
  const repeated = await (repeatedAtOnce || repeat())
  expect(exchanges).toBe(isExchanged ? 1 : 0)
  expect(repeated.status).toBe(answer.status)
  expect(repeated.headers.getSetCookie()).toEqual(answer.headers.getSetCookie())
  if (model.begun.ended) {
    expect(`${answer.status} ${(await answer.json()).error.code}`).toBe('400 invalid_state')
    const isShared = model.persons.some(
      (person) => grantOf(person[service]) === grantOf(codes.callback),
    )
    // The token of which nothing was stored is revoked.
    if (isExchanged && !isShared) {
      await vi.waitFor(() => expect(endedTokens()).toBeGreaterThan(endedBefore), 10_000)
    }
  } else {
    expect(answer.status).toBe(204)
    model.complete(0, token, service, codes.callback)
  }
  model.begun = undefined
  await doAll(after)
  await compare()
}

function* ordersOf(lengths: readonly number[], slotsOf: readonly number[]): Generator<Order> {
  for (const start of ['one person', 'one token'] as const) {
    for (const service of services) {
      for (const length of lengths) {
        for (const chosen of sequences(length)) {
          for (const places of placesOf(length, slotsOf)) {
            const slots: Order['slots'] = [[], [], [], []]
            for (const [at, step] of chosen.entries()) slots[places[at] ?? 0]?.push(step)
            yield { start, service, slots }
          }
        }
      }
    }
  }
}

function* sequences(length: number): Generator<Step[]> {
  if (length === 0) return yield []
  for (const rest of sequences(length - 1)) for (const step of steps) yield [...rest, step]
}

/** All ways to put a sequence into slots without changing its order. */
function placesOf(length: number, slots: readonly number[]): number[][] {
  if (length === 0) return [[]]
  return placesOf(length - 1, slots).flatMap((places) =>
    slots.filter((slot) => slot >= (places.at(-1) ?? 0)).map((slot) => [...places, slot]),
  )
}

/** Plays orders on the model and on the server of `shareBackend`. Throws at the first that breaks a rule. */
export async function playAll(orders: Iterable<Order>): Promise<void> {
  for (const order of orders) {
    try {
      await play(order)
    } catch (error) {
      throw new Error(`The rules are broken by ${JSON.stringify(order)}`, { cause: error })
    }
  }
}

/** One step while the callback is under way, and some orders of those with a step before or after, or with two. */
export const fixedOrders = [
  ...ordersOf([0, 1], [1, 2]),
  ...[...ordersOf([1], [0, 3])].filter((_, at) => at % 7 === 0),
  ...[...ordersOf([2], [1, 2])].filter((_, at) => at % 61 === 0),
]
export const allOrders = [...ordersOf([0, 1], [0, 1, 2, 3]), ...ordersOf([2], [1, 2])]
