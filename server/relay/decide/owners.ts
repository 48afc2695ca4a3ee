import { createCache } from '../../cache.ts'
import type { CrmOwner } from '../../providers/deal.ts'
import type { Crm, CrmAccess } from '../../providers/provider.ts'
import { ProviderError } from '../../providers/provider-error.ts'

const ownersFreshMs = 60 * 60_000
/** Beyond these, the caches forget what was not needed for the longest time. */
const mostAccounts = 1_000
const mostOwners = 10_000

/**
 * Caches the owners of deals for an hour. If the account does not let the app read owners, they are
 * undefined, and there are no further calls for an hour.
 */
export function createOwnerCache(
  crm: Pick<Crm, 'owner'>,
  now: () => number = () => performance.now(),
) {
  const owners = createCache<{ owner: CrmOwner | undefined; loadedAt: number }>(mostOwners)
  const refusedAt = createCache<number>(mostAccounts)

  return async function ownerOf(access: CrmAccess, ownerId: string): Promise<CrmOwner | undefined> {
    const { accountId, sharedBy = accountId, mayReadOwners } = access
    if (mayReadOwners === false) return undefined
    const isFresh = (time: number | undefined) => time !== undefined && now() - time < ownersFreshMs
    if (isFresh(refusedAt.get(sharedBy))) return undefined
    const key = `${sharedBy}/${ownerId}`
    const cached = owners.get(key)
    if (isFresh(cached?.loadedAt)) return cached?.owner
    try {
      const owner = await crm.owner(access, ownerId)
      owners.set(key, { owner, loadedAt: now() })
      return owner
    } catch (error) {
      if (!(error instanceof ProviderError && error.kind === 'refused')) throw error
      refusedAt.set(sharedBy, now())
      return undefined
    }
  }
}
