import { eq } from 'drizzle-orm'
import { expect, onTestFinished, test, vi } from 'vitest'
import { connections, dealEvents, deliveries } from '../../server/database/schema.ts'
import { createChecks } from '../../server/people/checks.ts'
import type { DealEvent } from '../../server/providers/deal.ts'
import type { Crm } from '../../server/providers/provider.ts'
import { ProviderError } from '../../server/providers/provider-error.ts'
import { createSearch } from '../../server/relay/search/search.ts'
import type { StandInDeal } from '../../stand-ins/pipedrive/company.ts'
import {
  ada,
  authOf,
  ben,
  calls,
  company,
  connect,
  edit,
  fault,
  newDeal,
  outcomes,
  post,
  search,
  shareCompany,
  spentBy,
  tell,
  webhooks,
} from './pipedrive-company.ts'
import { ago, backend, day, minute, openInbox, outside, range, second, soon } from './shared.ts'

await shareCompany()

const all = ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan']
type About = Record<string, unknown>
const changelogs = () => calls.filter(({ path }) => path.endsWith('/changelog')).length
/** What a user's list shows, as `deal: from → to`, the oldest change first. */
const shown = async (userId: string) =>
  (await backend.shown(userId)).map(
    ({ dealName, fromLabel, toLabel }) => `${dealName}: ${fromLabel} → ${toLabel}`,
  )
const isCrm = eq(connections.provider, 'pipedrive')
const sent = (count: number) => Array<[string, null]>(count).fill(['sent', null])

test('each edit is told once, though each webhook, a retry and a search tell of it', async () => {
  const [a, b] = [await connect(ada, 'A'), await connect(ben, 'B')]
  const deal = newDeal('Deal', ben)
  const other = newDeal('Other', ben)
  const edits: Array<[typeof deal, Parameters<typeof edit>[1], agoMs: number, about?: About]> = [
    [deal, { stage_id: 11 }, 60 * minute],
    [deal, { stage_id: 12, status: 'won' }, 50 * minute],
    [deal, { status: 'open' }, 40 * minute],
    [deal, { status: 'lost' }, 30 * minute, { is_bulk_edit: true }],
    [other, { status: 'lost' }, 30 * minute - 1, { is_bulk_edit: true }],
    [deal, { value: 7 }, 25 * minute],
  ]
  for (const [of, change, agoMs, about] of edits) {
    const previous = company.deals.edit(of, change, ago(agoMs)) ?? {}
    const told = { data: of.data, previous }
    for (const user of [ada, ben])
      expect(await tell(user, told, { attempt: 1, ...about })).toBe(204)
    // The last repetition, after 150 s.
    expect(await tell(ada, told, { attempt: 4, ...about })).toBe(204)
  }
  const told = [
    'Deal: Qualified → Contact made',
    'Deal: Contact made → Won',
    'Deal: Won → Demo',
    'Deal: Demo → Lost',
    'Other: Qualified → Lost',
  ]
  for (const id of [a, b]) {
    expect(await outcomes(id, 5)).toEqual(sent(5))
    expect(await shown(id)).toEqual(told)
  }

  // The webhooks lose this one. For it, the search reads all changes of the deal, and a webhook comes late.
  const previous = edit(deal, { status: 'open' }, { at: ago(20 * minute), dropped: true })
  await search()
  expect(changelogs()).toBeGreaterThan(0)
  expect(await tell(ben, { data: deal.data, previous })).toBe(204)
  for (const id of [a, b]) {
    expect(await outcomes(id, 6)).toEqual(sent(6))
    expect(await shown(id)).toEqual([...told, 'Deal: Lost → Demo'])
  }
})

