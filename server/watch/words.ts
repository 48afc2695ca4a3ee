// The figures of GET /metrics in words, for `npm run relay -- status`.

import type { Registry } from '@prometheus-io/client'
import { mostCounted, type StoredFigures } from './stored.ts'

export function storedInWords(figures: StoredFigures | undefined): string[] {
  if (figures === undefined) return ['The database does not answer.']
  const { pending, oldestPendingS, connections, oldestSearchS } = figures
  const count = pending < mostCounted ? `${pending}` : `${mostCounted} or more`
  const broken = connections.filter((each) => each.broken)
  return [
    pending === 0
      ? 'no message waits'
      : `${count} wait, the oldest for ${duration(oldestPendingS)}`,
    `connections: ${total(connections)}, of which ${total(broken)} are broken${list(broken.map((each) => [each.count, each.provider]))}`,
    oldestSearchS === 0
      ? 'missed changes: no account is searched'
      : `missed changes: each account was searched within the last ${duration(oldestSearchS)}`,
  ]
}

type Values = ReadonlyArray<{
  value: number
  metricName?: string
  labels: Readonly<Partial<Record<string, string | number>>>
}>

/** Why a webhook was not stored. */
const refusals: Readonly<Record<string, string>> = {
  signature: 'not signed with a client secret of ours, or for another address than API_URL',
  time: 'signed more than five minutes before or after the time of this server',
  missing: 'without a signature',
  malformed: 'too large, cut off or of an unknown form',
  failed: 'not stored, so that it comes again',
}

/** What this process has counted since its start. */
export async function countedInWords(registry: Registry): Promise<string[]> {
  const all = new Map<string, Values>()
  for (const { name, values } of await registry.getMetricsAsJSON()) all.set(name, values)
  const of = (name: string) => all.get(`dealbell_${name}`) ?? []
  /** The values that are not 0, as pairs of the value and what the label says. */
  const by = (name: string, label: string, isMeant = (_: Values[number]) => true) => {
    const sums = new Map<string, number>()
    for (const each of of(name).filter(isMeant)) {
      const key = String(each.labels[label])
      sums.set(key, (sums.get(key) ?? 0) + each.value)
    }
    return [...sums].filter(([, value]) => value > 0).map(([key, value]) => [value, key] as const)
  }
  const sum = (name: string, label: string, key: string) =>
    by(name, label, ({ labels }) => labels[label] === key)[0]?.[0] ?? 0

  const endedIn = (state: string) =>
    by('deliveries_ended_total', 'reason', ({ labels }) => labels.state === state)
  const refused = by('webhooks_total', 'outcome', ({ labels }) => labels.outcome !== 'stored').map(
    ([value, outcome]) => [value, refusals[outcome] ?? outcome] as const,
  )
  const limited = by('requests_limited_total', 'limit')
  const calls = by('provider_calls_total', 'provider').map(([value, provider]) => {
    const outcomes = by(
      'provider_calls_total',
      'outcome',
      ({ labels }) => labels.provider === provider && labels.outcome !== 'ok',
    )
    const seconds = of('provider_call_seconds').filter(({ labels }) => labels.provider === provider)
    return `calls to ${provider}: ${value}${within(seconds)}${list(outcomes)}`
  })
  const lag = all.get('nodejs_eventloop_lag_p99_seconds')?.[0]?.value

  return [
    `webhooks: ${sum('webhooks_total', 'outcome', 'stored')} stored${within(of('webhook_seconds'))}; ${totalOf(refused)} refused or failed${list(refused)}`,
    `events: ${sum('events_stored_total', 'found_by', 'webhook')} stored from webhooks, ${sum('events_stored_total', 'found_by', 'search')} from searches; ${totalOf(by('events_not_understood_total', 'provider'))} not understood`,
    `messages: ${totalOf(endedIn('sent'))} sent${within(of('delivery_seconds'))}`,
    `ignored: ${totalOf(endedIn('ignored'))}${list(endedIn('ignored'))}`,
    `dead: ${totalOf(endedIn('dead'))}${list(endedIn('dead'))}`,
    ...calls,
    `left of HubSpot's limit: ${of('hubspot_room_ratio')
      .map(({ labels, value }) => `${Math.floor(value * 100)} % of ${labels.limit}`)
      .join(', ')}`,
    `requests answered with 429: ${totalOf(limited)}${list(limited)}`,
    `in memory${list(of('cache_entries').map(({ labels, value }) => [value, String(labels.cache)]))}`,
    ...(lag === undefined ? [] : [`delay of the event loop: 99 % below ${duration(lag)}`]),
  ]
}

const totalOf = (pairs: ReadonlyArray<readonly [number, string]>) =>
  pairs.reduce((sum, [value]) => sum + value, 0)
const total = (counts: ReadonlyArray<{ count: number }>) =>
  counts.reduce((sum, { count }) => sum + count, 0)

const list = (pairs: ReadonlyArray<readonly [number, string]>) =>
  pairs.length === 0 ? '' : `: ${pairs.map(([value, name]) => `${value} × ${name}`).join(', ')}`

/** What a histogram says of the usual and of the longest time. */
function within(values: Values): string {
  const count = values.find(({ metricName }) => metricName?.endsWith('_count'))?.value ?? 0
  if (count === 0) return ''
  const below = (share: number) => {
    const { labels } =
      values.find(({ labels: { le }, value }) => le && value >= count * share) ?? {}
    return duration(Number(labels?.le))
  }
  return `, half within ${below(0.5)}, 99 % within ${below(0.99)}`
}

function duration(seconds: number): string {
  if (!Number.isFinite(seconds)) return 'more time than is measured'
  if (seconds < 1) return `${Math.ceil(seconds * 1000)} ms`
  if (seconds < 120) return `${Math.round(seconds)} s`
  return seconds < 7_200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`
}
