import { createCache } from '../../cache.ts'
import { type CrmConnection, sharedBy, type WithAccess } from '../../people/access-token.ts'
import type { CrmDeal, DealFields } from '../../providers/deal.ts'
import type { Crm, Urgency } from '../../providers/provider.ts'
import { isOfToken, mayBeOfOneDeal, ProviderError } from '../../providers/provider-error.ts'

/** A read serves the tries of an event for this long. Then the deal may have another name, and is forgotten. */
const freshMs = 15 * 60_000
/** The sum of all sizes. Enough for the deals of several bulk edits at once, in some 50 MB. */
const mostSize = 200_000
/** Without its history, a read of a deal takes about as much memory as so many changes. */
const sizeWithoutHistory = 10

/** A call for several deals did not find this one, or failed. A call for it alone also finds a merged deal. */
const notInBatch = 'not in batch'

/** A deal that the relay needs, and when a read of it must have begun. The times are on the clock of `now`. */
export interface Wanted {
  dealId: string
  /** An older read lacks the change that made the event. */
  readAfterMs: number
  /** An older answer that the deal has no contact and no company does not count: the CRM may have added one. */
  noLinksAfterMs: number
}

type History = DealFields['history']

/** The deal that the caller needs now, and those that it will need soon. */
type WantedInOrder = readonly [Wanted, ...Wanted[]]

/**
 * Creates the functions that read deals for the relay. One read serves all tries of an event, and all users of an
 * account whose tokens see the same deals. If the caller needs several deals, one call reads as many as the CRM allows.
 */
export function createDealReader(
  crm: Pick<
    Crm,
    'deal' | 'deals' | 'dealsAtOnce' | 'historiesAtOnce' | 'linked' | 'linksAtOnce' | 'readsAs'
  >,
  withAccess: WithAccess,
  now: () => number = () => performance.now(),
) {
  const deals = createReads<CrmDeal | undefined | typeof notInBatch>(now, (deal) =>
    typeof deal === 'object' ? deal.history.length : 0,
  )
  const links = createReads<boolean | undefined>(now, () => 0)
  const dealKey = (connection: CrmConnection, history: History, dealId: string) =>
    `${sharedBy(crm, connection)}/${history ?? ''}/${dealId}`
  const linkKey = (connection: CrmConnection, dealId: string) =>
    `${sharedBy(crm, connection)}/${dealId}`

  function readOne(
    connection: CrmConnection,
    dealId: string,
    history: History,
    { withLinks, urgency }: { withLinks: boolean; urgency: Urgency },
  ): Promise<CrmDeal | undefined> {
    const read = withAccess(connection, urgency, (access) =>
      crm.deal(access, dealId, { history, links: withLinks }),
    )
    deals.set(dealKey(connection, history, dealId), read)
    if (withLinks) {
      links.set(
        linkKey(connection, dealId),
        read.then((deal) => deal?.linked),
      )
    }
    return read
  }

  async function readMany(
    connection: CrmConnection,
    ids: readonly [string, ...string[]],
    history: History,
    urgency: Urgency,
  ): Promise<CrmDeal | undefined> {
    const [first] = ids
    const read = withAccess(connection, urgency, (access) => crm.deals(access, ids, history)).catch(
      (error: unknown) => {
        if (!mayBeOfOneDeal(error)) throw error
        return new Map<string, CrmDeal>()
      },
    )
    for (const id of ids) {
      deals.set(
        dealKey(connection, history, id),
        read.then((found) => found.get(id) ?? notInBatch),
      )
    }
    const deal = (await read).get(first)
    if (deal !== undefined) return deal
    return await readOne(connection, first, history, { withLinks: false, urgency })
  }

  return {
    /**
     * Reads the first deal. A call for several deals reads no links.
     * @throws ProviderError
     */
    async deal(
      connection: CrmConnection,
      wanted: WantedInOrder,
      history: History,
      options: { withLinks: boolean; urgency: Urgency },
    ): Promise<CrmDeal | undefined> {
      const [first] = wanted
      const key = (dealId: string) => dealKey(connection, history, dealId)
      const known = deals.get(key(first.dealId), first.readAfterMs)
      if (known !== undefined) {
        const answer = await unlessRefused(known.value)
        if (answer?.value === notInBatch) {
          return await readOne(connection, first.dealId, history, options)
        }
        if (answer !== undefined) return answer.value
      }
      const missing = wanted
        .slice(1)
        .filter(({ dealId, readAfterMs }) => deals.get(key(dealId), readAfterMs) === undefined)
      const ids = firstIds(first.dealId, missing, dealsAtOnce(crm, history))
      return ids.length === 1
        ? await readOne(connection, first.dealId, history, options)
        : await readMany(connection, ids, history, options.urgency)
    },

    /**
     * Whether the first deal has a contact or a company. Needs the id that the deal has now. Undefined if the deal is gone.
     * @throws ProviderError
     */
    async isLinked(
      connection: CrmConnection,
      wanted: WantedInOrder,
      history: History,
      urgency: Urgency,
    ): Promise<boolean | undefined> {
      const [first] = wanted
      const knownOf = ({ dealId, readAfterMs }: Wanted) =>
        links.get(linkKey(connection, dealId), readAfterMs) ??
        linksIn(deals.get(dealKey(connection, history, dealId), readAfterMs))
      const known = knownOf(first)
      if (known !== undefined) {
        const answer = await unlessRefused(known.value)
        const isNewEnough = answer?.value || known.startedAt >= first.noLinksAfterMs
        if (answer !== undefined && isNewEnough) return answer.value
      }
      const missing = wanted.slice(1).filter((each) => {
        const entry = knownOf(each)
        if (entry === undefined) return true
        return entry.settled === false && entry.startedAt < each.noLinksAfterMs
      })
      const ids = firstIds(first.dealId, missing, crm.linksAtOnce)
      if (ids.length === 1) {
        const deal = await readOne(connection, first.dealId, history, { withLinks: true, urgency })
        return deal?.linked
      }
      const read = withAccess(connection, urgency, (access) => crm.linked(access, ids))
      for (const id of ids) {
        links.set(
          linkKey(connection, id),
          read.then((found) => found.get(id)),
        )
      }
      return (await read).get(first.dealId)
    },
  }
}

