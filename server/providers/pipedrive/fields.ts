import * as v from 'valibot'
import { dateIn } from '../crm-answers.ts'
import type { CrmDeal } from '../deal.ts'
import { type DealProperty, dealProperties } from '../registry.ts'

const text = v.nullish(v.string(), null)
const times = ['add_time', 'stage_change_time', 'won_time', 'lost_time', 'close_time'] as const
const ids = ['owner_id', 'person_id', 'org_id'] as const

/** A deal, as the API v2 and webhooks of version 2.0 describe it. */
export const dealFields = v.object({
  id: v.pipe(v.number(), v.safeInteger()),
  /** A deal that is won or lost keeps its stage. */
  status: v.string(),
  is_deleted: v.nullish(v.boolean()),
  stage_id: v.number(),
  pipeline_id: v.number(),
  update_time: v.pipe(
    v.string(),
    v.check((time) => dateIn(time) !== undefined),
  ),
  ...v.entriesFromList(['value', ...ids], v.nullish(v.number(), null)),
  ...v.entriesFromList(['title', 'currency', 'expected_close_date', ...times], text),
})

export type PipedriveDeal = v.InferOutput<typeof dealFields>

/** The fields that make a property's value. */
const fieldsOf = {
  stage: ['status', 'stage_id', 'pipeline_id'],
  amount: ['value'],
  owner: ['owner_id'],
  closeDate: ['expected_close_date'],
} as const satisfies Record<DealProperty, readonly (keyof PipedriveDeal)[]>

type Values = Readonly<Record<string, unknown>>

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

const withoutPipeline = (value: string) => value.replace(/:.*/, '')
/** Whether a property has changed. That a won or lost deal gets another pipeline is no change. */
export const isChange = (value: string, former: string | undefined) =>
  former === undefined || withoutPipeline(value) !== withoutPipeline(former)

/** The properties of which a field is among those that an edit has changed. */
export const propertiesIn = (changed: object) =>
  dealProperties.filter((property) => fieldsOf[property].some((field) => field in changed))

const anyText = v.pipe(
  v.nullish(v.unknown(), null),
  v.transform((value) => (value === null ? null : String(value))),
)

/** The changelog calls it by its name in version 1 of the API. */
const currentName = (name: unknown) => (name === 'user_id' ? 'owner_id' : name)

/** Entries of a property in a changelog, which has those of all fields. Whatever the others are, they say nothing of it. */
export function changelogOf(property: DealProperty) {
  const fields = fieldsOf[property]
  const entry = v.object({
    field_key: v.pipe(v.unknown(), v.transform(currentName), v.picklist(fields)),
    old_value: anyText,
    new_value: anyText,
    // '2026-07-28 09:12:33', in UTC.
    time: v.pipe(
      v.string(),
      v.transform((time) => Date.parse(`${time.replace(' ', 'T')}Z`)),
      v.number(),
    ),
  })
  const other = v.pipe(
    v.unknown(),
    v.check((entry) => !v.is(v.picklist(fields), currentName(Object(entry).field_key))),
    v.transform(() => []),
  )
  return v.pipe(
    v.array(v.union([other, entry])),
    v.transform((entries) => entries.flat()),
  )
}

type ChangelogEntry = v.InferOutput<ReturnType<typeof changelogOf>>[number]

/**
 * Makes the history of a property from a deal's changelog. It goes back from the deal's current values. So it also
 * finds the value at the creation, which the changelog may lack.
 */
export function historyOf(
  property: DealProperty,
  deal: PipedriveDeal,
  changelog: readonly ChangelogEntry[],
): CrmDeal['history'] {
  const entries = changelog.toSorted((a, b) => b.time - a.time)
  const values: Record<string, unknown> = { ...deal }
  const history: Array<{ value: string; at: Date }> = []
  const add = (ms: number) => {
    const value = valueIn(property, values)
    if (value !== undefined) history.unshift({ value, at: new Date(ms) })
  }
  for (const [ms, together] of Map.groupBy(entries, ({ time }) => time)) {
    const ordered = lastFirst(together, values)
    // One edit may change a stage and a status. They have the same second then.
    const isOneEdit = new Set(together.map(({ field_key }) => field_key)).size > 1
    for (const edit of isOneEdit ? [ordered] : ordered.map((entry) => [entry])) {
      for (const { field_key, new_value } of edit.toReversed()) values[field_key] = new_value
      add(ms)
      for (const { field_key, old_value } of edit) values[field_key] = old_value
    }
  }
  const createdMs = Date.parse(deal.add_time ?? '')
  if (createdMs < (entries.at(-1)?.time ?? Number.POSITIVE_INFINITY)) add(createdMs)
  return history.filter(({ value }, at) => isChange(value, history[at - 1]?.value))
}

/** Orders entries of one second: the last one has made the values after it, whatever order the changelog has. */
function lastFirst(entries: readonly ChangelogEntry[], valuesAfter: Values): ChangelogEntry[] {
  const left = [...entries]
  const values: Record<string, unknown> = { ...valuesAfter }
  return entries.flatMap(() => {
    const at = left.findIndex(
      ({ field_key, new_value }) => String(values[field_key] ?? '') === (new_value ?? ''),
    )
    const last = left.splice(Math.max(0, at), 1)
    for (const { field_key, old_value } of last) values[field_key] = old_value
    return last
  })
}

/** When a deal was won or lost. Null while it is open. */
export function closedAt({ status, won_time, lost_time, close_time }: PipedriveDeal) {
  if (status === 'open') return null
  return (status === 'won' ? won_time : lost_time) ?? close_time
}

export const isDeleted = ({ status, is_deleted }: PipedriveDeal) =>
  status === 'deleted' || is_deleted === true

/**
 * The last change of a deal's stage, by the times that are in the deal. They do not show that a deal was reopened. What
 * the stage was before is unknown.
 */
export function lastStageOf(deal: PipedriveDeal): CrmDeal['history'] {
  const value = valueIn('stage', deal)
  const entered = [deal.stage_change_time, deal.add_time].flatMap((time) => dateIn(time) ?? [])
  const at = dateIn(closedAt(deal)) ?? entered.sort((a, b) => b.getTime() - a.getTime())[0]
  if (value === undefined || at === undefined) return []
  const created = dateIn(deal.add_time)
  const isCreation = created === undefined || at <= created
  return [...(isCreation ? [] : [{ value: '', at: created }]), { value, at }]
}
