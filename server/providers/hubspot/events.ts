import { createHash } from 'node:crypto'
import * as v from 'valibot'
import type { DealEvent } from '../provider.ts'
import { propertyNamed } from './properties.ts'

// PostgreSQL cannot store NUL or half of a surrogate pair.
const storableText = v.pipe(
  v.string(),
  v.maxLength(255),
  v.check((text) => text.isWellFormed() && !text.includes('\0')),
)

const id = v.pipe(
  v.union([
    v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
    v.pipe(v.string(), v.regex(/^\d{1,20}$/)),
  ]),
  v.transform(String),
)

const item = v.object({
  portalId: id,
  subscriptionType: v.picklist(['deal.propertyChange', 'object.propertyChange']),
  objectTypeId: v.optional(v.string()),
  objectId: id,
  propertyName: v.string(),
  propertyValue: storableText,
  // Milliseconds up to the year 5138. A larger number is not a time in milliseconds.
  occurredAt: v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(100_000_000_000_000)),
})

/** The object type of deals in HubSpot's `object.*` events. */
const dealType = '0-3'

/** Returns the deal events among a webhook's items. Leaves out unknown items. */
export function dealEvents(items: readonly unknown[]): DealEvent[] {
  return items.flatMap((value) => {
    const parsed = v.safeParse(item, value)
    if (!parsed.success) return []
    const event = parsed.output
    if (event.subscriptionType === 'object.propertyChange' && event.objectTypeId !== dealType) {
      return []
    }
    const property = propertyNamed(event.propertyName)
    // Users can clear a property, but not the stage.
    if (property === undefined || (property === 'stage' && event.propertyValue === '')) return []
    return [
      {
        key: keyOf(event),
        accountId: event.portalId,
        dealId: event.objectId,
        property,
        value: event.propertyValue,
        occurredAt: new Date(event.occurredAt),
      },
    ]
  })
}

// HubSpot's eventId is not unique, and attemptNumber differs between copies of one event. An app that
// declares both kinds of subscription gets each change as `deal.*` and as `object.*`: that is one event.
function keyOf(event: v.InferOutput<typeof item>): string {
  const parts = [
    event.portalId,
    event.objectId,
    event.propertyName,
    event.propertyValue,
    event.occurredAt,
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
}
