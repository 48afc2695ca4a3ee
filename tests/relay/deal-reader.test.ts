import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { CrmConnection, WithAccess } from '../../server/people/access-token.ts'
import type { CrmDeal } from '../../server/providers/deal.ts'
import type { Providers } from '../../server/providers/provider.ts'
import { ProviderError } from '../../server/providers/provider-error.ts'
import { createChangeReader } from '../../server/relay/decide/change.ts'
import { createDealReader } from '../../server/relay/decide/deals.ts'
import type { DealDelivery } from '../../server/relay/pick/delivery.ts'

const dealOf = (name: string, linked?: boolean): CrmDeal => ({
  id: name,
  url: `https://app.hubspot.com/contacts/1/record/0-3/${name}`,
  name,
  amount: null,
  currency: null,
  ownerId: null,
  linked,
  history: [],
})
const failure = (reason?: string) => new ProviderError('hubspot', 'read', 'unreachable', reason)

// The reader needs only the account of a connection.
const connectionOf = (id: string) => ({ id, accountId: '1' }) as unknown as CrmConnection

const crm = {
  readsAs: 'account' as const,
  dealsAtOnce: 50,
  linksAtOnce: 100,
  deal: vi.fn(
    async (_: unknown, id: string, { links }: { links: boolean }): Promise<CrmDeal | undefined> =>
      dealOf(id, links ? linked.has(id) : undefined),
  ),
  deals: vi.fn(
    async (_: unknown, ids: readonly string[]) => new Map(ids.map((id) => [id, dealOf(id)])),
  ),
  linked: vi.fn(
    async (_: unknown, ids: readonly string[]) =>
      new Map(ids.filter((id) => !gone.has(id)).map((id) => [id, linked.has(id)])),
  ),
}
let linked: Set<string>
let gone: Set<string>
let now: number
let reader: ReturnType<typeof createDealReader>

const withAccess: WithAccess = ({ id, accountId }, urgency, call) =>
  call({ accountId, accessToken: id, urgency })

beforeEach(() => {
  vi.clearAllMocks()
  linked = new Set()
  gone = new Set()
  now = 1_000
  reader = createDealReader(crm, withAccess, () => now)
})

const ada = connectionOf('ada')
const bob = connectionOf('bob')
const wanted = (dealId: string, readAfterMs = 500, noLinksAfterMs = readAfterMs) => ({
  dealId,
  readAfterMs,
  noLinksAfterMs,
})
const many = (first: number, count: number) =>
  Array.from({ length: count }, (_, n) => wanted(String(first + n)))

const readBy = (user: CrmConnection, [first = wanted(''), ...others]: ReturnType<typeof many>) =>
  reader.deal(user, [first, ...others], 'stage', { withLinks: false, urgency: 'fresh' })

test('a read of a deal does not serve an event that came after it, or one of a quarter of an hour later', async () => {
  await readBy(ada, [wanted('1')])
  now += 100
  await readBy(ada, [wanted('1', 1_050)])
  expect(crm.deal).toHaveBeenCalledTimes(2)
  now += 15 * 60_000 + 1
  await readBy(ada, [wanted('1', 1_050)])
  expect(crm.deal).toHaveBeenCalledTimes(3)
})

test('that a deal has no links is asked again while the CRM may still add one, and not after that', async () => {
  const isLinked = (noLinksAfterMs: number) =>
    reader.isLinked(ada, [wanted('1', 500, noLinksAfterMs)], 'stage', 'fresh')
  expect(await isLinked(500)).toBe(false)
  now = 6_000
  linked.add('1')
  expect(await isLinked(500)).toBe(false)
  for (const noLinksAfterMs of [5_500, 60_000]) expect(await isLinked(noLinksAfterMs)).toBe(true)
  expect(crm.deal).toHaveBeenCalledTimes(2)
})

test('of several deals at once, one that is not found has no contact, and is no deal either', async () => {
  gone.add('2')
  linked.add('3')
  const [first, ...others] = [wanted('1'), wanted('2'), wanted('3')] as const
  const isLinked = (...some: [ReturnType<typeof wanted>, ...ReturnType<typeof many>]) =>
    reader.isLinked(ada, some, undefined, 'fresh')
  expect(await isLinked(first, ...others)).toBe(false)
  expect(await isLinked(wanted('2'), wanted('4'))).toBeUndefined()
  expect(await isLinked(wanted('3'), wanted('4'))).toBe(true)
})

test('a deal that is deleted or hidden between the two looks for its links is no change', async () => {
  const stages = async () => [{ id: 'next', label: 'Next', outcome: 'open' as const }]
  const providers = { hubspot: { ...crm, stages } } as unknown as Providers
  const lookAgainMs = 60_000
  const { candidatesOf, changeOf } = createChangeReader(providers, withAccess, { lookAgainMs })
  const by = { crm: { ...ada, provider: 'hubspot' } as CrmConnection, urgency: 'fresh' } as const
  const receivedAtMs = performance.now()
  const delivery = {
    ...{ dealId: '1', property: 'stage', value: 'next', former: '"start"', receivedAtMs },
    ruleIds: ['deal-stage-changed-orphan'],
  } as unknown as DealDelivery
  const [candidate] = await candidatesOf([delivery], by)
  if (candidate === undefined) throw new Error('There is no candidate.')
  expect(await changeOf([candidate], by, receivedAtMs)).toMatchObject({ deal: { linked: false } })
  crm.deal.mockResolvedValueOnce(undefined)
  expect(await changeOf([candidate], by, receivedAtMs + lookAgainMs)).toBeUndefined()
})

describe('a call for many deals', () => {
  test('is as full as the CRM allows, and leaves out what is known', async () => {
    await readBy(ada, many(1, 130))
    expect(crm.deals.mock.calls.map(([, ids]) => ids.length)).toEqual([50])
    for (let first = 1; first <= 50; first++) await readBy(bob, many(first, 130))
    expect(crm.deals).toHaveBeenCalledTimes(1)
    await readBy(bob, many(51, 130))
    expect(crm.deals.mock.calls[1]?.[1]).toEqual(many(51, 50).map(({ dealId }) => dealId))
    expect(crm.deal).not.toHaveBeenCalled()
  })

  test('that one deal makes fail is followed by calls for each deal alone', async () => {
    crm.deals.mockRejectedValueOnce(failure('status_500'))
    for (let first = 1; first <= 50; first++) {
      expect((await readBy(ada, many(first, 50)))?.name).toBe(String(first))
    }
    expect(crm.deal.mock.calls.map(([, id]) => id)).toEqual(many(1, 50).map(({ dealId }) => dealId))
    // Those after them are read together.
    await readBy(ada, many(51, 50))
    expect(crm.deal).toHaveBeenCalledTimes(50)
  })
})
