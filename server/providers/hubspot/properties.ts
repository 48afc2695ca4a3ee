import type { DealProperty } from '../registry.ts'

/** HubSpot's names of the deal properties that a rule can be about. */
export const propertyNames = {
  stage: 'dealstage',
  amount: 'amount',
  owner: 'hubspot_owner_id',
  closeDate: 'closedate',
} as const satisfies Record<DealProperty, string>

/** The property by HubSpot's name; undefined for a property that no rule can be about. */
export function propertyNamed(name: string): DealProperty | undefined {
  return properties.get(name)
}

const properties = new Map(
  // Object.entries forgets the names of the keys.
  (Object.entries(propertyNames) as Array<[DealProperty, string]>).map(([property, name]) => [
    name,
    property,
  ]),
)