test('the search brings what a ban has lost, and reads the changes only of deals with news', async () => {
  const b = await connect(ben, 'B')
  const titled = (title: string) => newDeal(title, ben)
  const [known, twice, won, back] = [
    titled('Known'),
    titled('Twice'),
    titled('Won'),
    titled('Back'),
  ] as const
  edit(known, { stage_id: 11 }, { at: ago(90 * minute) })
  edit(won, { status: 'won' }, { at: ago(80 * minute) })
  edit(back, { stage_id: 11 }, { at: ago(70 * minute) })
  expect(await outcomes(b, 3)).toEqual(sent(3))

  for (const webhook of webhooks.all.values()) webhook.bannedUntil = Date.now() + 30 * minute
  edit(twice, { stage_id: 11 }, { at: ago(50 * minute) })
  edit(twice, { stage_id: 12 }, { at: ago(40 * minute) })
  edit(won, { status: 'open' }, { at: ago(30 * minute) })
  edit(known, { value: 5 }, { at: ago(20 * minute) })
  // Its stage is the one that is stored.
  edit(back, { stage_id: 12 }, { at: ago(16 * minute) })
  edit(back, { stage_id: 11 }, { at: ago(13 * minute) })
  await search()
  expect(await outcomes(b, 8)).toEqual(sent(8))
  expect(await shown(b)).toEqual([
    'Known: Qualified → Contact made',
    'Won: Qualified → Won',
    'Back: Qualified → Contact made',
    'Twice: Qualified → Contact made',
    'Twice: Contact made → Demo',
    'Won: Won → Qualified',
    'Back: Contact made → Demo',
    'Back: Demo → Contact made',
  ])
  expect(changelogs()).toBe(3)

  for (const deal of [known, twice, won, back]) edit(deal, { value: 9 }, { at: ago(10 * minute) })
  await search()
  expect(changelogs()).toBe(3)
  expect(await outcomes(b, 8)).toEqual(sent(8))

  // A change before the stored one is missing, and nobody can find it.
  edit(known, { stage_id: 12 }, { at: ago(5 * minute), dropped: true })
  await tell(ben, { data: known.data, previous: { stage_id: 13 } })
  await search()
  await search()
  expect(changelogs()).toBe(4)
})

/** Returns the function that searches the company once. It returns the error of a search that failed. */
function searchWith(pipedrive = backend.providers.pipedrive) {
  const search = createSearch(
    { ...backend, providers: { ...backend.providers, pipedrive }, inbox: openInbox() },
    { retryMs: 1, renewLease: async () => {} },
  )
  const accountId = `${company.about.company_id}`
  const account = { crm: 'pipedrive' as const, accountId, searchedUntilMs: 0 }
  return () => search(account, AbortSignal.timeout(60_000)).catch((error: unknown) => error)
}

test('where nobody gets an answer, a search ends soon, and one user without an answer stops no other', async () => {
  const users = 20
  for (let n = 0; n < users; n++) await connect({ ...ben, id: 6_100 + n }, `${n}`)
  let asked: string[] = []
  let isAway = (_accessToken: string) => true
  const changedDeals: Crm['changedDeals'] = async ({ accessToken }, since) => {
    asked.push(accessToken)
    if (isAway(accessToken)) throw new ProviderError('pipedrive', 'read', 'unreachable')
    return { ids: [], deals: new Map(), at: new Date(), until: since, complete: true }
  }
  const search = searchWith({ ...backend.providers.pipedrive, changedDeals })
  const round = async () => {
    asked = []
    return { ended: await search(), asked }
  }
  const nobody = await round()
  expect(nobody.ended).toBeInstanceOf(ProviderError)
  expect(nobody.asked).toHaveLength(3)

  // They come last then, and also behind a user who has just connected.
  await connect({ ...ben, id: 6_100 + users }, `${users}`)
  isAway = (token) => nobody.asked.includes(token)
  const { asked: all, ended } = await round()
  expect(ended).toBeTypeOf('number')
  expect(all).toHaveLength(users + 1)
  expect(new Set(all.slice(-3))).toEqual(new Set(nobody.asked))
})