/** The most deals of one call of `deals`. */
export const dealsAtOnce = (
  { dealsAtOnce, historiesAtOnce }: Pick<Crm, 'dealsAtOnce' | 'historiesAtOnce'>,
  history: History,
) => (history === undefined ? dealsAtOnce : (historiesAtOnce ?? dealsAtOnce))

function firstIds(
  first: string,
  others: readonly Wanted[],
  most: number,
): readonly [string, ...string[]] {
  const more = new Set(others.map(({ dealId }) => dealId))
  more.delete(first)
  return [first, ...[...more].slice(0, most - 1)]
}

/**
 * Waits for a read that may have used another user's connection. If this connection was the problem,
 * returns undefined, and the caller reads with its own one.
 */
async function unlessRefused<Value>(read: Promise<Value>): Promise<{ value: Value } | undefined> {
  try {
    return { value: await read }
  } catch (error) {
    if (error instanceof ProviderError && !isOfToken(error)) throw error
    return undefined
  }
}

interface Entry<Value> {
  startedAt: number
  value: Promise<Value>
  settled?: Value
}

/** Whether a read deal has links, if its CRM says that with the deal. */
function linksIn(
  entry: Entry<CrmDeal | undefined | typeof notInBatch> | undefined,
): Entry<boolean> | undefined {
  const deal = entry?.settled
  if (entry === undefined || typeof deal !== 'object' || deal.linked === undefined) return undefined
  const { linked } = deal
  return { startedAt: entry.startedAt, value: Promise.resolve(linked), settled: linked }
}

/** A cache of reads, which forgets those that failed, and those that nobody needed for the longest time. */
function createReads<Value>(now: () => number, changesIn: (value: Value) => number) {
  const entries = createCache<Entry<Value>>(mostSize, {
    ttl: freshMs,
    ttlAutopurge: true,
    perf: { now },
  })

  return {
    get(key: string, afterMs: number): Entry<Value> | undefined {
      const entry = entries.get(key)
      return entry !== undefined && entry.startedAt >= afterMs ? entry : undefined
    },

    set(key: string, value: Promise<Value>): void {
      const startedAt = now()
      const entry: Entry<Value> = { startedAt, value }
      entries.set(key, entry, { size: sizeWithoutHistory })
      value.then(
        (settled) => {
          if (entries.peek(key) !== entry) return
          const size = sizeWithoutHistory + changesIn(settled)
          entries.set(key, { startedAt, value, settled }, { size, start: startedAt })
        },
        // The caller handles the error. The next try reads again.
        () => {
          if (entries.peek(key) === entry) entries.delete(key)
        },
      )
    },
  }
}
