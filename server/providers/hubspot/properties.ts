import { type DealProperty, dealProperties } from '../registry.ts'

/** HubSpot's names of the deal properties that rules can use. */
export const propertyNames = {
  stage: 'dealstage',
  amount: 'amount',
  owner: 'hubspot_owner_id',
  closeDate: 'closedate',
} as const satisfies Record<DealProperty, string>

/** Returns the property with this name in HubSpot; undefined if rules cannot use it. */
export function propertyNamed(name: string): DealProperty | undefined {
  return dealProperties.find((property) => propertyNames[property] === name)
}
