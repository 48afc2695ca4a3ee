import { expect, test } from 'vitest'
import { dealEvents } from '../../server/providers/hubspot/events.ts'

const item = {
  eventId: 1,
  subscriptionId: 7,
  portalId: 456,
  appId: 9,
  occurredAt: 1_767_225_600_000,
  subscriptionType: 'deal.propertyChange',
  attemptNumber: 0,
  objectId: 123,
  propertyName: 'dealstage',
  propertyValue: 'closedwon',
  changeSource: 'CRM_UI',
}

test('a deal event is read in the old form and in the new one', () => {
  expect(dealEvents([item])).toMatchObject([
    {
      accountId: '456',
      dealId: '123',
      property: 'stage',
      value: 'closedwon',
      occurredAt: new Date(1_767_225_600_000),
    },
  ])
  const inNewForm = { ...item, subscriptionType: 'object.propertyChange', objectTypeId: '0-3' }
  expect(dealEvents([inNewForm])).toHaveLength(1)
})

test.each([
  ['the id of another event', { eventId: 2 }],
  ['another subscription', { subscriptionId: 8 }],
  ['a later attempt', { attemptNumber: 5 }],
  ['another source', { changeSource: 'IMPORT' }],
  ['an id written as text', { objectId: '123' }],
  // An app that declares both kinds of subscription gets each change twice.
  ['the other kind', { subscriptionType: 'object.propertyChange', objectTypeId: '0-3' }],
])('%s makes no other event', (_, part) => {
  expect(dealEvents([{ ...item, ...part }])[0]?.key).toBe(dealEvents([item])[0]?.key)
})

test.each([
  ['portal', { portalId: 457 }],
  ['deal', { objectId: 124 }],
  ['stage', { propertyValue: 'closedlost' }],
  ['time', { occurredAt: 1_767_225_600_001 }],
])('another %s makes another event', (_, part) => {
  const [other] = dealEvents([{ ...item, ...part }])
  expect(other).toBeDefined()
  expect(other?.key).not.toBe(dealEvents([item])[0]?.key)
})

test('parts of the key do not run into each other', () => {
  const keys = dealEvents([
    { ...item, portalId: 1, objectId: 23 },
    { ...item, portalId: 12, objectId: 3 },
  ]).map(({ key }) => key)
  expect(new Set(keys).size).toBe(2)
})

test('what is no deal event is left out and the rest is kept', () => {
  const others = [
    null,
    1,
    'text',
    [],
    {},
    { ...item, subscriptionType: 'contact.propertyChange' },
    { ...item, subscriptionType: 'deal.creation' },
    { ...item, subscriptionType: 'object.propertyChange', objectTypeId: '0-1' },
    { ...item, subscriptionType: 'object.propertyChange' },
    { ...item, propertyName: 'hs_next_step' },
    { ...item, propertyValue: '' },
    { ...item, propertyValue: 5 },
    { ...item, propertyValue: 'a\0b' },
    { ...item, propertyValue: '\ud800' },
    { ...item, propertyValue: 'x'.repeat(256) },
    { ...item, objectId: 1.5 },
    { ...item, objectId: 'x' },
    { ...item, objectId: -1 },
    { ...item, portalId: null },
    { ...item, occurredAt: '1767225600000' },
    { ...item, occurredAt: -1 },
    { ...item, occurredAt: 8e15 },
    { ...item, occurredAt: Number.NaN },
  ]
  expect(dealEvents([...others, item, ...others])).toHaveLength(1)
})
