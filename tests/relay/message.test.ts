import { describe, expect, test } from 'vitest'
import type { AvailableRuleId } from '../../contract/rules.ts'
import type { Stage } from '../../server/providers/provider.ts'
import { formatAmount } from '../../server/relay/amount.ts'
import {
  type DealInMessage,
  digestOf,
  type MessageEntry,
  messageFor,
} from '../../server/relay/message.ts'
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

test('a change of the amount does not say the new amount twice', () => {
  const headline = { sign: '💰', happened: 'has a new amount', from: '€1', to: '€12,500.50' }
  const entry = { deal, ownerId: null, headline, ruleId: 'deal-closed' as const }
  expect(JSON.stringify(messageFor(entry).blocks).match(/12,500\.50/g)).toHaveLength(1)
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

describe('a digest', () => {
  const entry = (
    n: number,
    change: Change,
    { ruleId = 'deal-stage-changed', ...about }: Partial<DealInMessage & MessageEntry> = {},
  ): MessageEntry => ({
    ruleId,
    headline: dealRules[ruleId].headline(change),
    deal: { ...deal, name: `Deal ${n}`, amount: null, url: `https://crm.example/${n}`, ...about },
    ownerId: null,
    late: about.late,
  })
  const times = (count: number, make: (n: number) => MessageEntry) =>
    Array.from({ length: count }, (_, n) => make(n))
  const moved = stageMove(open, next)
  const textsOf = (entries: readonly MessageEntry[]) =>
    digestOf(entries).message.blocks.map((block) =>
      block.type === 'section' ? block.text.text : block.elements.map(({ text }) => text),
    )

  test('has the totals at the top: all that moved, and what of it was won or lost', () => {
    const entries = [
      ...times(15, (n) => entry(n, moved)),
      ...times(12, (n) =>
        entry(100 + n, stageMove(open, won), { ruleId: 'deal-closed', amount: '7000' }),
      ),
      ...times(3, (n) => entry(200 + n, stageMove(open, lost), { amount: '5' })),
    ]
    const { message, covers } = digestOf(entries)
    expect(covers).toBe(30)
    expect(message.text).toBe('30 deals moved · 12 won, €84,000 · 3 lost')
    expect(textsOf(entries)[0]).toBe(`*${message.text}*`)
  })

  test('counts a deal once that moved twice, and adds up each currency by itself', () => {
    const twice = [
      entry(1, stageMove(open, won), { amount: '1.5' }),
      entry(1, stageMove(won, next), { amount: '1.5' }),
      entry(1, stageMove(next, won), { amount: '1.5' }),
      entry(2, stageMove(next, won), { amount: '10', currency: 'usd' }),
      entry(3, stageMove(next, won), { amount: '20', currency: 'USD' }),
      entry(4, stageMove(next, won), { amount: 'a lot' }),
    ]
    expect(digestOf(twice).message.text).toBe('4 deals moved · 4 won, €1.50, $30')
  })

  test('says of a deal that was created closed that it was won, not that it moved', () => {
    const created = times(2, (n) => entry(n, stageMove(null, won), { ruleId: 'deal-closed' }))
    expect(digestOf(created).message.text).toBe('2 deals won')
    expect(textsOf(created)[1]).toContain('|Deal 0>  *Hurra*')
  })

  test('groups the deals by what happened, in the order of the events', () => {
    const orphan = { ruleId: 'deal-stage-changed-orphan' } as const
    const entries = [
      entry(1, moved, { amount: '1200' }),
      entry(2, stageMove(next, won), { ruleId: 'deal-closed' }),
      entry(3, stageMove(open, next, { linked: false }), orphan),
      entry(4, stageMove(undefined, won), { late: new Date('2026-11-22T01:02:03Z') }),
    ]
    expect(textsOf(entries)).toEqual([
      '*4 deals moved · 2 won*',
      [
        '🔔 *Moved to Proposal*',
        '• <https://crm.example/1|Deal 1>  Closed won → *Proposal*  ·  €1,200',
        '• <https://crm.example/3|Deal 3>  Closed won → *Proposal*  ·  No contact or company on this deal',
      ].join('\n'),
      [
        '🎉 *Won*',
        '• <https://crm.example/2|Deal 2>  Proposal → *Hurra*',
        '• <https://crm.example/4|Deal 4>  *Hurra*  ·  late: from <!date^1795309323^{date_short_pretty} {time}|2026-11-22 01:02 UTC>',
      ].join('\n'),
      [
        'Notify me when a deal stage changes',
        'Notify me when a deal is signed or closed (won/lost)',
        'Notify me when a deal moves stage without a contact or company associated',
      ],
    ])
  })

  test.each([
    ['in one group', (): Stage => next],
    [
      'in a group for each deal',
      (n: number): Stage => ({ ...next, label: `${n} ${'&'.repeat(500)}` }),
    ],
  ])('of thirty deals with the longest names, %s, stays within Slack’s limits', (_, to) => {
    const nasty = '<!channel>&'.repeat(100)
    const url = `https://app.hubspot.com/contacts/${'9'.repeat(10)}/record/0-3/${'9'.repeat(15)}`
    let left = times(30, (n) =>
      entry(n, stageMove({ ...open, label: nasty }, to(n)), {
        name: nasty,
        amount: '1e15',
        url: `${url}${n}`,
      }),
    )
    while (left.length > 0) {
      const { message, covers } = digestOf(left)
      const { blocks } = message
      const texts = blocks.flatMap((block) =>
        block.type === 'section' ? [block.text.text] : block.elements.map(({ text }) => text),
      )
      expect(blocks.length).toBeLessThanOrEqual(50)
      expect(Math.max(...texts.map((text) => text.length))).toBeLessThanOrEqual(3_000)
      expect(JSON.stringify(blocks).length).toBeLessThanOrEqual(9_000)
      expect(texts.join().match(/<(?!https:)/g)).toBeNull()
      expect(texts.join().match(/\/record\//g)).toHaveLength(covers)
      left = left.slice(covers)
    }
  })

  test('of thirty deals with usual names covers all of them', () => {
    const url = `https://app.hubspot.com/contacts/12345678/record/0-3/1234567890`
    const entries = times(30, (n) =>
      entry(n, moved, {
        name: 'A deal with a name of fifty characters, more or less',
        amount: '12500',
        url: `${url}${n}`,
      }),
    )
    const { message, covers } = digestOf(entries)
    expect(covers).toBe(30)
    expect(JSON.stringify(message)).toContain(
      'A deal with a name of fifty characters, more or less',
    )
  })
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
