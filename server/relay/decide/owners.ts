import { LRUCache } from 'lru-cache'
import { type Crm, type CrmAccess, ProviderError } from '../../providers/provider.ts'

const ownersFreshMs = 60 * 60_000
/** Beyond these, the caches forget what was not needed for the longest time. */
const mostAccounts = 1_000
const mostOwners = 10_000

/**
 * Caches the names of deal owners for an hour. If the account does not let the app read owners, their
 * names are undefined, and there are no further calls for an hour.
 */
export function createOwnerCache(crm: Pick<Crm, 'ownerName'>, now: () => number = Date.now) {
  const owners = new LRUCache<string, { name: string | undefined; loadedAt: number }>({
    max: mostOwners,
  })
  const refusedAt = new LRUCache<string, number>({ max: mostAccounts })

  return async function ownerName(access: CrmAccess, ownerId: string): Promise<string | undefined> {
    const { accountId, mayReadOwners } = access
    if (mayReadOwners === false) return undefined
    const isFresh = (time: number | undefined) => time !== undefined && now() - time < ownersFreshMs
    if (isFresh(refusedAt.get(accountId))) return undefined
    const key = `${accountId}/${ownerId}`
    const cached = owners.get(key)
    if (isFresh(cached?.loadedAt)) return cached?.name
    try {
      const name = await crm.ownerName(access, ownerId)
      owners.set(key, { name, loadedAt: now() })
      return name
    } catch (error) {
      if (!(error instanceof ProviderError && error.kind === 'refused')) throw error
      refusedAt.set(accountId, now())
      return undefined
    }
  }
}
