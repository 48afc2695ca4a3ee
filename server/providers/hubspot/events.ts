import { createHash } from 'node:crypto'
import * as v from 'valibot'
import { idNumber, storableText } from '../crm-answers.ts'
import type { DealEvent } from '../deal.ts'
import { propertyNamed } from './properties.ts'

/** The object type of deals in HubSpot's `object.*` events. */
const dealType = '0-3'
const ourTypes = ['deal.propertyChange', 'object.propertyChange'] as const

const item = v.object({
  portalId: idNumber,
  subscriptionType: v.picklist(ourTypes),
  objectTypeId: v.optional(v.string()),
  objectId: idNumber,
  propertyName: v.string(),
  propertyValue: storableText,
  // Milliseconds up to the year 5138. A larger number is not a time in milliseconds.
  occurredAt: v.pipe(v.number(), v.safeInteger(), v.minValue(1), v.maxValue(100_000_000_000_000)),
})

/** What an item is about. */
const kind = v.object({
  subscriptionType: v.string(),
  objectTypeId: v.optional(v.string(), dealType),
  propertyName: v.optional(v.string()),
})

/**
 * Returns the deal events among a webhook's items, and how many others have an unknown form. Items about something else
 * count as neither.
 */
export function dealEvents(items: readonly unknown[]): {
  events: DealEvent[]
  notUnderstood: number
} {
  const ours = items.filter((value) => !isOther(value))
  const events = ours.flatMap((value) => eventOf(value) ?? [])
  return { events, notUnderstood: ours.length - events.length }
}

function isOther(value: unknown): boolean {
  const { success, output } = v.safeParse(kind, value)
  if (!success) return false
  const { subscriptionType, objectTypeId, propertyName } = output
  return (
    !ourTypes.some((ours) => ours === subscriptionType) ||
    objectTypeId !== dealType ||
    (propertyName !== undefined && propertyNamed(propertyName) === undefined)
  )
}

function eventOf(value: unknown): DealEvent | undefined {
  const parsed = v.safeParse(item, value)
  if (!parsed.success) return undefined
  const event = parsed.output
  const property = propertyNamed(event.propertyName)
  const isNewForm = event.subscriptionType === 'object.propertyChange'
  if (property === undefined || (isNewForm && event.objectTypeId === undefined)) return undefined
  // Users can clear a property, but not the stage.
  if (property === 'stage' && event.propertyValue === '') return undefined
  return {
    key: keyOf(event),
    accountId: event.portalId,
    dealId: event.objectId,
    property,
    value: event.propertyValue,
    occurredAt: new Date(event.occurredAt),
  }
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
