// What this process counts, for GET /metrics. These counts belong to the process, so they
// are variables of this module. Each part of the server counts here what it does. What is stored in the database is
// read at each scrape (stored.ts).
// No label holds a user, an account, a deal or a text of a provider: each has a short list of values.

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'
import project from '../../package.json' with { type: 'json' }
import { statementsAsked } from '../database/statements.ts'
import { addressFaults } from '../providers/read-address.ts'
import { addressIds, chatIds, crmIds, type ProviderId } from '../providers/registry.ts'

/** Our own registry: others in this process may use the library's. */
export const registry = new Registry()
const registers = [registry]

new Gauge({
  name: 'dealbell_build_info',
  help: 'Always 1. The label is the version of this process.',
  labelNames: ['version'],
  registers,
}).set({ version: project.version }, 1)

type WebhookOutcome =
  | 'stored'
  /** No valid signature; `WebhookRefusal` in providers/provider.ts explains these. */
  | 'signature'
  | 'time'
  | 'missing'
  /** Sent to an address below /webhooks/ that is none of ours. */
  | 'address'
  /** The body is too large, does not arrive or has an unknown form. */
  | 'malformed'
  /** It could not be stored, or too many came at once. The CRM sends it again. */
  | 'failed'
const webhookOutcomes = ['stored', 'signature', 'time', 'missing', 'address', 'malformed', 'failed']

const webhooks = new Counter({
  name: 'dealbell_webhooks_total',
  help: 'Webhooks by outcome.',
  labelNames: ['provider', 'outcome'],
  registers,
})

const webhookSeconds = new Histogram({
  name: 'dealbell_webhook_seconds',
  help: 'From the headers of a webhook to its answer, if its events were stored.',
  buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
  registers,
})

export const eventsStored = new Counter({
  name: 'dealbell_events_stored_total',
  help: 'Events stored for at least one user, by what found them: a webhook, or a search for missed changes.',
  labelNames: ['found_by'],
  registers,
})

export const eventsNotUnderstood = new Counter({
  name: 'dealbell_events_not_understood_total',
  help: 'Events of signed webhooks that are about deals, but have an unknown form. They are not stored.',
  labelNames: ['provider'],
  registers,
})

export const deliveriesEnded = new Counter({
  name: 'dealbell_deliveries_ended_total',
  help: 'Deliveries that were sent, ignored (no message is needed) or are dead (the message failed), by reason.',
  labelNames: ['state', 'reason'],
  registers,
})

const deliverySeconds = new Histogram({
  name: 'dealbell_delivery_seconds',
  help: 'From the arrival of an event to the answer of the chat that it has the message.',
  buckets: [0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200],
  registers,
})

export type CallOutcome =
  | 'ok'
  /** 429, or another answer that asks for a wait. */
  | 'rate_limited'
  | 'refused'
  | 'unauthorized'
  | 'not_found'
  /** An answer of an unknown form. */
  | 'nonsense'
  /** No answer, or an error that may be temporary. */
  | 'unreachable'

const providerCalls = new Counter({
  name: 'dealbell_provider_calls_total',
  help: 'Calls to a provider by kind and outcome.',
  labelNames: ['provider', 'call', 'outcome'],
  registers,
})

