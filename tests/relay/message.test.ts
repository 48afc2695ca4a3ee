import { expect, test } from 'vitest'
import type { Stage } from '../../server/providers/provider.ts'
import { formatAmount, messageFor } from '../../server/relay/message.ts'

const proposal: Stage = { id: '1', label: 'Proposal', outcome: 'open' }
const won: Stage = { id: '2', label: 'Closed won', outcome: 'won' }
const deal = {
  name: 'Acme renewal',
  amount: '12500.5',
  currency: 'EUR',
  ownerName: null,
  url: 'https://app.hubspot.com/contacts/456/record/0-3/123',
}

test('a won deal: its name as a link, both stages, the amount and the rule', () => {
  const message = messageFor(deal, { from: proposal, to: won, linked: true }, 'deal-closed')
  expect(message.text).toBe('🎉 Acme renewal was won (€12,500.50)')
  expect(message.blocks).toEqual([
    {
      type: 'section',
      text: {
        type: 'mrkdwn',
        text: '🎉 *<https://app.hubspot.com/contacts/456/record/0-3/123|Acme renewal>* was won\nProposal → *Closed won*  ·  €12,500.50',
      },
    },
    {
      type: 'context',
      elements: [{ type: 'mrkdwn', text: 'Notify me when a deal is signed or closed (won/lost)' }],
    },
  ])
})

test('a lost deal says so, and an open one where it went', () => {
  const lost: Stage = { id: '3', label: 'Nope', outcome: 'lost' }
  expect(messageFor(deal, { from: won, to: lost, linked: true }, 'deal-closed').text).toContain(
    'Acme renewal was lost',
  )
  expect(
    messageFor(deal, { from: undefined, to: proposal, linked: true }, 'deal-stage-changed').text,
  ).toContain('Acme renewal moved to Proposal')
})

test('a deal’s owner stands in the message where the name is known', () => {
  const move = { from: proposal, to: won, linked: true }
  const [section] = messageFor({ ...deal, ownerName: 'Ada Byron' }, move, 'deal-closed').blocks
  expect(section).toMatchObject({
    text: { text: expect.stringMatching(/· {2}Owner: Ada Byron$/) },
  })
  expect(JSON.stringify(messageFor(deal, move, 'deal-closed'))).not.toContain('Owner')
})

test('nothing that comes from the CRM can ring everyone or break out of the link', () => {
  const nasty = '<!channel> & <@U1>|x>\n<!here>'
  const message = messageFor(
    { ...deal, name: nasty, ownerName: nasty, currency: nasty, amount: nasty },
    {
      from: { id: 'x', label: nasty, outcome: 'open' },
      to: { id: 'y', label: nasty, outcome: 'open' },
      linked: false,
    },
    'deal-stage-changed-orphan',
  )
  const printed = JSON.stringify(message).replace(
    '<https://app.hubspot.com/contacts/456/record/0-3/123|',
    '',
  )
  // One bracket is left: the one that ends our own link.
  expect(printed.match(/[<>]/g)).toEqual(['>'])
  expect(message.text).toContain('&lt;!channel&gt; &amp; &lt;@U1&gt;|x&gt; &lt;!here&gt;')
})

test('a deal without a name, and one with an endless name, stay readable', () => {
  const move = { from: proposal, to: won, linked: true }
  expect(messageFor({ ...deal, name: null }, move, 'deal-closed').text).toContain('Unnamed deal')
  expect(messageFor({ ...deal, name: ' \n ' }, move, 'deal-closed').text).toContain('Unnamed deal')
  const long = messageFor({ ...deal, name: '💥'.repeat(5000) }, move, 'deal-closed')
  expect(long.text.length).toBeLessThan(400)
  expect(long.text.isWellFormed()).toBe(true)
})

test.each([
  ['1200', 'USD', '$1,200.00'],
  ['1200', 'JPY', '¥1,200'],
  ['0', 'EUR', '€0.00'],
  ['1200.5', null, '1,200.5'],
  ['1200', 'dollars', '1,200'],
  ['', 'USD', undefined],
  [null, 'USD', undefined],
  ['a lot', 'USD', undefined],
] as const)('amount %s in %s is %s', (amount, currency, text) => {
  expect(formatAmount(amount, currency)).toBe(text)
})