const failures: Array<[string, () => Response]> = [
  ['fails', () => new Response('', { status: 500 })],
  ['is not understood', () => Response.json({ success: true, data: [{ field_key: 'stage_id' }] })],
]
test.each(failures)(
  'a changelog that %s stops no other deal, and is asked for once a round',
  async (_, answer) => {
    const b = await connect(ben, 'B')
    for (const webhook of webhooks.all.values()) webhook.bannedUntil = Date.now() + 30 * minute
    const deals = range(1, 6).map((n) => newDeal(`Deal ${n}`, ben))
    for (const [n, deal] of deals.entries()) {
      edit(deal, { stage_id: 11 }, { at: ago((50 - n) * minute) })
    }
    const pathOf = ({ data }: StandInDeal) => `/pipedrive/api/v1/deals/${data.id}/changelog`
    let failing = deals.slice(0, 2).map(pathOf)
    fault.current = ({ path }) => (failing.includes(path) ? answer() : undefined)
    const round = searchWith()
    const rounds = async (...counts: number[]) => {
      for (const count of counts) {
        const before = changelogs()
        await round()
        expect(changelogs() - before).toBe(count)
      }
      const [user] = await backend.database.select().from(connections).where(isCrm)
      return user?.searchedUntil
    }
    // The next search goes back as far.
    expect(await rounds(6, 2)).toBeNull()
    expect(await outcomes(b, 4)).toEqual(sent(4))
    expect((await shown(b)).map((line) => line.slice(0, 7))).toEqual([
      'Deal 3:',
      'Deal 4:',
      'Deal 5:',
      'Deal 6:',
    ])
    // If three fail, the others probably do, too.
    for (const deal of deals) edit(deal, { stage_id: 12 }, { at: ago(30 * minute) })
    failing = deals.map(pathOf)
    expect(await rounds(3)).toBeNull()
    failing = []
    expect(await rounds(6, 0)).not.toBeNull()
    expect(await outcomes(b, 12)).toEqual(sent(12))
  },
)

test('several changes of a deal in one second are told in their order', async () => {
  const b = await connect(ben, 'B')
  for (const webhook of webhooks.all.values()) webhook.bannedUntil = Date.now() + 30 * minute
  const accountId = `${company.about.company_id}`
  const at = Math.floor(ago(20 * minute) / second) * second
  const stageIds = [10, 11, 12, 13]
  const names = ['Qualified', 'Contact made', 'Demo', 'Proposal']
  const moves = [0, 1, 2]
  const eventOf = (dealId: string, move: number, key: string): DealEvent => {
    const [former, value] = stageIds.slice(move, move + 2).map(String)
    if (value === undefined) throw new Error('There is no such stage.')
    const of = { accountId, dealId, property: 'stage', value, former } as const
    return { ...of, key: `${key}${dealId}-${move}`, occurredAt: new Date(at) }
  }
  const inbox = openInbox()
  /** Pipedrive tells of the moves of a deal in this order: together, or one after the other. */
  const told: Array<[moves: number[], isTogether: boolean]> = [
    ...[
      [0, 1],
      [1, 0],
    ].flatMap((some) => [true, false].map((each): [number[], boolean] => [some, each])),
    [[2, 0, 1], true],
    [[1, 2, 0], false],
    [[2, 1, 0], false],
  ]
  const expected = []
  for (const [n, [some, isTogether]] of told.entries()) {
    const deal = newDeal(`Told ${n}`, ben)
    // The order of the keys is the one in which it tells them.
    const events = some.map((move, n) => eventOf(`${deal.data.id}`, move, `${n}`))
    for (const event of isTogether ? [events] : events.map((each) => [each])) {
      await inbox.store('pipedrive', event)
    }
    expected.push(
      ...some.toSorted().map((move) => `Told ${n}: ${names[move]} → ${names[move + 1]}`),
    )
  }
  const found = newDeal('Found', ben)
  for (const move of moves) edit(found, { stage_id: stageIds[move + 1] ?? 0 }, { at })
  await searchWith()()
  expected.push(...moves.map((move) => `Found: ${names[move]} → ${names[move + 1]}`))
  expect(await outcomes(b, expected.length)).toEqual(sent(expected.length))
  const byDeal = (lines: string[]) => Map.groupBy(lines, (line) => line.split(':')[0])
  expect(byDeal(await shown(b))).toEqual(byDeal(expected))
})

test('a reopened deal is found, whenever its changes were read before', async () => {
  const b = await connect(ben, 'B')
  const deal = newDeal('Deal', ben)
  for (const webhook of webhooks.all.values()) webhook.bannedUntil = Date.now() + 30 * minute
  edit(deal, { stage_id: 11 }, { at: ago(8 * minute) })
  await search()
  edit(deal, { status: 'won' }, { at: ago(6 * minute) })
  await search()
  edit(deal, { status: 'open' }, { at: ago(4 * minute) })
  await search()
  edit(deal, { status: 'lost' }, { at: ago(3.5 * minute) })
  await search()
  // This one is too young: its webhook is probably on its way.
  edit(deal, { status: 'open' }, { at: ago(minute) })
  await search()
  for (const change of deal.changes) change.at = Math.min(change.at, ago(3 * minute))
  await search()
  expect(await outcomes(b, 5)).toEqual(sent(5))
  expect(await shown(b)).toEqual([
    'Deal: Qualified → Contact made',
    'Deal: Contact made → Won',
    'Deal: Won → Contact made',
    'Deal: Contact made → Lost',
    'Deal: Lost → Contact made',
  ])
})

