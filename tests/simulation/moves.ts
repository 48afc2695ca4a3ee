import { partsIn } from '../relay/hubspot-webhook.ts'
import type { PlannedMove } from './plan.ts'

// What tells the moves of one deal apart. A deal moves to each stage once at most, so the deal and the stage name a move.

export type MoveName = `${string}:${string}`
export const nameOf = ({ deal, to }: Pick<PlannedMove, 'deal' | 'to'>): MoveName => `${deal}:${to}`
export const dealOf = (name: MoveName) => Number.parseInt(name, 10)

/** The move that a row of `deal_events` is about. The CRMs have other names for the stages. */
export const nameSql = `deal_id || ':' || case value
  when '1' then 'start' when '2' then 'next' when 'won:1' then 'w1' else value end`

const stages: Readonly<Record<string, PlannedMove['to']>> = {
  Appointment: 'start',
  'Proposal sent': 'next',
  Signed: 'w1',
  Won: 'w1',
  // Of a plain text, which may name no stage.
  'was won': 'w1',
}
const label = `(${Object.keys(stages).join('|')})`
/** The new stage follows an arrow. If the former one is not known, it stands alone. */
const labels = [new RegExp(`→.*?${label}`, 's'), new RegExp(label)]

/** The moves that a message tells, which may be a digest, in their order. */
export function movesIn(message: { text: string; blocks: string }): MoveName[] {
  return partsIn(message).map((part): MoveName => {
    const [, to = ''] = labels.flatMap((each) => each.exec(part) ?? [])
    return `${Number.parseInt(part, 10)}:${stages[to]}`
  })
}
