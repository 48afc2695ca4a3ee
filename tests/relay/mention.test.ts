import { beforeEach, expect, test, vi } from 'vitest'
import { deliveries } from '../../server/database/schema.ts'
import { ProviderError } from '../../server/providers/provider.ts'
import { createMentions } from '../../server/relay/send/mention.ts'
import type { OpenRoute } from '../../server/relay/send/ready.ts'
import { shownIn } from './hubspot-webhook.ts'
import { backend, connect, hour, minute, outside, posts, shareBackend, tell } from './shared.ts'

shareBackend('PGlite', { settings: { MENTION_OWNERS: 'true' } })

const lookUp = '/slack/api/users.lookupByEmail'
const lookUps = () => outside.reads.filter((path) => path === lookUp).length
/** How Slack answers a look-up; undefined is its usual answer. */
let answerLookUp: typeof outside.answerRead

/** Deals with an odd number belong to Ada, whom Slack knows, and the others to Bob, whom it does not know. */
beforeEach(async () => {
  await connect()
  answerLookUp = () => undefined
  outside.members.set('ada@acme.example', 'U7ADA')
  for (let deal = 1; deal <= 6; deal++) {
    outside.deals.set(`${deal}`, { ownerId: deal % 2 === 1 ? 'ada' : 'bob' })
  }
  outside.answerRead = (path, token) => {
    if (path === lookUp) return answerLookUp(path, token)
    const id = path.split('/owners/2026-03/')[1]
    if (id === undefined) return undefined
    return { status: 200, body: { id, firstName: `${id}!`, email: `${id}@acme.example` } }
  }
})

const owners = () =>
  posts().map(({ blocks }) => shownIn(blocks)[0]?.match(/Owner: (\S+)/)?.[1] ?? 'no owner')

test('a message mentions the owner if Slack knows the e-mail address, and says the name otherwise', async () => {
  await tell([1, 2, 3])
  await backend.settled()
  expect(owners()).toEqual(['<@U7ADA>', 'bob!', '<@U7ADA>'])
  // Slack is asked once for an owner. Neither the log nor the database has an address.
  expect(lookUps()).toBe(2)
  const kept = [backend.lines, await backend.database.select().from(deliveries)]
  expect(JSON.stringify(kept)).not.toContain('@acme')
})

test('a digest mentions nobody', async () => {
  await tell([1, 2, 3, 4, 5, 6])
  await backend.settled()
  expect(posts()).toHaveLength(1)
  expect([owners(), lookUps()]).toEqual([['no owner'], 0])
})

test.each([
  ['lacks the scope', 200, { ok: false, error: 'missing_scope' }],
  ['no longer accepts the token', 200, { ok: false, error: 'invalid_auth' }],
  ['wants fewer calls', 429, {}],
  ['fails', 500, {}],
  ['answers with something else', 200, { ok: true, user: { id: '<!channel>' } }],
])('if the look-up %s, this costs the mention and never the message', async (_, status, body) => {
  answerLookUp = () => ({ status, body })
  await tell([1])
  await backend.settled()
  expect([owners(), lookUps()]).toEqual([['ada!'], 1])
  expect(backend.lines.join()).toContain('"event":"owner not mentioned"')
})

test('an answer counts for an hour, a refusal until the user connects again, an error as long as Slack says', async () => {
  let now = 1_000 * hour
  const ask = vi.fn(async (_: object, email: string) => (email === 'ada@x' ? 'U1' : undefined))
  const slack = { ...backend.providers.slack, memberWithEmail: ask }
  const providers = { ...backend.providers, slack }
  const vault = { ...backend.vault, open: () => '{"accessToken":"x"}' }
  const memberFor = createMentions({ providers, vault, log() {} }, () => now)
  const row = { id: 'c1', provider: 'slack', accountId: 'T1', userId: 'u', secrets: '' }
  const chatSince = (connectedAt: Date) => ({ ...row, connectedAt }) as OpenRoute['chat']
  const chat = chatSince(new Date(0))
  const asked = async (email: string, by = chat) => {
    const before = ask.mock.calls.length
    const id = await memberFor(by, email)
    return [id, ask.mock.calls.length - before]
  }
  const fails = (...of: ['refused' | 'unreachable', string, number?]) =>
    ask.mockRejectedValueOnce(new ProviderError('slack', 'read', ...of))

  expect(await Promise.all([asked('ada@x'), memberFor(chat, 'Ada@x')])).toEqual([['U1', 1], 'U1'])
  expect(await asked('bob@x')).toEqual([undefined, 1])
  now += hour - 1
  expect([await asked('ada@x'), await asked('bob@x')]).toEqual([
    ['U1', 0],
    [undefined, 0],
  ])
  now += 1
  expect(await asked('bob@x')).toEqual([undefined, 1])

  fails('unreachable', 'ratelimited', 5 * minute)
  expect(await asked('ada@x')).toEqual([undefined, 1])
  now += 5 * minute - 1
  expect(await asked('ada@x', chatSince(new Date(1)))).toEqual([undefined, 0])
  now += 1
  fails('refused', 'missing_scope')
  expect(await asked('ada@x')).toEqual([undefined, 1])
  now += 59 * minute
  expect(await asked('ada@x')).toEqual([undefined, 0])
  expect(await asked('ada@x', chatSince(new Date(1)))).toEqual(['U1', 1])
})
