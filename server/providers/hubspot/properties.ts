import { type DealProperty, dealProperties } from '../registry.ts'

export const propertyNames = {
  stage: 'dealstage',
  amount: 'amount',
  owner: 'hubspot_owner_id',
  closeDate: 'closedate',
} as const satisfies Record<DealProperty, string>

export function propertyNamed(name: string): DealProperty | undefined {
  return dealProperties.find((property) => propertyNames[property] === name)
}
