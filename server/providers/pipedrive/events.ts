import { createHash } from 'node:crypto'
import * as v from 'valibot'
import { storableText } from '../crm-answers.ts'
import type { DealEvent } from '../deal.ts'
import { type DealProperty, dealProperties } from '../registry.ts'
import { dealFields, isDeleted, propertiesIn, type Values, valueIn } from './fields.ts'

const id = v.pipe(
  v.union([v.pipe(v.number(), v.safeInteger(), v.minValue(1)), v.string()]),
  v.transform(String),
  v.regex(/^\d{1,20}$/),
)

/** Of what a webhook is, and of which company. */
const about = v.object({
  meta: v.object({ entity: v.string(), action: v.string(), company_id: id }),
})

const value = v.exactOptional(v.nullable(v.union([v.string(), v.number()])))
const changeOfDeal = v.object({
  meta: v.object({
    action: v.picklist(['create', 'change']),
    /** The deal that was merged into this one. */
    merged_from_id: v.nullish(v.unknown()),
  }),
  data: dealFields,
  /** Only the fields that changed. */
  previous: v.nullable(v.record(v.string(), v.unknown())),
})
const previousValues = v.object({
  status: value,
  stage_id: value,
  pipeline_id: value,
  value: value,
  owner_id: value,
  expected_close_date: value,
})

/** The company of which a webhook's body is. Undefined if it does not say so. */
export function companyOf(body: unknown): string | undefined {
  const { success, output } = v.safeParse(about, body)
  return success ? output.meta.company_id : undefined
}

/**
 * Returns the events in a webhook's body, which is about one edit of one deal. That a deal was deleted, restored, archived
 * or merged is no event.
 */
export function dealEvents(body: unknown): { events: DealEvent[]; notUnderstood: number } {
  const none = { events: [], notUnderstood: 0 }
  const subject = v.safeParse(about, body)
  if (!subject.success) return { ...none, notUnderstood: 1 }
  const { entity, action, company_id: accountId } = subject.output.meta
  if (entity !== 'deal' || action === 'delete') return none
  const known = v.safeParse(changeOfDeal, body)
  const former = known.success
    ? v.safeParse(previousValues, known.output.previous ?? {})
    : undefined
  const isUnknown = !known.success || !former?.success
  if (isUnknown || (action === 'change' && known.output.previous === null)) {
    return { ...none, notUnderstood: 1 }
  }
  const { meta, data } = known.output
  const occurredAt = new Date(data.update_time)
  if (!(occurredAt.getTime() > 0)) return { ...none, notUnderstood: 1 }
  if (meta.merged_from_id != null || isDeleted(data)) return none
  const before: Values = former.output
  const changes =
    action === 'create'
      ? dealProperties.map((property) => changeOf(property, data))
      : propertiesIn(before).map((property) => changeOf(property, data, { ...data, ...before }))
  const events = changes
    .filter((change) => change !== undefined)
    .map(({ property, value, former }) => {
      // Each connected user's webhook tells of the same edit, with other ids, and so does each try.
      const seconds = Math.floor(occurredAt.getTime() / 1000)
      const parts = [accountId, data.id, property, value, seconds]
      const key = createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
      return { key, accountId, dealId: String(data.id), property, value, former, occurredAt }
    })
  return { events, notUnderstood: 0 }
}

/** Undefined if the value is the same, or the deal was or is deleted. A created deal has no values before. */
function changeOf(property: DealProperty, now: Values, before?: Values) {
  const value = valueIn(property, now)
  const former = before === undefined ? null : valueIn(property, before)
  if (value === undefined || former === undefined || value === former) return undefined
  if (!v.is(storableText, value) || (former === null && value === '')) return undefined
  return { property, value, former }
}
