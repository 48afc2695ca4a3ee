import { describe, expect, test } from 'vitest'
import type { AvailableRuleId } from '../../contract/rules.ts'
import type { Stage } from '../../server/providers/deal.ts'
import { fitsSlack, slackMessage } from '../../server/providers/slack/blocks.ts'
import { formatAmount } from '../../server/relay/decide/amount.ts'
import { type Change, dealRules } from '../../server/relay/decide/rules.ts'
import { digestOf } from '../../server/relay/write/digest.ts'
import {
  type DealInMessage,
  entryOf,
  type MessageEntry,
  messageFor,
  plainMessageFor,
} from '../../server/relay/write/message.ts'
import { shownOfEntry } from '../../server/relay/write/shown.ts'
import { readBlocks } from '../../stand-ins/slack/blocks.ts'
import { invisibleTexts, longCharacters } from '../hostile-strings.ts'
import { stageMove, stages } from './change.ts'
import { shownIn } from './hubspot-webhook.ts'

const { open, next, won } = stages
const deal: DealInMessage = {
  name: 'Acme renewal',
  amount: '12500.5',
  currency: 'EUR',
  ownerName: null,
  url: 'https://app.hubspot.com/contacts/456/record/0-3/123',
}

const message = (change: Change, ruleId: AvailableRuleId, about = deal) =>
  slackMessage(
    messageFor({
      deal: about,
      ownerId: null,
      headline: dealRules[ruleId].headline(change),
      ruleId,
    }),
  )

function digest(entries: readonly MessageEntry[]) {
  const { message, covers } = digestOf(entries, fitsSlack)
  return { ...slackMessage(message), covers }
}

test('a won deal shows its name as a link, both stages, the amount, the owner and the rule', () => {
  const { text, blocks } = message(stageMove(next, won), 'deal-closed', {
    ...deal,
    ownerName: 'Ada Byron',
  })
  expect(text).toBe('🎉 Acme renewal was won (€12,500.50)')
  expect(shownIn(blocks)).toEqual([
    '🎉 <https://app.hubspot.com/contacts/456/record/0-3/123|Acme renewal> was won\nProposal → *Hurra*  ·  €12,500.50  ·  Owner: Ada Byron',
    'Notify me when a deal is signed or closed (won/lost)',
  ])
})

test('an owner who is a member is mentioned, and pipeline and close date share a line', () => {
  const change = stageMove(open, { ...next, pipeline: 'Renewals\n<!channel>' })
  change.deal.closeDate = new Date('2027-01-31T22:00:00Z')
  const ruleId = 'deal-stage-changed' as const
  const headline = dealRules[ruleId].headline(change)
  const entry = entryOf(change, { ruleId, headline }, { occurredAt: new Date(5), atMs: 5 })
  entry.deal.ownerInChat = 'U1'
  expect(
    shownIn(slackMessage(messageFor(entry)).blocks)[0]
      ?.split('\n')
      .slice(1),
  ).toEqual([
    'Closed won → *Proposal*  ·  €12,500.50  ·  Owner: <@U1>',
    'Pipeline: Renewals <!channel>  ·  Close date: 2027-01-31',
  ])
})

const unlinked = stageMove(open, next, { linked: false })
const orphan = { ruleId: 'deal-stage-changed-orphan' } as const
test.each([
  ['Acme renewal moved to Proposal', stageMove(undefined, next), 'deal-stage-changed'],
  ['No contact or company on this deal', unlinked, orphan.ruleId],
] as const)('a message says “%s”, and names no owner that is not known', (said, change, ruleId) => {
  const shown = JSON.stringify(message(change, ruleId))
  expect(shown).toContain(said)
  expect(shown).not.toContain('Owner')
})

/** A change of which all text of the CRM is `nasty`. */
function entryWith(nasty: string): MessageEntry {
  const named = { ...next, label: nasty }
  const change = stageMove({ ...open, label: nasty }, named, { linked: false })
  const headline = dealRules[orphan.ruleId].headline(change)
  const about = { ...deal, name: nasty, ownerName: nasty, currency: nasty, amount: nasty }
  return { deal: about, ownerId: null, headline, pipeline: nasty, ...orphan }
}

/** A message and a digest about it. */
function messagesWith(nasty: string) {
  const entry = entryWith(nasty)
  return [slackMessage(messageFor(entry)), digest([entry])]
}

test('Slack takes each message, whatever the texts of the CRM are', () => {
  for (const nasty of [
    ...invisibleTexts,
    ...longCharacters,
    'x'.repeat(50_000),
    '&'.repeat(9_000),
  ]) {
    for (const { text, blocks } of [
      ...messagesWith(nasty),
      slackMessage(plainMessageFor(entryWith(nasty))),
    ]) {
      expect(readBlocks(text, blocks.length > 0 ? blocks : undefined)).toEqual(blocks)
    }
  }
})

