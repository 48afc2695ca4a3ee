import { beforeEach, expect, test, vi } from 'vitest'
import { deliveries } from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { ProviderError } from '../../server/providers/provider-error.ts'
import { createMentions } from '../../server/relay/send/mention.ts'
import type { OpenRoute } from '../../server/relay/send/ready.ts'
import { shownIn } from './hubspot-webhook.ts'
import { backend, connect, minute, outside, posts, shareBackend, tell } from './shared.ts'

shareBackend('PGlite', { settings: { MENTION_OWNERS: 'true' } })

const lookUp = '/slack/api/users.lookupByEmail'
const lookUps = () => outside.reads.filter((path) => path === lookUp).length
/** How Slack answers a look-up; undefined is its usual answer. */
let lookUpAnswer: ReturnType<typeof outside.answerRead>

/** Deals with an odd number belong to Ada, whom Slack knows, and the others to Bob, whom it does not know. */
beforeEach(async () => {
  await connect()
  lookUpAnswer = undefined
  outside.members.set('ada@acme.example', 'U7ADA')
  for (let deal = 1; deal <= 6; deal++) {
    outside.deals.set(`${deal}`, { ownerId: deal % 2 === 1 ? 'ada' : 'bob' })
  }
  outside.answerRead = (path) => {
    if (path === lookUp) return lookUpAnswer
    const id = path.split('/owners/2026-03/')[1]
    if (id === undefined) return undefined
    return { status: 200, body: { id, firstName: `${id}!`, email: `${id}@acme.example` } }
  }
})

const ownerIn = (text: string) => /Owner: ([^ ,]+)/.exec(text)?.[1] ?? 'no owner'
const owners = () => posts().map(({ blocks }) => ownerIn(shownIn(blocks).join()))

test('a message mentions the owner if Slack knows the e-mail address, and else says the name; a digest does neither', async () => {
  await tell([1, 2, 3])
  await backend.settled()
  expect(owners()).toEqual(['<@U7ADA>', 'bob!', '<@U7ADA>'])
  // Slack is asked once for an owner. Neither the log nor the database has an address.
  expect(lookUps()).toBe(2)
  const kept = [backend.lines, await backend.database.select().from(deliveries)]
  expect(JSON.stringify(kept)).not.toContain('@acme')

  await tell([1, 2, 3, 4, 5, 6])
  await backend.settled()
  expect(owners().slice(3)).toEqual(['no owner'])
})

test.each([
  ['lacks the scope', 200, { ok: false, error: 'missing_scope' }],
  ['wants fewer calls', 429, {}],
  ['fails', 500, {}],
  ['answers with something else', 200, { ok: true, user: { id: '<!channel>' } }],
])('if the look-up %s, this costs the mention and never the message', async (_, status, body) => {
  lookUpAnswer = { status, body }
  await tell([1])
  await backend.settled()
  expect([owners(), lookUps()]).toEqual([['ada!'], 1])
  expect(backend.lines.join()).toContain('"event":"owner not mentioned"')
})

test('an answer counts for an hour, a refusal until the user connects again, any other error as long as Slack says', async () => {
  let now = 0
  const ask = vi.fn(async (_: object, email: string) => (email === 'ada@x' ? 'U1' : undefined))
  const slack = { ...backend.providers.slack, memberWithEmail: ask }
  const vault = { ...backend.vault, open: () => '{"accessToken":"x"}' }
  const providers = { ...backend.providers, slack }
  const memberFor = createMentions({ providers, vault, log: logTo(() => {}) }, () => now)
  const chat = (connectedAt: number) =>
    ({ id: 'c', provider: 'slack', connectedAt: new Date(connectedAt) }) as OpenRoute['chat']
  /** Who is found after so many minutes, and how many calls Slack has got by then. */
  async function after(minutes: number, email: string, connectedAt = 0) {
    now = minutes * minute
    return [await memberFor(chat(connectedAt), email), ask.mock.calls.length]
  }
  const fails = (...of: ['refused' | 'unreachable', string, number?]) =>
    ask.mockRejectedValueOnce(new ProviderError('slack', 'read', ...of))

  await Promise.all([after(0, 'ada@x'), after(0, 'Ada@x')])
  expect(await after(0, 'bob@x')).toEqual([undefined, 2])
  expect(await after(59, 'ada@x')).toEqual(['U1', 2])
  expect(await after(59, 'bob@x')).toEqual([undefined, 2])
  expect(await after(60, 'bob@x')).toEqual([undefined, 3])
  fails('unreachable', 'ratelimited', 5 * minute)
  expect(await after(60, 'ada@x')).toEqual([undefined, 4])
  expect(await after(64, 'ada@x', 1)).toEqual([undefined, 4])
  fails('refused', 'missing_scope')
  expect(await after(65, 'ada@x')).toEqual([undefined, 5])
  expect(await after(124, 'ada@x')).toEqual([undefined, 5])
  expect(await after(124, 'ada@x', 1)).toEqual(['U1', 6])
  // What Slack says of a fault of its own counts for a minute.
  fails('refused', 'fatal_error')
  expect(await after(184, 'ada@x', 1)).toEqual([undefined, 7])
  expect(await after(185, 'ada@x', 1)).toEqual(['U1', 8])
})
