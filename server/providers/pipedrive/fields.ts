import * as v from 'valibot'
import { dateIn } from '../crm-answers.ts'
import type { CrmDeal } from '../deal.ts'
import { type DealProperty, dealProperties } from '../registry.ts'

const number = v.nullish(v.number(), null)
const text = v.nullish(v.string(), null)

/** A deal, as the API v2 and webhooks of version 2.0 describe it. */
export const dealFields = v.object({
  id: v.number(),
  title: text,
  value: number,
  currency: text,
  /** A deal that is won or lost keeps its stage. */
  status: v.string(),
  is_deleted: v.nullish(v.boolean()),
  stage_id: v.number(),
  pipeline_id: v.number(),
  owner_id: number,
  person_id: number,
  org_id: number,
  add_time: text,
  update_time: v.pipe(
    v.string(),
    v.check((time) => dateIn(time) !== undefined),
  ),
  stage_change_time: text,
  won_time: text,
  lost_time: text,
  close_time: text,
  expected_close_date: text,
})

export type PipedriveDeal = v.InferOutput<typeof dealFields>

/** The fields that make a property's value. */
const fieldsOf = {
  stage: ['status', 'stage_id', 'pipeline_id'],
  amount: ['value'],
  owner: ['owner_id'],
  closeDate: ['expected_close_date'],
} as const satisfies Record<DealProperty, readonly (keyof PipedriveDeal)[]>

type Field = (typeof fieldsOf)[DealProperty][number]
export type Values = Partial<Record<Field, string | number | null>>

/** The changelog has kept this name from version 1 of the API. */
const formerNames: Readonly<Record<string, Field>> = { user_id: 'owner_id' }

const fieldOf = (property: DealProperty, name: string): Field | undefined =>
  fieldsOf[property].find((field) => field === (formerNames[name] ?? name))

/** The stage that stands for a status of a pipeline's deals. */
export const closedStage = (status: 'won' | 'lost', pipelineId: unknown) =>
  `${status}:${pipelineId}`

/**
 * The value of a property. Whether a deal is won or lost is a status in Pipedrive. So won and lost are two more stages of
 * each pipeline here. Undefined if the deal is deleted, or its stage is not known.
 */
export function valueIn(property: DealProperty, values: Values): string | undefined {
  if (property !== 'stage') return String(values[fieldsOf[property][0]] ?? '')
  const { status, stage_id, pipeline_id } = values
  if (status === 'won' || status === 'lost') return closedStage(status, pipeline_id)
  return status === 'deleted' || !stage_id ? undefined : String(stage_id)
}

/** The properties of which a field is among those that an edit has changed. */
export const propertiesIn = (changed: Values) =>
  dealProperties.filter((property) => fieldsOf[property].some((field) => field in changed))

export const changelogEntry = v.object({
  field_key: v.string(),
  old_value: text,
  new_value: text,
  /** In UTC: '2026-07-28 09:12:33'. */
  time: v.string(),
})

/**
 * Makes the history of a property from a deal's changelog, of which the newest entry comes first. It goes back from what
 * the deal is now. So the value at the creation is there, although the changelog need not have it.
 */
export function historyOf(
  property: DealProperty,
  deal: PipedriveDeal,
  changelog: ReadonlyArray<v.InferOutput<typeof changelogEntry>>,
): CrmDeal['history'] {
  const values: Values = { ...deal }
  const entries = changelog
    .flatMap(({ field_key, time, old_value, new_value }) => {
      const field = fieldOf(property, field_key)
      return field === undefined ? [] : [{ field, atMs: utc(time), old_value, new_value }]
    })
    .sort((a, b) => b.atMs - a.atMs)
  const history: Array<{ value: string; at: Date }> = []
  const add = (atMs: number) => {
    const value = valueIn(property, values)
    if (value !== undefined) history.unshift({ value, at: new Date(atMs) })
  }
  // One edit may change a stage and a status. They have the same second then.
  for (const [atMs, together] of Map.groupBy(entries, (entry) => entry.atMs)) {
    for (const { field, new_value } of together.toReversed()) values[field] = new_value
    add(atMs)
    for (const { field, old_value } of together) values[field] = old_value
  }
  const createdMs = Date.parse(deal.add_time ?? '')
  if (createdMs < (entries.at(-1)?.atMs ?? Number.POSITIVE_INFINITY)) add(createdMs)
  return history.filter(({ value }, at) => value !== history[at - 1]?.value)
}

const utc = (time: string) => Date.parse(`${time.replace(' ', 'T')}Z`)

/** When a deal was won or lost. Undefined while it is open. */
export function closedAt({ status, won_time, lost_time, close_time }: PipedriveDeal) {
  if (status === 'won') return won_time ?? close_time ?? undefined
  return status === 'lost' ? (lost_time ?? close_time ?? undefined) : undefined
}

export const isDeleted = ({ status, is_deleted }: PipedriveDeal) =>
  status === 'deleted' || is_deleted === true

/** The last change of a deal's stage, by the times that are in the deal. It does not show that a deal was reopened. */
export function lastStageOf(deal: PipedriveDeal): CrmDeal['history'] {
  const value = valueIn('stage', deal)
  const closed = closedAt(deal)
  const times = closed === undefined ? [deal.stage_change_time, deal.add_time] : [closed]
  const atMs = Math.max(...times.map((time) => dateIn(time)?.getTime() ?? 0))
  return value === undefined || atMs === 0 ? [] : [{ value, at: new Date(atMs) }]
}
