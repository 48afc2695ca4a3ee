import type { CrmDeal } from '../../providers/deal.ts'
import { sameChangeMs } from '../receive/store.ts'

/**
 * A CRM may leave out the oldest values of a long history, and no document says how many it keeps. We
 * take a shorter history than this as complete.
 */
const shortestCutHistory = 20

interface Timeline {
  /** Without values that were saved again, which is no change. */
  changes: CrmDeal['history']
  /** The indexes of the changes to each value. */
  byValue: ReadonlyMap<string, readonly number[]>
}

/** One history serves all its changes. It may have thousands, so each must be found without a scan. */
const timelines = new WeakMap<CrmDeal['history'], Timeline>()

function timelineOf(versions: CrmDeal['history']): Timeline {
  const known = timelines.get(versions)
  if (known !== undefined) return known
  const changes = versions.filter(({ value }, at) => value !== versions[at - 1]?.value)
  const byValue = Map.groupBy(changes.keys(), (at) => changes[at]?.value ?? '')
  const timeline = { changes, byValue }
  timelines.set(versions, timeline)
  return timeline
}

/**
 * Finds the value before a change in the deal's history. The webhook reports only the new value.
 * @returns null if the deal was created with the new value; undefined if the history is incomplete.
 */
export function formerValue(
  versions: CrmDeal['history'],
  { value, occurredAt }: { value: string; occurredAt: Date },
): string | null | undefined {
  const { changes, byValue } = timelineOf(versions)
  const timeOf = (index = -1) => changes[index]?.at.getTime() ?? Number.NaN
  const eventMs = occurredAt.getTime()
  const distance = (index: number) => Math.abs(timeOf(index) - eventMs)
  // The property may have had this value more than once. Use the time that is nearest to the event.
  const entered = byValue.get(value) ?? []
  const next = firstIndex(entered.length, (at) => timeOf(entered[at]) >= eventMs)
  const [nearest] = entered
    .slice(Math.max(0, next - 1), next + 1)
    .sort((a, b) => distance(a) - distance(b))
  // The history may not contain this change yet. The last other value before the event is the old
  // one.
  if (nearest === undefined || distance(nearest) > sameChangeMs) {
    const last = firstIndex(changes.length, (at) => timeOf(at) > eventMs) - 1
    return changes[changes[last]?.value === value ? last - 1 : last]?.value
  }
  if (nearest > 0) return changes[nearest - 1]?.value
  return versions.length < shortestCutHistory ? null : undefined
}

/** Binary search. If `holds` is true for an index, it must be for all later ones. @returns `length` if it never is. */
function firstIndex(length: number, holds: (index: number) => boolean): number {
  let first = 0
  let end = length
  while (first < end) {
    const middle = (first + end) >> 1
    if (holds(middle)) end = middle
    else first = middle + 1
  }
  return first
}
