import { expect, test } from 'vitest'
import type { AvailableRuleId } from '../../contract/rules.ts'
import { formatAmount } from '../../server/relay/amount.ts'
import { type DealInMessage, messageFor } from '../../server/relay/message.ts'
import { type Change, dealRules } from '../../server/relay/rules.ts'
import { stageMove, stages } from './change.ts'

const { open, next, won, lost } = stages
const deal: DealInMessage = {
  name: 'Acme renewal',
  amount: '12500.5',
  currency: 'EUR',
  ownerName: null,
  url: 'https://app.hubspot.com/contacts/456/record/0-3/123',
}

const message = (change: Change, ruleId: AvailableRuleId, about = deal) =>
  messageFor({ deal: about, ownerId: null, headline: dealRules[ruleId].headline(change), ruleId })

test('a won deal: its name as a link, both stages, the amount and the rule', () => {
  const { text, blocks } = message(stageMove(next, won), 'deal-closed')
  expect(text).toBe('🎉 Acme renewal was won (€12,500.50)')
  expect(blocks).toEqual([
    {
      type: 'section',
      text: {
        type: 'mrkdwn',
        text: '🎉 *<https://app.hubspot.com/contacts/456/record/0-3/123|Acme renewal>* was won\nProposal → *Hurra*  ·  €12,500.50',
      },
    },
    {
      type: 'context',
      elements: [{ type: 'mrkdwn', text: 'Notify me when a deal is signed or closed (won/lost)' }],
    },
  ])
})

test('a lost deal and an open deal', () => {
  expect(message(stageMove(won, lost), 'deal-closed').text).toContain('Acme renewal was lost')
  expect(message(stageMove(undefined, next), 'deal-stage-changed').text).toContain(
    'Acme renewal moved to Proposal',
  )
})

test('the deal’s owner is in the message when the name is known', () => {
  const move = stageMove(open, won)
  const [section] = message(move, 'deal-closed', { ...deal, ownerName: 'Ada Byron' }).blocks
  expect(section).toMatchObject({
    text: { text: expect.stringMatching(/· {2}Owner: Ada Byron$/) },
  })
  expect(JSON.stringify(message(move, 'deal-closed'))).not.toContain('Owner')
})

test('a deal without links says so', () => {
  const orphan = message(stageMove(open, next, { linked: false }), 'deal-stage-changed-orphan')
  expect(JSON.stringify(orphan)).toContain('No contact or company on this deal')
})

test('nothing from the CRM can notify everyone or break out of the link', () => {
  const nasty = '<!channel> & <@U1>|x>\n<!here>'
  const { text, blocks } = message(
    stageMove(
      { id: 'x', label: nasty, outcome: 'open' },
      { id: 'y', label: nasty, outcome: 'open' },
      { linked: false },
    ),
    'deal-stage-changed-orphan',
    { ...deal, name: nasty, ownerName: nasty, currency: nasty, amount: nasty },
  )
  const printed = JSON.stringify({ text, blocks }).replace(
    '<https://app.hubspot.com/contacts/456/record/0-3/123|',
    '',
  )
  // One bracket is left: the end of our own link.
  expect(printed.match(/[<>]/g)).toEqual(['>'])
  expect(text).toContain('&lt;!channel&gt; &amp; &lt;@U1&gt;|x&gt; &lt;!here&gt;')
})

test('a deal without a name, and one with an endless name, stay readable', () => {
  const move = stageMove(open, won)
  const named = (name: string | null) => message(move, 'deal-closed', { ...deal, name }).text
  expect(named(null)).toContain('Unnamed deal')
  expect(named(' \n ')).toContain('Unnamed deal')
  expect(named('💥'.repeat(5000)).length).toBeLessThan(400)
  expect(named('💥'.repeat(5000)).isWellFormed()).toBe(true)
  const endless = { id: 'y', label: '💥'.repeat(5000), outcome: 'open' as const }
  expect(
    JSON.stringify(message(stageMove(open, endless), 'deal-stage-changed')).length,
  ).toBeLessThan(1000)
})

test.each([
  ['1200', 'USD', '$1,200'],
  ['1200', 'JPY', '¥1,200'],
  ['0', 'EUR', '€0'],
  ['1200.5', null, '1,200.5'],
  ['1200', 'dollars', '1,200'],
  ['', 'USD', undefined],
  [null, 'USD', undefined],
  ['a lot', 'USD', undefined],
] as const)('amount %s in %s is %s', (amount, currency, text) => {
  expect(formatAmount(amount, currency)).toBe(text)
})
