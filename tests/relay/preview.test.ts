import { and, eq } from 'drizzle-orm'
import { expect, test, vi } from 'vitest'
import { availableRuleIds } from '../../contract/rules.ts'
import { type ReadLimits, readLimits } from '../../server/activity/read-preview.ts'
import { deliveries } from '../../server/database/schema.ts'
import {
  ago,
  backend,
  channel,
  connect,
  createUserPreview,
  day,
  history,
  hour,
  minute,
  moved,
  nextAccount,
  outside,
  portal,
  second,
  shareBackend,
  soon,
  team,
} from './shared.ts'

const path = '/api/notifications/preview'
const none = Object.fromEntries([...availableRuleIds].map((id) => [id, 0]))

shareBackend()

const nothingYet = { days: 7, rules: {}, samples: {}, complete: false }

/** Makes the function that asks for a user's preview until it is read, as the page does. */
function previewWith(limits: Partial<ReadLimits> = {}, now?: () => number) {
  const once = createUserPreview(backend, { ...readLimits, ...limits }, now)
  async function untilRead(userId: string) {
    const outcome = await vi.waitFor(
      async () => {
        const said = await once(userId).then(
          (answer) => ({ answer }),
          (error: unknown) => ({ error }),
        )
        expect(said).not.toEqual({ answer: nothingYet })
        return said
      },
      { ...soon, interval: 5 },
    )
    if ('error' in outcome) throw outcome.error
    return outcome.answer
  }
  return Object.assign(untilRead, { once })
}

const searches = () => outside.reads.filter((read) => read.endsWith('/search'))

const connectAgain = (userId: string) => backend.connectAgain(userId, { portal, team, channel })

test('each rule counts what the relay sends for the same changes if only this rule is ticked', async () => {
  const ids = ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan']
  const users = await Promise.all(
    ids.map((id, n) => connect({ ruleIds: [id], channel: `${channel}-${n}` })),
  )
  const named = { name: 'Tom & <Jerry>', amount: '12000', currency: 'EUR' }
  const at = (stage: string, agoMs: number): [string, number] => [stage, ago(agoMs)]
  const manyTimes = Array.from({ length: 19 }, (_, n) =>
    at(n % 2 ? 'start' : 'next', 5 * day - n * hour),
  )
  const webhooks = [
    moved(1, [at('next', 6 * day)], { linked: false }),
    moved(2, [at('w1', 5 * day)]),
    moved(3, [at('l1', 5 * day)], { linked: false }),
    // Created in a stage: no move.
    history(4, [at('w1', 2 * day)]),
    history(5, [at('next', 2 * day)], { linked: false }),
    // Back and forth. To save a stage again is no change, and HubSpot reports none.
    moved(6, [at('next', 3 * day), at('next', 3 * day - hour), at('start', 2 * day)]).filter(
      (_, change) => change !== 1,
    ),
    // Two changes within a minute.
    moved(7, [at('next', day), at('w1', day - 10 * second)]),
    // Deleted stages.
    moved(8, [at('deleted', day)]),
    history(9, [at('deleted', 30 * day), at('next', day)]).slice(1),
    // HubSpot may have left out older values of a long history.
    history(10, [...manyTimes, at('w1', day)]),
    // The first change is older than the days. HubSpot reports no empty stage.
    moved(11, [at('next', 8 * day), at('', 2 * day), at('w1', day)]).slice(2),
    // Deleted since then.
    moved(12, [at('w1', day)]),
    // The newest change, for all rules.
    moved(13, [at('w1', hour)], { ...named, linked: false }),
  ].flat()
  outside.missing.add('12')

  const preview = await previewWith()(users[0] ?? '')
  await backend.tell(webhooks)
  await backend.settled()
  const isSentTo = (userId: string) =>
    and(eq(deliveries.userId, userId), eq(deliveries.state, 'sent'))
  const sent = await Promise.all(
    users.map((userId) => backend.database.$count(deliveries, isSentTo(userId))),
  )
  expect(preview?.rules).toMatchObject(Object.fromEntries(ids.map((id, n) => [id, sent[n]])))
  expect(sent).toEqual([31, 7, 3])
  const sample = '🎉 Tom & <Jerry> was won (€12,000)'
  expect(preview).toMatchObject({
    days: 7,
    samples: Object.fromEntries(ids.map((id) => [id, sample])),
    complete: true,
  })
  // The last of three messages, none of which is a digest.
  const posted = outside.posts.findLast((post) => post.channel === `${channel}-2`)
  expect(posted?.text).toBe('🎉 Tom &amp; &lt;Jerry&gt; was won (€12,000)')
})

