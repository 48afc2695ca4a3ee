import { eq } from 'drizzle-orm'
import { expect, test, vi } from 'vitest'
import { connections, deliveries } from '../../server/database/schema.ts'
import {
  ada,
  ben,
  callsOf,
  connect,
  edit,
  fault,
  newDeal,
  outcomes,
  search,
  shareCompany,
} from './pipedrive-company.ts'
import { ago, backend, hour, minute, outside, soon } from './shared.ts'

await shareCompany()

// What Ben's own Pipedrive hides from him. Its deals are Ada's.
const secret = 'Merger of Secret Corp'
const secretValue = 98_765
const hidden = /Secret Corp|98[.,]?765|Ada Admin/
const all = ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan']
const gone = ['ignored', 'no_such_deal']

const postsIn = (channel: string) => outside.posts.filter((post) => post.channel === channel)
const textsIn = (channel: string) => postsIn(channel).map(({ text }) => text)

/** All that the dashboard tells a user, as one text. */
async function toldTo(userId: string): Promise<string> {
  const list = 'notifications/activity'
  const paths = [
    ...[list, `${list}?q=Secret&counts=true`, `${list}?q=${secretValue}`],
    ...['sent', 'waiting', 'failed', 'skipped'].map(
      (state) => `${list}?state=${state}&counts=true`,
    ),
    ...['summary', 'preview', 'rules'].map((name) => `notifications/${name}`),
    ...['pipedrive/status', 'slack/status'],
  ]
  const answers = await Promise.all(paths.map((path) => backend.read(userId, path)))
  return JSON.stringify(answers)
}

test('a deal that a user may not see ends like a deleted one, whoever else reads it', async () => {
  const [a, b] = [await connect(ada, 'A', all), await connect(ben, 'B', all)]
  const mine = newDeal('Own deal', ben)
  edit(mine, { stage_id: 11 })
  // Ada has read all of it. Ben reads it himself.
  expect([await outcomes(a, 1), await outcomes(b, 1)]).toEqual([[['sent', null]], [['sent', null]]])
  const paths = ['/v2/deals/', '/v2/stages', '/v2/pipelines', '/v1/users/']
  for (const user of [ada, ben]) {
    const read = callsOf(user).map(({ path }) => path)
    for (const path of paths)
      expect(
        read.some((each) => each.includes(path)),
        path,
      ).toBe(true)
  }

  const theirs = newDeal(secret, ada, secretValue)
  const unlinked = newDeal(`${secret}, second part`, ada, secretValue)
  unlinked.data = { ...unlinked.data, person_id: null }
  edit(theirs, { stage_id: 11 })
  edit(unlinked, { stage_id: 11 })
  edit(theirs, { status: 'won' })
  expect((await outcomes(a, 4)).map(([state]) => state)).toEqual(Array(4).fill('sent'))
  expect(await outcomes(b, 4)).toEqual([['sent', null], gone, gone, gone])
  const nothing = { ruleId: null, dealName: null, fromLabel: null, toLabel: null }
  expect((await backend.shown(b)).slice(1)).toEqual([nothing, nothing, nothing])

  expect(textsIn('A').join()).toMatch(hidden)
  expect(textsIn('B')).toEqual([expect.stringContaining('Own deal')])
  expect(JSON.stringify(postsIn('B'))).not.toMatch(hidden)
  expect(await toldTo(b)).not.toMatch(hidden)
})

test.each([
  [403, 'you may not see its deals'],
  [402, 'the company has no paid plan any more'],
])(
  'a user to whom every read is answered with %i is told that, and loses no message silently',
  async (status, words) => {
    const [a, b] = [await connect(ada, 'A'), await connect(ben, 'B')]
    fault.current = ({ by, path }) =>
      by === ben && path.includes('/v2/deals')
        ? Response.json({ success: false, error: 'No' }, { status })
        : undefined
    edit(newDeal('Own deal', ben), { stage_id: 11 })
    expect(await outcomes(a, 1)).toEqual([['sent', null]])
    expect(await outcomes(b, 1)).toEqual([['dead', expect.any(String)]])
    expect(await backend.read(b, 'pipedrive/status')).toMatchObject({
      ...{ connected: false, reason: `Pipedrive says that ${words}.` },
    })
    expect(await backend.read(a, 'pipedrive/status')).toMatchObject({ connected: true })
  },
)

test('a digest tells only what its user may see', async () => {
  const [a, b] = [await connect(ada, 'A'), await connect(ben, 'B')]
  fault.current = () => new Response(null, { status: 503 })
  for (let n = 0; n < 12; n++) {
    edit(newDeal(`${secret} ${n}`, ada, secretValue), { stage_id: 11 })
    edit(newDeal(`Own deal ${n}`, ben), { stage_id: 11 })
  }
  await vi.waitFor(async () => {
    expect(await backend.database.$count(deliveries, eq(deliveries.userId, b))).toBe(24)
  }, soon)
  fault.current = undefined
  expect((await outcomes(a, 24)).every(([state]) => state === 'sent')).toBe(true)
  const ends = await outcomes(b, 24)
  expect(ends.filter(([state]) => state === 'sent')).toHaveLength(12)
  expect(ends.filter(([, reason]) => reason === 'no_such_deal')).toHaveLength(12)
  expect(JSON.stringify(postsIn('A'))).toMatch(hidden)
  expect(JSON.stringify(postsIn('B'))).toContain('Own deal')
  expect(JSON.stringify(postsIn('B'))).not.toMatch(hidden)
  expect(await toldTo(b)).not.toMatch(hidden)
})