test('a stage change costs each user at most two tokens, and a search without changes at most twenty', async () => {
  const people = [
    { user: ada, id: await connect(ada, 'A', all) },
    { user: ben, id: await connect(ben, 'B', all) },
  ]
  const ends = async (id: string, count: number) =>
    (await outcomes(id, count)).filter(([state]) => state !== 'ignored')
  const deal = newDeal('Deal', ben)
  // The rule about deals without contact and company looks twice.
  deal.data = { ...deal.data, person_id: null }
  edit(deal, { stage_id: 11 })
  for (const { id } of people) expect(await outcomes(id, 1)).toEqual(sent(1))
  // No rule can want a new deal in an open stage, so nobody reads it.
  calls.length = 0
  webhooks.report('create', newDeal('New', ben).data, null)
  for (const { id, user } of people) {
    expect(await outcomes(id, 2)).toContainEqual(['ignored', 'no_rule'])
    expect(spentBy(user)).toBe(0)
  }
  const moves = [12, 13, 14, 10]
  for (const [n, stage_id] of moves.entries()) {
    calls.length = 0
    edit(deal, { stage_id })
    for (const { id, user } of people) {
      expect(await ends(id, n + 3)).toEqual(sent(n + 2))
      expect(spentBy(user)).toBeGreaterThan(0)
      expect(spentBy(user)).toBeLessThanOrEqual(2)
    }
  }
  // Several that wait behind another one, so that one message tells them.
  const accepted = Promise.withResolvers<undefined>()
  onTestFinished(() => {
    outside.answerPost = () => undefined
  })
  outside.answerPost = () => accepted.promise
  const posted = outside.calls.length
  edit(deal, { stage_id: 11 })
  await vi.waitFor(() => expect(outside.calls).toHaveLength(posted + people.length))
  const some = range(1, 6).map((n) => newDeal(`Deal ${n}`, ben))
  for (const each of some) each.data = { ...each.data, person_id: null }
  for (const each of some) edit(each, { stage_id: 11 })
  const waiting = eq(deliveries.state, 'pending')
  await vi.waitFor(async () => {
    const count = people.length * (1 + some.length)
    expect(await backend.database.$count(deliveries, waiting)).toBe(count)
  })
  calls.length = 0
  accepted.resolve(undefined)
  for (const { id, user } of people) {
    expect(await ends(id, 13)).toEqual(sent(12))
    expect(spentBy(user)).toBeLessThanOrEqual(2 * some.length)
  }
  await search()
  calls.length = 0
  const used = company.budget.used
  await search()
  for (const { user } of people) expect(spentBy(user)).toBeLessThanOrEqual(20)
  // What the stand-in takes is what we count.
  expect(company.budget.used - used).toBe(spentBy(ada) + spentBy(ben))
})

test('the check of a broken connection reads no changelog', async () => {
  const b = await connect(ben, 'B')
  const { data } = newDeal('Deal', ben)
  const first = { success: true, data: { ...data, id: 1 } }
  fault.current = ({ path }) => (path.endsWith('/v2/deals/1') ? Response.json(first) : undefined)
  const broken = { brokenSince: new Date(), brokenReason: 'invalid_grant', checkAt: new Date(0) }
  await backend.database.update(connections).set(broken).where(isCrm)
  calls.length = 0
  const checks = createChecks(
    { ...backend, sendLastAgain: async () => false },
    { pollMs: 5, askAgainMs: 5 },
  )
  checks.start()
  await vi.waitFor(async () => {
    expect(await backend.read(b, 'pipedrive/status')).toMatchObject({ connected: true })
  }, soon)
  await checks.stop()
  expect(calls.some(({ path }) => path.endsWith('/v2/deals/1'))).toBe(true)
  expect(changelogs()).toBe(0)
})

