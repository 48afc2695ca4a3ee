import { createHash } from 'node:crypto'
import * as v from 'valibot'

/** A deal that came into a stage, as a webhook told it. */
export interface DealEvent {
  /** The same change told twice has the same key. */
  key: string
  portalId: string
  dealId: string
  /** The stage that the deal came into. The former one is not sent. */
  stageId: string
  occurredAt: Date
}

// PostgreSQL stores neither NUL nor half of a surrogate pair.
const storableText = v.pipe(
  v.string(),
  v.minLength(1),
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
  propertyName: v.literal('dealstage'),
  propertyValue: storableText,
  // Up to the year 5138: what is beyond is not a time in ms.
  occurredAt: v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(100_000_000_000_000)),
})

/** The object type of deals in HubSpot's `object.*` events. */
const dealType = '0-3'

/** The deal events among a webhook's items; items that we do not know are left out. */
export function dealEvents(items: readonly unknown[]): DealEvent[] {
  return items.flatMap((value) => {
    const parsed = v.safeParse(item, value)
    if (!parsed.success) return []
    const event = parsed.output
    if (event.subscriptionType === 'object.propertyChange' && event.objectTypeId !== dealType) {
      return []
    }
    return [
      {
        key: keyOf(event),
        portalId: event.portalId,
        dealId: event.objectId,
        stageId: event.propertyValue,
        occurredAt: new Date(event.occurredAt),
      },
    ]
  })
}

// HubSpot's eventId is not unique, and attemptNumber differs between copies of one event.
function keyOf(event: v.InferOutput<typeof item>): string {
  const parts = [
    event.portalId,
    event.subscriptionType,
    event.objectId,
    event.propertyName,
    event.propertyValue,
    event.occurredAt,
  ]
  return createHash('sha256').update(JSON.stringify(parts)).digest('base64url')
}
