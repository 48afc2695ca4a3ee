import { beforeEach, expect, test } from 'vitest'
import { deliveries } from '../../server/database/schema.ts'
import { shownIn } from './hubspot-webhook.ts'
import { backend, connect, outside, posts, shareBackend, tell } from './shared.ts'

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
  ['answers with something else', 200, { ok: true, user: { id: '<!channel>' } }],
])('if the look-up %s, this costs the mention and never the message', async (_, status, body) => {
  lookUpAnswer = { status, body }
  await tell([1])
  await backend.settled()
  expect([owners(), lookUps()]).toEqual([['ada!'], 1])
  expect(backend.lines.join()).toContain('"event":"owner not mentioned"')
})
