import { createHash } from 'node:crypto'
import * as v from 'valibot'
import { idNumber, storableText } from '../crm-answers.ts'
import type { DealEvent } from '../deal.ts'
import { dealProperties } from '../registry.ts'
import { dealFields, isChange, isDeleted, propertiesIn, valueIn } from './fields.ts'

const about = v.object({
  meta: v.object({
    company_id: idNumber,
    entity: v.string(),
    action: v.string(),
    /** The deal that was merged into this one. */
    merged_from_id: v.optional(v.unknown()),
  }),
})

const created = v.object({
  data: dealFields,
  previous: v.optional(v.fallback(v.null(), null), null),
})
/** `previous` has only the fields that changed. */
const changed = v.object({ data: dealFields, previous: v.partial(dealFields) })

/**
 * Reads a webhook's body, which is about one edit of one deal. That a deal was deleted, restored, archived or merged is no
 * event. An edit of stage and status is one event.
 * @returns `company`: whose deal it is, if that is understood.
 */
export function readBody(body: unknown): {
  company?: string
  events: DealEvent[]
  notUnderstood: number
} {
  const edited = v.safeParse(about, body)
  if (!edited.success) return { events: [], notUnderstood: 1 }
  const { company_id: company, entity, action, merged_from_id } = edited.output.meta
  const none = { company, events: [], notUnderstood: 0 }
  if (entity !== 'deal' || action === 'delete' || merged_from_id) return none
  const edit = v.safeParse(action === 'create' ? created : changed, body)
  if (!edit.success) return { ...none, notUnderstood: 1 }
  const { data, previous } = edit.output
  if (isDeleted(data)) return none
  const occurredAt = new Date(data.update_time)
  const properties = previous === null ? dealProperties : propertiesIn(previous)
  const events = properties.flatMap((property) => {
    const value = valueIn(property, data)
    const former = previous && valueIn(property, { ...data, ...previous })
    // It was deleted, and is restored.
    if (former === undefined) return []
    if (!v.is(storableText, value) || !v.is(storableText, former ?? '')) return []
    // An empty value of a new deal is no change, either.
    if (!isChange(value, former ?? '')) return []
    // Each connected user's webhook tells of the same edit, with other ids, and so does each try.
    const seconds = Math.floor(occurredAt.getTime() / 1000)
    const parts = [company, data.id, property, value, seconds]
    const key = createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
    const dealId = String(data.id)
    return [{ key, accountId: company, dealId, property, value, former, occurredAt }]
  })
  return { ...none, events }
}