test('a message for several users of a channel is told by one who may see the deal, and names it only to them', async () => {
  const [a, b] = [await connect(ada, 'both'), await connect(ben, 'both')]
  // Ben's delivery still waits when Ada's message is there.
  fault.current = ({ by }) =>
    by === ben && postsIn('both').length === 0 ? new Response(null, { status: 503 }) : undefined
  edit(newDeal(secret, ada, secretValue), { stage_id: 11 })
  expect(await outcomes(b, 1)).toEqual([['ignored', 'said_in_channel']])
  expect(await outcomes(a, 1)).toEqual([['sent', null]])
  expect(textsIn('both')).toEqual([expect.stringContaining(secret)])
  expect(await backend.shown(b)).toEqual([
    { ruleId: 'deal-stage-changed', dealName: null, fromLabel: null, toLabel: null },
  ])
  expect(await toldTo(a)).toMatch(hidden)
  expect(await toldTo(b)).not.toMatch(hidden)

  // Ben's delivery is first.
  const later = newDeal(secret, ada, secretValue)
  const isOfLater = ({ path }: { path: string }) => path.endsWith(`/deals/${later.data.id}`)
  fault.current = ({ by }) =>
    by === ada && !callsOf(ben).some(isOfLater) ? new Response(null, { status: 503 }) : undefined
  edit(later, { stage_id: 11 })
  expect(await outcomes(a, 2)).toEqual([
    ['sent', null],
    ['sent', null],
  ])
  expect(await outcomes(b, 2)).toEqual([['ignored', 'said_in_channel'], gone])
  expect(await toldTo(b)).not.toMatch(hidden)
})

test('the hourly search and the preview show each user only their own deals', async () => {
  const b = await connect(ben, 'B')
  const a = await connect(ada, 'A')
  const dropped = { at: ago(30 * minute), dropped: true }
  edit(newDeal(secret, ada, secretValue), { status: 'won' }, dropped)
  edit(newDeal('Own deal', ben), { stage_id: 11 }, dropped)
  await search()
  expect(await outcomes(a, 2)).toEqual([
    ['sent', null],
    ['sent', null],
  ])
  const ends = await outcomes(b, 2)
  expect(ends).toContainEqual(['sent', null])
  expect(ends).toContainEqual(gone)
  expect(JSON.stringify(postsIn('A'))).toMatch(hidden)
  expect(JSON.stringify(postsIn('B'))).not.toMatch(hidden)

  const preview = (userId: string) =>
    vi.waitFor(async () => {
      const answer = await backend.read(userId, 'notifications/preview')
      expect(answer.complete).toBe(true)
      return answer
    }, soon)
  expect(await preview(a)).toMatchObject({
    rules: { 'deal-stage-changed': 2, 'deal-closed': 1 },
    samples: { 'deal-closed': expect.stringContaining(secret) },
  })
  expect(await preview(b)).toMatchObject({
    rules: { 'deal-stage-changed': 1, 'deal-closed': 0 },
    samples: { 'deal-stage-changed': expect.stringContaining('Own deal') },
  })
  expect(await toldTo(b)).not.toMatch(hidden)
})

test('what is sent again, one by one or all together, is read again by its own user', async () => {
  const [a, b] = [await connect(ada, 'A'), await connect(ben, 'B')]
  const broken = async (brokenSince: Date | null) => {
    const brokenReason = brokenSince && 'invalid_grant'
    await backend.database
      .update(connections)
      .set({ brokenSince, brokenReason })
      .where(eq(connections.provider, 'pipedrive'))
  }
  await broken(new Date(ago(hour)))
  for (const title of [secret, `${secret} 2`]) {
    edit(newDeal(title, ada, secretValue), { stage_id: 11 })
  }
  for (const id of [a, b]) {
    expect((await outcomes(id, 2)).map(([state]) => state)).toEqual(['dead', 'dead'])
  }
  await broken(null)
  const again = async (userId: string, what: string) =>
    await backend.call(userId, `/api/notifications/activity/${what}`, { method: 'POST' })
  const ofAda = (await backend.read(a, 'notifications/activity')).items[0].id
  const ofBen = (await backend.read(b, 'notifications/activity')).items[0].id
  // Nobody sends another one's.
  expect((await again(b, `${ofAda}/retry`)).status).toBe(404)
  expect((await again(a, `${ofAda}/retry`)).status).toBe(202)
  await outcomes(a, 2)
  expect(textsIn('A')).toEqual([expect.stringContaining(secret)])
  expect((await again(b, `${ofBen}/retry`)).status).toBe(202)
  await outcomes(b, 2)
  expect((await again(b, 'retry-all')).status).toBeLessThan(300)
  expect(await outcomes(b, 2)).toEqual([gone, gone])

  expect((await backend.call(b, '/api/notifications/test', { method: 'POST' })).status).toBe(200)
  expect(textsIn('B')).toHaveLength(1)
  expect(JSON.stringify(postsIn('B'))).not.toMatch(hidden)
  expect(await toldTo(b)).not.toMatch(hidden)
})
