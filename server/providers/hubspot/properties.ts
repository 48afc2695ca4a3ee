import type { DealProperty } from '../registry.ts'

/** HubSpot's names of the deal properties that rules can use. */
export const propertyNames = {
  stage: 'dealstage',
  amount: 'amount',
  owner: 'hubspot_owner_id',
  closeDate: 'closedate',
} as const satisfies Record<DealProperty, string>

/** Returns the property with this name in HubSpot; undefined if rules cannot use it. */
export function propertyNamed(name: string): DealProperty | undefined {
  return properties.get(name)
}

const properties = new Map(
  // The type of Object.entries does not keep the names of the keys.
  (Object.entries(propertyNames) as Array<[DealProperty, string]>).map(([property, name]) => [
    name,
    property,
  ]),
)
