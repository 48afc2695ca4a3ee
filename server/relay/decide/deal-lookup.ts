import { LRUCache } from 'lru-cache'
import {
  type Crm,
  type CrmAccess,
  type CrmDeal,
  isOfToken,
  ProviderError,
  type Stage,
} from '../../providers/provider.ts'
import { firstIndex, toleranceMs } from '../receive/same-change.ts'

const stagesFreshMs = 5 * 60_000
/** More deleted stages than an account's events can name within minutes. */
const mostMissing = 1_000
const ownersFreshMs = 60 * 60_000
/** Beyond these, the caches forget what was not needed for the longest time. */
export const mostAccounts = 1_000
export const mostOwners = 10_000

/**
 * A CRM may leave out the oldest values of a long history. HubSpot does not document how many it keeps. We
 * take a shorter history than this as complete.
 */
const shortestCutHistory = 20

/** The entries of one history, in order. */
interface Timeline {
  /** Without values that were saved again, which is no change. */
  changes: CrmDeal['history']
  /** The indexes of the changes to each value. */
  byValue: ReadonlyMap<string, readonly number[]>
}

/** One history serves all its changes. It may have thousands, so each must be found without a scan. */
const timelines = new WeakMap<CrmDeal['history'], Timeline>()

function timelineOf(versions: CrmDeal['history']): Timeline {
  const known = timelines.get(versions)
  if (known !== undefined) return known
  const changes = versions.filter(({ value }, at) => value !== versions[at - 1]?.value)
  const byValue = Map.groupBy(changes.keys(), (at) => changes[at]?.value ?? '')
  const timeline = { changes, byValue }
  timelines.set(versions, timeline)
  return timeline
}

/**
 * Finds the value before a change in the deal's history. The webhook reports only the new value.
 * @returns null if the deal was created with the new value; undefined if the history is incomplete.
 */
export function formerValue(
  versions: CrmDeal['history'],
  { value, occurredAt }: { value: string; occurredAt: Date },
): string | null | undefined {
  const { changes, byValue } = timelineOf(versions)
  const timeOf = (index = -1) => changes[index]?.at.getTime() ?? Number.NaN
  const eventMs = occurredAt.getTime()
  const distance = (index: number) => Math.abs(timeOf(index) - eventMs)
  // The property may have had this value more than once. Use the time that is nearest to the event.
  const entered = byValue.get(value) ?? []
  const next = firstIndex(entered.length, (at) => timeOf(entered[at]) >= eventMs)
  const [nearest] = entered
    .slice(Math.max(0, next - 1), next + 1)
    .sort((a, b) => distance(a) - distance(b))
  // The history may not contain this change yet. The last other value before the event is the old
  // one.
  if (nearest === undefined || distance(nearest) > toleranceMs) {
    const last = firstIndex(changes.length, (at) => timeOf(at) > eventMs) - 1
    return changes[changes[last]?.value === value ? last - 1 : last]?.value
  }
  if (nearest > 0) return changes[nearest - 1]?.value
  return versions.length < shortestCutHistory ? null : undefined
}

interface AccountStages {
  stages: ReadonlyMap<string, Stage>
  /** Ids that are not among them, such as those of deleted stages. */
  missing: ReadonlySet<string>
  loadedAt: number
}

/**
 * Caches the stages of each account for five minutes. Loads them again for an id that is not among them,
 * because a stage may be new. If it is still missing then, remembers this for five minutes as well.
 */
export function createStageCache(crm: Pick<Crm, 'stages'>, now: () => number = Date.now) {
  const accounts = new LRUCache<string, AccountStages>({ max: mostAccounts })
  const loading = new Map<string, { accessToken: string; stages: Promise<Stage[]> }>()

  /** All users of an account share a read. If it fails because of one user's token, the next one reads. */
  async function load(access: CrmAccess): Promise<Stage[]> {
    const { accountId, accessToken } = access
    for (;;) {
      const running = loading.get(accountId)
      if (running === undefined) break
      try {
        return await running.stages
      } catch (error) {
        const isOfOther = isOfToken(error) && running.accessToken !== accessToken
        if (!isOfOther) throw error
      }
    }
    const stages = crm.stages(access).finally(() => loading.delete(accountId))
    loading.set(accountId, { accessToken, stages })
    return await stages
  }

  /** Returns the account's stages by id. The caller needs those in `ids`. @throws ProviderError */
  return async function stagesOf(
    access: CrmAccess,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, Stage>> {
    const cached = accounts.get(access.accountId)
    const isFresh = cached !== undefined && now() - cached.loadedAt < stagesFreshMs
    if (isFresh && ids.every((id) => cached.stages.has(id) || cached.missing.has(id))) {
      return cached.stages
    }
    const stages = new Map((await load(access)).map((stage) => [stage.id, stage]))
    const asked = [...ids, ...(accounts.get(access.accountId)?.missing ?? [])]
    const missing = new Set(asked.filter((id) => !stages.has(id)).slice(0, mostMissing))
    accounts.set(access.accountId, { stages, missing, loadedAt: now() })
    return stages
  }
}

/** Returns a function that finds a stage. A deleted stage counts as open, and its label is its id. */
export function stageFinder(stages: ReadonlyMap<string, Stage>): (id: string) => Stage {
  return (id) => stages.get(id) ?? { id, label: id, outcome: 'open' }
}

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