test('a preview is read once in ten minutes for each connection', async () => {
  const userId = await connect()
  let time = Date.now()
  const preview = previewWith({}, () => time)
  moved(1, [['next', ago(2 * day)]])
  await Promise.all([preview(userId), preview(userId), preview(userId)])
  expect(searches()).toHaveLength(1)
  const first = await preview(userId)
  expect(first.rules['deal-stage-changed']).toBe(1)

  moved(2, [['next', ago(hour)]])
  time += 10 * minute - 1
  expect(await preview(userId)).toEqual(first)
  time += 2
  expect((await preview(userId)).rules['deal-stage-changed']).toBe(2)
  expect(searches()).toHaveLength(2)

  // Whoever connects again may have chosen another account.
  await connectAgain(userId)
  outside.deals.clear()
  const nothing = { days: 7, rules: none, samples: {}, complete: true }
  expect(await preview(userId)).toEqual(nothing)
})

test('at most 1,000 deals and some of their changes are read', async () => {
  expect(readLimits.mostDeals).toBe(1_000)
  const userId = await connect()
  // More than a search answers at once.
  for (let id = 1; id <= 202; id++) moved(id, [['next', ago(6 * day - id * minute)]])
  const of = (limits: Partial<ReadLimits>) => previewWith(limits)(userId)
  const [most, all] = [201, 202].map((moves) => ({ 'deal-stage-changed': moves }))
  expect(await of({ mostDeals: 201 })).toMatchObject({ complete: false, rules: most })
  // The bound itself leaves out nothing.
  expect(await of({ mostDeals: 202 })).toMatchObject({ complete: true, rules: all })
  // Few deals may have many changes.
  expect(await of({ mostChanges: 202 })).toMatchObject({ complete: false, rules: all })
})

test.each([
  ['that nobody understands', 'nonsense', { status: 200, body: { results: 'none' } }, 10 * minute],
  ['that fails', 'unreachable', { status: 500 }, 5 * minute],
])('an answer %s is not bought again while a page is open', async (_, kind, answer, forMs) => {
  const userId = await connect()
  let time = Date.now()
  const preview = previewWith({}, () => time)
  outside.answerRead = () => answer
  // The dashboard asks again after 25 seconds.
  for (const end = time + forMs; time < end; time += 25 * second) {
    await expect(preview(userId)).rejects.toMatchObject({ kind })
    expect(searches()).toHaveLength(1)
  }
  time += 25 * second
  outside.answerRead = () => undefined
  expect(await preview(userId)).toMatchObject({ complete: true })
})

test('many users of one account, whose CRM does not answer, hold up nobody else', async () => {
  const users: string[] = []
  for (let n = 0; n < 12; n++) users.push(await connect())
  const busy = `-${portal}`
  nextAccount()
  const other = await connect()
  moved(1, [['next', ago(day)]])
  const { promise, resolve } = Promise.withResolvers<undefined>()
  let searched = 0
  outside.answerRead = (read, token) => {
    if (!token.endsWith(busy)) return undefined
    if (read.endsWith('/search')) searched++
    return promise
  }
  const preview = previewWith()
  for (const userId of users) expect(await preview.once(userId)).toEqual(nothingYet)
  await vi.waitFor(() => expect(searched).toBeGreaterThan(0), soon)
  expect(await preview(other)).toMatchObject({ complete: true })
  resolve(undefined)
  for (const userId of users) expect(await preview(userId)).toMatchObject({ complete: true })
  expect(searched).toBe(users.length)
})

test('many accounts whose data centre does not answer hold up nobody else', async () => {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const away = new Set<string>()
  const preview = previewWith({ slowMs: 50 })
  outside.answerRead = (_read, token) =>
    away.has(String(token.split('-')[3])) ? promise : undefined
  // More than could fail one after the other while the test waits.
  for (let n = 0; n < 31; n++) {
    away.add(String(portal))
    expect(await preview.once(await connect())).toEqual(nothingYet)
    nextAccount()
  }
  const other = await connect()
  moved(1, [['next', ago(day)]])
  expect(await preview(other)).toMatchObject({ complete: true })
  resolve(undefined)
})

const refusing = { status: 403, body: { status: 'error', category: 'MISSING_SCOPES' } }
const pausing = { status: 429, headers: { 'Retry-After': '60' } }
test.each([
  [refusing, 'read_refused', 'HubSpot refuses to say it (MISSING_SCOPES).'],
  [pausing, 'provider_unavailable', 'HubSpot asks for a pause.'],
])(
  'an error of HubSpot is said in words, and breaks no connection (%#)',
  async (error, code, words) => {
    const userId = await connect()
    outside.answerRead = () => error
    /** Asks until the read has ended, as the dashboard does. */
    const said = () =>
      vi.waitFor(async () => {
        const answer = await backend.call(userId, path)
        expect(answer.status).not.toBe(200)
        return [answer.status, await answer.json()]
      }, soon)
    expect(await said()).toEqual([502, { error: { code, message: words } }])
    expect(await backend.read(userId, 'hubspot/status')).toMatchObject({ connected: true })
  },
)
