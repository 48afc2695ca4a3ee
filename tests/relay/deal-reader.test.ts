import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { CrmConnection, WithAccess } from '../../server/people/access-token.ts'
import { type CrmDeal, ProviderError } from '../../server/providers/provider.ts'
import { createDealReader } from '../../server/relay/decide/deals.ts'

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
const failure = (kind: ProviderError['kind'], reason?: string, waitMs?: number) =>
  new ProviderError('hubspot', 'read', kind, reason, waitMs)

// The reader needs only the account of a connection. The token says who read.
const connectionOf = (user: string, accountId = '1') =>
  ({ id: user, accountId }) as unknown as CrmConnection

const crm = {
  dealsAtOnce: 50,
  linksAtOnce: 100,
  deal: vi.fn(async (_: unknown, id: string, { links }: { links: boolean }) =>
    dealOf(id, links ? linked.has(id) : undefined),
  ),
  deals: vi.fn(
    async (_: unknown, ids: readonly string[]) => new Map(ids.map((id) => [id, dealOf(id)])),
  ),
  linked: vi.fn(
    async (_: unknown, ids: readonly string[]) => new Set(ids.filter((id) => linked.has(id))),
  ),
}
let linked: Set<string>
let now: number
let reader: ReturnType<typeof createDealReader>
let refused: Map<string, 'refused' | 'unauthorized'>

beforeEach(() => {
  vi.clearAllMocks()
  linked = new Set()
  refused = new Map()
  now = 1_000
  const withAccess: WithAccess = async ({ id, accountId }, urgency, call) => {
    const kind = refused.get(id)
    if (kind !== undefined) throw failure(kind, 'BAD_REFRESH_TOKEN')
    return await call({ accountId, accessToken: id, urgency })
  }
  reader = createDealReader(crm, withAccess, () => now)
})

const ada = connectionOf('ada')
const bob = connectionOf('bob')
const wanted = (dealId: string, readAfterMs = 500, noLinksAfterMs = readAfterMs) => ({
  dealId,
  readAfterMs,
  noLinksAfterMs,
})
const many = (first: number, count: number) => {
  const [head = wanted('0'), ...rest] = Array.from({ length: count }, (_, n) =>
    wanted(String(first + n)),
  )
  return [head, ...rest] as const
}
const one = { withLinks: false, urgency: 'fresh' } as const
const withLinks = { withLinks: true, urgency: 'fresh' } as const

describe('a read of a deal', () => {
  test('serves all users of the account, at once and later, but no other account', async () => {
    await Promise.all([
      reader.deal(ada, [wanted('1')], 'stage', one),
      reader.deal(bob, [wanted('1')], 'stage', one),
    ])
    now += 60_000
    expect((await reader.deal(bob, [wanted('1')], 'stage', one))?.name).toBe('1')
    expect(crm.deal).toHaveBeenCalledTimes(1)
    await reader.deal(connectionOf('cyd', '2'), [wanted('1')], 'stage', one)
    expect(crm.deal).toHaveBeenCalledTimes(2)
  })

  test('does not serve an event that came after it, or one of a quarter of an hour later', async () => {
    await reader.deal(ada, [wanted('1')], 'stage', one)
    now += 100
    await reader.deal(ada, [wanted('1', 1_050)], 'stage', one)
    expect(crm.deal).toHaveBeenCalledTimes(2)
    now += 15 * 60_000
    await reader.deal(ada, [wanted('1', 1_050)], 'stage', one)
    expect(crm.deal).toHaveBeenCalledTimes(3)
  })

  test('that fails is made again by the next try', async () => {
    crm.deal.mockRejectedValueOnce(failure('unreachable'))
    await expect(reader.deal(ada, [wanted('1')], 'stage', one)).rejects.toThrow(ProviderError)
    expect((await reader.deal(ada, [wanted('1')], 'stage', one))?.name).toBe('1')
  })

  test('with a token that the CRM does not accept fails for its user alone', async () => {
    for (const kind of ['refused', 'unauthorized'] as const) {
      now += 60_000
      refused.set('ada', kind)
      const [ofAda, ofBob] = await Promise.allSettled([
        reader.deal(ada, [wanted('1', now)], 'stage', one),
        reader.deal(bob, [wanted('1', now)], 'stage', one),
      ])
      expect(ofAda).toMatchObject({ status: 'rejected', reason: { kind } })
      expect(ofBob).toMatchObject({ status: 'fulfilled', value: { name: '1' } })
    }
  })

  test('with a CRM that is down fails for all users that wait for it, with one call', async () => {
    crm.deal.mockRejectedValueOnce(failure('unreachable'))
    const both = await Promise.allSettled([
      reader.deal(ada, [wanted('1')], 'stage', one),
      reader.deal(bob, [wanted('1')], 'stage', one),
    ])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
    expect(crm.deal).toHaveBeenCalledTimes(1)
  })
})