test.each([
  '<!channel> & <@U1>|x> <!here>',
  '*bold* _it_ ~no~ `code` ```code```',
  'see https://evil.example/login',
  '@channel #general :tada:',
])('text from the CRM stays text: %s', (nasty) => {
  for (const { text, blocks } of messagesWith(nasty)) {
    // In these, Slack parses nothing. `shownIn` refuses all other elements.
    const [line] = shownIn(blocks).filter((shown) => shown.includes(`<${deal.url}|${nasty}>`))
    expect(line).toContain(`${nasty} → `)
    const addresses = JSON.stringify(blocks).match(/"url":"[^"]*"/g)
    expect(addresses).toEqual([`"url":"${deal.url}"`])
    expect(text).not.toMatch(/[<>]/)
  }
  expect(messagesWith(nasty)[0]?.text).toContain(
    nasty.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;'),
  )
})

test('text from the CRM cannot change the direction of what follows', () => {
  const marks = '\u061C\u200E\u200F\u202A\u202B\u202C\u202D\u202E\u2066\u2067\u2068\u2069'
  for (const { text, blocks } of messagesWith(`${marks}to\u202Etal${marks}\n`)) {
    expect(JSON.stringify({ text, blocks })).not.toMatch(/\p{Bidi_Control}/u)
    expect(shownIn(blocks).join('\n')).toContain(`<${deal.url}|total>`)
  }
})

test('only text from right to left stands in an isolation, which it cannot leave', () => {
  const hebrew = 'הצעה'
  for (const { text, blocks } of messagesWith(`\u2069\u202E${hebrew}\u2067`)) {
    const all = [text, ...shownIn(blocks)].join('\n')
    // The mark is for chats that look for the first letter inside it, too.
    expect(all).toContain(`\u200E\u2068${hebrew}\u2069`)
    expect(all.replaceAll(/\u200E\u2068[^\n\u2066-\u2069]*\u2069/g, '')).not.toMatch(
      /\p{Bidi_Control}|\p{Script=Hebrew}/u,
    )
  }
  // The page isolates with elements.
  expect(shownOfEntry(entryWith(hebrew))).toMatchObject({ dealName: hebrew, to: hebrew })
})

test.each(invisibleTexts)('a text of which nobody sees anything is not shown: %j', (text) => {
  for (const { blocks } of messagesWith(text)) {
    const lines = shownIn(blocks).join('\n').replaceAll('*', '')
    expect(lines).toContain(`<${deal.url}|Unnamed deal>`)
    // A stage without a label is shown by its id.
    expect(lines).toContain(`${open.id} → ${next.id}  ·  No contact`)
    expect(lines).not.toMatch(/Owner|Pipeline/)
    expect(JSON.stringify(blocks)).not.toContain('"text":""')
  }
  const shown = { dealName: undefined, from: open.id, to: next.id }
  expect(shownOfEntry(entryWith(text))).toMatchObject(shown)
})