test('a preview of more than 1,000 deals costs at most 200 tokens', async () => {
  const a = await connect(ada, 'A')
  const { data } = newDeal('Deal', ada)
  const time = new Date(ago(2 * day)).toISOString().replace('.000', '')
  const times = { stage_id: 11, stage_change_time: time, update_time: time }
  const deals = range(1, 1_200).map((id) => ({ data: { ...data, ...times, id }, changes: [] }))
  vi.spyOn(company.deals, 'all').mockReturnValue(deals)
  const before = spentBy(ada)
  await vi.waitFor(
    async () => {
      const preview = await backend.read(a, 'notifications/preview')
      expect(preview).toMatchObject({ rules: { 'deal-stage-changed': 1_000 }, complete: false })
    },
    // More questions would take the time of the work for which they wait.
    { timeout: 50_000, interval: 250 },
  )
  expect(spentBy(ada) - before).toBeLessThanOrEqual(200)
})

test('a webhook gets 204 if it is ours, whatever it says, and only after its event is stored', async () => {
  const a = await connect(ada, 'A')
  const deal = newDeal('Deal', ada)
  const previous = edit(deal, { stage_id: 11 }, { dropped: true })
  const { data } = deal
  const auth = authOf(company.about.company_id)
  const stored = () => backend.database.$count(dealEvents)

  const other = { company_id: 77, auth: authOf(77) }
  const unknown = [
    ...[{}, [], 'text', null, { meta: { entity: 'person' } }].map((body) => post(body, auth)),
    tell(ada, { data: { ...data, stage_id: 'eleven' }, previous }),
    // A company that nobody has connected.
    tell(ada, { data, previous }, other),
  ]
  expect(await Promise.all(unknown)).toEqual(Array(unknown.length).fill(204))
  const refused = [
    tell(ada, { data, previous }, { auth: `${auth}x` }),
    tell(ada, { data, previous }, { auth: authOf(77) }),
    tell(ada, { data, previous }, { auth: `${company.about.company_id}:${authOf(77).slice(3)}` }),
    tell(ada, { data, previous }, { auth: 'pipedrive-client:pipedrive-client-secret' }),
  ]
  expect(await Promise.all(refused)).toEqual(Array(refused.length).fill(401))
  expect(await stored()).toBe(0)

  const failing = vi
    .spyOn(backend.database, 'transaction')
    .mockRejectedValueOnce(new Error('The disk is full.'))
  expect(await tell(ada, { data, previous })).toBeGreaterThanOrEqual(500)
  failing.mockRestore()
  expect(await tell(ada, { data, previous }, { attempt: 2 })).toBe(204)
  expect(await stored()).toBe(1)
  expect(await tell(ada, { data, previous }, { attempt: 2 })).toBe(204)
  expect(await stored()).toBe(1)
  expect(await outcomes(a, 1)).toEqual(sent(1))
})

test('what a user of a company makes up is neither in the future nor without end', async () => {
  await connect(ada, 'A')
  await connect(ben, 'B')
  const { pipedrive } = backend.providers
  const { mostEventsAnHour } = pipedrive
  onTestFinished(() => void Object.assign(pipedrive, { mostEventsAnHour }))
  Object.assign(pipedrive, { mostEventsAnHour: 20 })
  const deal = newDeal('Deal', ada)
  const at = (ms: number) => new Date(Date.now() + ms).toISOString()
  const forge = (id: number, update_time: string, by = ada, of = {}) =>
    tell(
      by,
      { data: { ...deal.data, id, stage_id: 11, update_time }, previous: { stage_id: 10 } },
      of,
    )
  const stored = () => backend.database.$count(dealEvents)

  expect(await forge(1, '2199-01-01T00:00:00Z')).toBe(401)
  expect(await forge(1, at(6 * minute))).toBe(401)
  expect(await stored()).toBe(0)
  expect(await forge(1, at(4 * minute))).toBe(204)

  // The other user's webhook tells of the same: only new events count.
  const now = at(0)
  for (const user of [ada, ben]) {
    for (let id = 2; id < 20; id++) expect(await forge(id, now, user)).toBe(204)
  }
  expect(await forge(20, now)).toBe(204)
  for (let id = 21; id < 40; id++) expect(await forge(id, now, ben)).toBe(429)
  expect(await stored()).toBe(20)
  const linesOf = (event: string) => backend.lines.filter((line) => line.includes(event)).length
  expect([linesOf('"webhooks stored"'), linesOf('"too_many"')]).toEqual([1, 1])

  expect(await forge(1, now, ada, { company_id: 77, auth: authOf(77) })).toBe(204)
})
