import type { CrmConnection, WithAccess } from '../people/access-token.ts'
import type { Crm, CrmDeal, Urgency } from '../providers/provider.ts'
import type { DealProperty } from '../providers/registry.ts'

/** A read serves the tries of an event for this long. Then the deal may have another name. */
const freshMs = 15 * 60_000
/** Enough for the deals of several bulk edits at once. */
const mostEntries = 20_000

/** A deal that the relay needs, and since when: an older read lacks the change that made the event. */
export interface Wanted {
  dealId: string
  /** On the clock of `now`. */
  sinceMs: number
}

/** What was read of one deal, or is being read. */
interface Entry<Value> {
  startedAt: number
  value: Promise<Value>
}

/**
 * Creates the functions that read deals for the relay. One read serves all users of an account and all
 * tries of an event. During a backlog, one call reads many deals.
 */
export function createDealReader(
  crm: Pick<Crm, 'deal' | 'deals' | 'dealsAtOnce' | 'linked' | 'linksAtOnce'>,
  withAccess: WithAccess,
  now: () => number = Date.now,
) {
  const deals = createCache<CrmDeal | undefined>(now)
  const links = createCache<boolean>(now)
  const dealKey = ({ accountId }: CrmConnection, property: DealProperty, dealId: string) =>
    `${accountId}/${property}/${dealId}`
  const linkKey = ({ accountId }: CrmConnection, dealId: string) => `${accountId}/${dealId}`

  return {
    /**
     * Reads the deal of an event, with its links if `withLinks`. One call reads both.
     * @throws ProviderError
     */
    async deal(
      connection: CrmConnection,
      wanted: Wanted,
      property: DealProperty,
      { withLinks, urgency }: { withLinks: boolean; urgency: Urgency },
    ): Promise<CrmDeal | undefined> {
      const key = dealKey(connection, property, wanted.dealId)
      const known = deals.get(key, wanted.sinceMs)
      if (known !== undefined) return await known
      const read = withAccess(connection, urgency, (access) =>
        crm.deal(access, wanted.dealId, { history: property, links: withLinks }),
      )
      if (withLinks) {
        links.set(
          linkKey(connection, wanted.dealId),
          read.then((deal) => deal?.linked ?? false),
        )
      }
      deals.set(key, read)
      return await read
    },

    /**
     * Reads many deals with one call, unless it knows the first one already.
     * @throws ProviderError
     */
    async readDeals(
      connection: CrmConnection,
      wanted: readonly [Wanted, ...Wanted[]],
      property: DealProperty,
    ): Promise<void> {
      if (deals.has(dealKey(connection, property, wanted[0].dealId), wanted[0].sinceMs)) return
      const missing = wanted
        .filter(({ dealId, sinceMs }) => !deals.has(dealKey(connection, property, dealId), sinceMs))
        .map(({ dealId }) => dealId)
      const ids = [...new Set(missing)].slice(0, crm.dealsAtOnce)
      const read = withAccess(connection, 'backlog', (access) => crm.deals(access, ids, property))
      for (const id of ids) {
        deals.set(
          dealKey(connection, property, id),
          read.then((found) => found.get(id)),
        )
      }
      await read
    },

    /**
     * Whether the first deal has a contact or a company. The same call answers for the other deals.
     * @throws ProviderError
     */
    async isLinked(
      connection: CrmConnection,
      wanted: readonly [Wanted, ...Wanted[]],
      urgency: Urgency,
    ): Promise<boolean> {
      const [first] = wanted
      const known = links.get(linkKey(connection, first.dealId), first.sinceMs)
      if (known !== undefined) return await known
      const missing = wanted
        .filter(({ dealId, sinceMs }) => !links.has(linkKey(connection, dealId), sinceMs))
        .map(({ dealId }) => dealId)
      const ids = [...new Set(missing)].slice(0, crm.linksAtOnce)
      const read = withAccess(connection, urgency, (access) => crm.linked(access, ids))
      for (const id of ids)
        links.set(
          linkKey(connection, id),
          read.then((found) => found.has(id)),
        )
      return (await read).has(first.dealId)
    },
  }
}

export type DealReader = ReturnType<typeof createDealReader>

/** A cache of reads, which forgets the oldest ones and those that failed. */
function createCache<Value>(now: () => number) {
  const entries = new Map<string, Entry<Value>>()

  /** Finds a read that began at `sinceMs` or later. */
  function get(key: string, sinceMs: number): Promise<Value> | undefined {
    const entry = entries.get(key)
    if (entry === undefined) return undefined
    const { startedAt, value } = entry
    return startedAt >= sinceMs && now() - startedAt < freshMs ? value : undefined
  }

  return {
    get,
    has: (key: string, sinceMs: number) => get(key, sinceMs) !== undefined,
    set(key: string, value: Promise<Value>): void {
      const entry = { startedAt: now(), value }
      // Delete it first, so that the map keeps the order of the reads.
      entries.delete(key)
      entries.set(key, entry)
      const [oldest] = entries.keys()
      if (oldest !== undefined && entries.size > mostEntries) entries.delete(oldest)
      // The caller handles the error. The next try reads again.
      value.catch(() => {
        if (entries.get(key) === entry) entries.delete(key)
      })
    },
  }
}