describe('a call for many deals', () => {
  test('is as full as the CRM allows, and leaves out what is known', async () => {
    await reader.deal(ada, many(1, 130), 'stage', one)
    expect(crm.deals.mock.calls.map(([, ids]) => ids.length)).toEqual([50])
    for (const [at] of many(1, 50).entries()) {
      await reader.deal(bob, many(1 + at, 130), 'stage', one)
    }
    expect(crm.deals).toHaveBeenCalledTimes(1)
    await reader.deal(bob, many(51, 130), 'stage', one)
    expect(crm.deals.mock.calls[1]?.[1]).toEqual(many(51, 50).map(({ dealId }) => dealId))
    expect(crm.deal).not.toHaveBeenCalled()
  })

  test('that one deal makes fail is made again with half of them, until the first is read', async () => {
    crm.deals.mockImplementation(async (_, ids) => {
      if (ids.includes('30')) throw failure('unreachable', 'status_500')
      return new Map(ids.map((id) => [id, dealOf(id)]))
    })
    expect((await reader.deal(ada, many(1, 50), 'stage', one))?.name).toBe('1')
    expect((await reader.deal(ada, many(29, 50), 'stage', one))?.name).toBe('29')
    expect((await reader.deal(ada, many(31, 50), 'stage', one))?.name).toBe('31')
    // It fails only alone.
    await reader.deal(ada, many(30, 50), 'stage', one)
    expect(crm.deal.mock.lastCall?.[1]).toBe('30')
  })

  test('may lack a deal that was merged: that one is read alone, and only when its turn comes', async () => {
    crm.deals.mockImplementationOnce(async (_, ids) => {
      return new Map(ids.filter((id) => id !== '2').map((id) => [id, dealOf(id)]))
    })
    await reader.deal(ada, many(1, 3), 'stage', one)
    expect(crm.deal).not.toHaveBeenCalled()
    expect((await reader.deal(ada, many(2, 2), 'stage', one))?.name).toBe('2')
    expect((await reader.deal(ada, many(3, 1), 'stage', one))?.name).toBe('3')
    expect(crm.deals).toHaveBeenCalledTimes(1)
    expect(crm.deal.mock.calls.map(([, id]) => id)).toEqual(['2'])
  })

  test('that fails for another reason is not made again', async () => {
    for (const error of [
      failure('unreachable'),
      failure('unreachable', 'rate_limited', 5_000),
      failure('refused', 'MISSING_SCOPES'),
    ]) {
      crm.deals.mockClear()
      crm.deals.mockRejectedValueOnce(error)
      await expect(reader.deal(ada, many(1, 50), 'stage', one)).rejects.toBe(error)
      expect(crm.deals).toHaveBeenCalledTimes(1)
    }
  })
})

describe('whether a deal is linked', () => {
  test('comes with the read of the deal', async () => {
    linked.add('1')
    await reader.deal(ada, [wanted('1')], 'stage', withLinks)
    expect(await reader.isLinked(ada, [wanted('1')], 'stage', 'fresh')).toBe(true)
    expect(crm.deal).toHaveBeenCalledTimes(1)
    expect(crm.linked).not.toHaveBeenCalled()
  })

  test('is asked again if it was not when the CRM may still have added a contact', async () => {
    await reader.deal(ada, [wanted('1')], 'stage', withLinks)
    expect(await reader.isLinked(ada, [wanted('1')], 'stage', 'fresh')).toBe(false)
    expect(crm.deal).toHaveBeenCalledTimes(1)
    now = 6_000
    linked.add('1')
    expect(await reader.isLinked(ada, [wanted('1', 500, 5_500)], 'stage', 'fresh')).toBe(true)
    expect(crm.deal).toHaveBeenCalledTimes(2)
    // Once it is, this is not asked again.
    now = 60_000
    expect(await reader.isLinked(bob, [wanted('1', 500, 55_000)], 'stage', 'fresh')).toBe(true)
    expect(crm.deal).toHaveBeenCalledTimes(2)
  })

  test('is asked for as many deals at once as the CRM allows', async () => {
    linked.add('2')
    expect(await reader.isLinked(ada, many(1, 130), 'stage', 'backlog')).toBe(false)
    expect(await reader.isLinked(ada, many(2, 130), 'stage', 'backlog')).toBe(true)
    expect(crm.linked.mock.calls.map(([, ids]) => ids.length)).toEqual([100])
    expect(crm.deal).not.toHaveBeenCalled()
  })
})