test.each(longCharacters)('no text is cut inside a character: %s', (character) => {
  const whole = new RegExp(`^x*(${character})+…$`, 'u')
  for (let before = 0; before < 12; before++) {
    const nasty = 'x'.repeat(before) + character.repeat(200)
    const { dealName, from, to } = shownOfEntry(entryWith(nasty))
    const texts = messagesWith(nasty).flatMap(
      ({ blocks }) =>
        shownIn(blocks)
          .join('\n')
          .match(/[^\s*|]+…/gu) ?? [],
    )
    expect(texts.length).toBeGreaterThan(8)
    for (const text of [dealName, from, to, ...texts]) expect(text).toMatch(whole)
  }
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
  const textsOf = (entries: readonly MessageEntry[]) => shownIn(digest(entries).blocks)

  test('counts a deal once that moved twice, and adds up each currency by itself', () => {
    const twice = [
      entry(1, stageMove(open, won), { amount: '1.5' }),
      entry(1, stageMove(won, next), { amount: '1.5' }),
      entry(1, stageMove(next, won), { amount: '1.5' }),
      entry(2, stageMove(next, won), { amount: '10', currency: 'usd' }),
      entry(3, stageMove(next, won), { amount: '20', currency: 'USD' }),
      entry(4, stageMove(next, won), { amount: 'a lot' }),
      entry(5, stageMove(next, won), { amount: '0.1', currency: 'usdt' }),
      entry(6, stageMove(next, won), { amount: '0.2', currency: 'USDT' }),
      entry(7, stageMove(next, won), { amount: '1', currency: null }),
      entry(8, stageMove(next, won), { amount: '2', currency: '' }),
    ]
    expect(digest(twice).text).toBe('8 deals moved · 8 won, €1.50, $30, 0.3 USDT, 3')
  })

  test('groups the deals by what happened, in the order of the events', () => {
    const entries = [
      entry(1, moved, { amount: '1200' }),
      entry(2, stageMove(next, won), { ruleId: 'deal-closed' }),
      entry(3, unlinked, orphan),
      entry(4, stageMove(undefined, won), { late: new Date('2026-11-22T01:02:03Z') }),
    ]
    expect(textsOf(entries)).toEqual([
      '*4 deals moved · 2 won*',
      [
        '🔔 *Moved to Proposal*',
        '• <https://crm.example/1|Deal 1>  Closed won → Proposal  ·  €1,200',
        '• <https://crm.example/3|Deal 3>  Closed won → Proposal  ·  No contact or company on this deal',
      ].join('\n'),
      [
        '🎉 *Won*',
        '• <https://crm.example/2|Deal 2>  Proposal → Hurra',
        '• <https://crm.example/4|Deal 4>  Hurra  ·  late: from 2026-11-22 01:02 UTC',
      ].join('\n'),
      [
        'Notify me when a deal stage changes',
        'Notify me when a deal is signed or closed (won/lost)',
        'Notify me when a deal moves stage without a contact or company associated',
      ].join('\n'),
    ])
  })

  const ofItsOwn = (n: number): Stage => ({ ...next, label: `${n} ${'&'.repeat(500)}` })
  test.each([
    ['in one group', (): Stage => next],
    ['in a group for each deal', ofItsOwn],
  ])('of thirty deals with the longest names, %s, stays within Slack’s limits', (_, to) => {
    const nasty = '<!channel>&'.repeat(100)
    const url = `https://app.hubspot.com/contacts/${'9'.repeat(10)}/record/0-3/${'9'.repeat(15)}`
    const from = { ...open, label: nasty }
    let left = times(30, (n) =>
      entry(n, stageMove(from, to(n)), { name: nasty, amount: '1e15', url: `${url}${n}` }),
    )
    while (left.length > 0) {
      const { blocks, covers } = digest(left)
      expect(blocks.length).toBeLessThanOrEqual(50)
      expect(JSON.stringify(blocks).length).toBeLessThanOrEqual(9_000)
      expect(JSON.stringify(blocks).match(/\/record\//g)).toHaveLength(covers)
      left = left.slice(covers)
    }
  })
})

test.each([
  ['1200', 'USD', '$1,200'],
  ['12.5', 'usd', '$12.50'],
  ['1234567.891', 'EUR', '€1,234,567.89'],
  ['-1200', 'EUR', '-€1,200'],
  ['1200', 'JPY', '¥1,200'],
  ['12.5', 'DEM', 'DEM\u00A012.50'],
  // The usual decimals would show 0.
  ['0.004', 'USD', '$0.004'],
  ['-0.004', 'USD', '-$0.004'],
  ['0.4', 'JPY', '¥0.4'],
  ['0.00', 'USD', '$0'],
  ['-0', 'USD', '$0'],
  // Nobody knows how many decimals are usual.
  ['0.004', 'BTC', 'BTC\u00A00.004'],
  ['1.23456789', 'btc', 'BTC\u00A01.23456789'],
  ['1200.5', null, '1,200.5'],
  ['0.0004', '', '0.0004'],
  // A code that is none is a text of others.
  ['1500', 'USDT', '1,500 USDT'],
  ['1500', 'US', '1,500 US'],
  ['1200', ' doll\u202Ears\n', '1,200 DOLLARS'],
  ['1200', '\u200B', '1,200'],
  ['1200', 'x'.repeat(500), `1,200 ${'X'.repeat(19)}…`],
  ['1200', 'ש״ח', '1,200 \u200E\u2068ש״ח\u2069'],
  // No amount fills lines with digits.
  ['0.000000001', 'BTC', 'BTC\u00A00.000000001'],
  ['1e-9', null, '0.000000001'],
  [`0.${'3'.repeat(500)}`, 'BTC', `BTC\u00A00.${'3'.repeat(15)}`],
  ['1e15', 'USD', '$1,000,000,000,000,000'],
  ['1e21', 'USD', '$1E21'],
  ['-1e300', 'USDT', '-1E300 USDT'],
  ['1e-300', 'USD', '$1E-300'],
  [null, 'USD', undefined],
  [' ', 'USD', undefined],
  ['a lot', 'USD', undefined],
  ['NaN', 'USD', undefined],
  ['1e400', 'USD', undefined],
] as const)('amount %j in %j is %j', (amount, currency, text) => {
  expect(formatAmount(amount, currency)).toBe(text)
})
