import { expect, test } from 'vitest'
import { dealEvents } from '../../server/providers/hubspot/events.ts'
import { stageChange } from './hubspot-webhook.ts'

const item = {
  ...stageChange(123, { portal: 456, stage: 'closedwon', at: 1_767_225_600_000 }),
  eventId: 1,
}
const keysOf = (...items: object[]) => dealEvents(items).events.map(({ key }) => key)

test('a deal event is read in the old form and in the new one', () => {
  const of = { accountId: '456', dealId: '123', property: 'stage', value: 'closedwon' }
  const read = { ...of, occurredAt: new Date(1_767_225_600_000) }
  const inNewForm = { ...item, subscriptionType: 'object.propertyChange', objectTypeId: '0-3' }
  expect(dealEvents([item, inNewForm]).events).toMatchObject([read, read])
})

test.each([
  ['the id of another event', { eventId: 2 }],
  ['a later attempt', { attemptNumber: 5 }],
  ['an id written as text', { objectId: '123' }],
  // An app that declares both kinds of subscription gets each change twice.
  ['the other kind', { subscriptionType: 'object.propertyChange', objectTypeId: '0-3' }],
])('%s makes no other event', (_, part) => {
  expect(keysOf({ ...item, ...part })).toEqual(keysOf(item))
})

test('each other portal, deal, stage or time makes another event', () => {
  const keys = keysOf(
    item,
    { ...item, portalId: 457 },
    { ...item, objectId: 124 },
    { ...item, propertyValue: 'closedlost' },
    { ...item, occurredAt: 1_767_225_600_001 },
    // Parts of the key do not run into each other.
    { ...item, portalId: 1, objectId: 23 },
    { ...item, portalId: 12, objectId: 3 },
  )
  expect(new Set(keys).size).toBe(7)
})

test('what is no deal event is left out and the rest is kept; what is about a deal in another form is counted', () => {
  const others = [
    { ...item, subscriptionType: 'contact.propertyChange' },
    { subscriptionType: 'deal.creation', objectId: 5 },
    { ...item, subscriptionType: 'object.propertyChange', objectTypeId: '0-1' },
    { ...item, propertyName: 'hs_next_step', propertyValue: 5 },
  ]
  const notUnderstood = [
    ...[null, 1, 'text', [], {}],
    { ...item, propertyName: 'amount', propertyValue: 5 },
    { ...item, propertyValue: null },
    { ...item, propertyValue: '' },
    { ...item, propertyValue: 'a\0b' },
    { ...item, propertyValue: 'x'.repeat(256) },
    { ...item, objectId: 2 ** 53 },
    { ...item, occurredAt: '1767225600000' },
    { ...item, occurredAt: 8e15 },
  ]
  const read = dealEvents([...others, ...notUnderstood, item, ...others])
  expect(read.events).toHaveLength(1)
  expect(read.notUnderstood).toBe(notUnderstood.length)
})