const providerCallSeconds = new Histogram({
  name: 'dealbell_provider_call_seconds',
  help: 'Duration of the calls to a provider.',
  labelNames: ['provider'],
  buckets: [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  registers,
})

export const requestsLimited = new Counter({
  name: 'dealbell_requests_limited_total',
  help: 'Requests that this server answered with 429, by the limit that they reached.',
  labelNames: ['limit'],
  registers,
})

/** The relay counts here each time that it looks for what a leased channel may send. */
export const channelLooks = new Counter({
  name: 'dealbell_channel_looks_total',
  help: 'How often the relay looked for a delivery of a channel that may be sent.',
  registers,
})

new Counter({
  name: 'dealbell_database_statements_total',
  help: 'Statements that the database was asked.',
  registers,
  collect() {
    this.reset()
    this.inc(statementsAsked())
  },
})

export const logLinesLost = new Counter({
  name: 'dealbell_log_lines_lost_total',
  help: 'Lines that nobody could read, because the reader of the log has gone.',
  registers,
})

export const addressesRefused = new Counter({
  name: 'dealbell_addresses_refused_total',
  help: 'Pasted addresses of webhooks that were not called, by what is wrong with them. With origin, fragment, characters, spelling, path or parameter, the chat may have changed its addresses: the log says what is not understood.',
  labelNames: ['provider', 'fault'],
  registers,
})

const faultKinds = [
  'headers_too_large',
  'malformed',
  'too_slow',
  'expectation',
  'too_many_connections',
] as const
export type RequestFault = (typeof faultKinds)[number]

export const requestFaults = new Counter({
  name: 'dealbell_request_faults_total',
  help: 'Requests and connections that the server refused before it knew what they ask for, by kind.',
  labelNames: ['kind'],
  registers,
})

// Prometheus sees no increase if a series begins with 1. So the series that alerts use begin with 0: these, and those of
// `countDeadFromZero`.
for (const provider of crmIds) {
  for (const outcome of webhookOutcomes) webhooks.inc({ provider, outcome }, 0)
  eventsNotUnderstood.inc({ provider }, 0)
}
for (const provider of addressIds) {
  for (const fault of addressFaults) addressesRefused.inc({ provider, fault }, 0)
}
for (const kind of faultKinds) requestFaults.inc({ kind }, 0)
for (const found_by of ['webhook', 'search']) eventsStored.inc({ found_by }, 0)
for (const provider of [...crmIds, ...chatIds]) providerCallSeconds.zero({ provider })
deliveriesEnded.inc({ state: 'sent', reason: '' }, 0)
deliveriesEnded.inc({ state: 'ignored', reason: 'no_rule' }, 0)

/** Counts a webhook. @param startedAt when its headers had arrived, by `performance.now()`. */
export function countWebhook(provider: ProviderId, outcome: WebhookOutcome, startedAt?: number) {
  webhooks.inc({ provider, outcome })
  if (startedAt !== undefined) webhookSeconds.observe((performance.now() - startedAt) / 1000)
}

/** Counts the deliveries of a message that the chat has. @param receivedAtMs when each event arrived, by `performance.now()`. */
export function countSent(receivedAtMs: readonly number[]): void {
  deliveriesEnded.inc({ state: 'sent', reason: '' }, receivedAtMs.length)
  const now = performance.now()
  for (const at of receivedAtMs) deliverySeconds.observe(Math.max(0, now - at) / 1000)
}

const ignoredReasons = ['no_rule', 'no_such_deal', 'said_in_channel']
/** The chat refuses this message, and may accept the next one. Its code is in the log. */
export const messageRefused = 'message_refused'
/** Reasons that the relay itself gives. Those of the providers are in their `brokenReasons`. */
const ownDeadReasons = [
  ...['disconnected', 'no_channel', 'refused', 'internal_error', messageRefused],
  ...['unreachable', 'nonsense', 'answer_too_large'],
  ...crmIds.flatMap((crm) => [`${crm}_unreachable`, `${crm}_nonsense`, `${crm}_answer_too_large`]),
]

/** A delivery may also wait for one of these. `paused`: the operator lets its account wait. */
const waitingReasons = [
  ...['paused', 'rate_limited'],
  ...crmIds.map((crm) => `${crm}_rate_limited`),
]

type BrokenReasons = Readonly<
  Record<ProviderId, { brokenReasons: Readonly<Record<string, string>> }>
>
const deadReasons = (providers: BrokenReasons) => [
  ...ownDeadReasons,
  ...Object.values(providers).flatMap(({ brokenReasons }) => Object.keys(brokenReasons)),
]

/** @returns the label of a reason. One from no list is `other`: the log has it. None has failed, if it is empty. */
export function labelOf(reason: string | null, providers: BrokenReasons): string {
  if (reason === null) return ''
  const known = [...ignoredReasons, ...waitingReasons, ...deadReasons(providers)]
  return known.includes(reason) ? reason : 'other'
}

/** Lets the count of dead deliveries begin with 0 for each reason. */
export function countDeadFromZero(providers: BrokenReasons): void {
  for (const reason of [...deadReasons(providers), 'other']) {
    deliveriesEnded.inc({ state: 'dead', reason }, 0)
  }
}

/** Counts deliveries that ended without a message. */
export function countEnded(
  state: 'dead' | 'ignored',
  reason: string,
  count: number,
  providers: BrokenReasons,
): void {
  deliveriesEnded.inc({ state, reason: labelOf(reason, providers) }, count)
}

/** Counts a call to a provider. @param call is a word of our code, such as `post`. */
export function countCall(
  provider: ProviderId,
  call: string,
  outcome: CallOutcome,
  startedAt: number,
): void {
  providerCalls.inc({ provider, call, outcome })
  providerCallSeconds.observe({ provider }, (performance.now() - startedAt) / 1000)
}

/** Also shows memory, processor time, files and the delay of the event loop. Call it once in a process. */
export function watchProcess(): void {
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 20 })
}
