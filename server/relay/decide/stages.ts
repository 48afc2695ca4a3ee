import { visibleText } from '../../../contract/visible.ts'
import { createCache } from '../../cache.ts'
import type { Stage } from '../../providers/deal.ts'
import type { Crm, CrmAccess } from '../../providers/provider.ts'
import { isOfToken } from '../../providers/provider-error.ts'

const stagesFreshMs = 5 * 60_000
/** More deleted stages than an account's events can name within minutes. */
const mostMissing = 1_000
/** Of all accounts, in some 20 MB. Beyond these, the cache forgets the account that was not needed for the longest time. */
const mostStages = 100_000

interface AccountStages {
  stages: ReadonlyMap<string, Stage>
  /** Ids that are not among them, such as those of deleted stages. */
  missing: ReadonlySet<string>
  loadedAt: number
}

/**
 * Caches the stages of each account for five minutes, or `crm.stagesFreshMs`. Loads them again for an id that is not among
 * them, because a stage may be new. If it is still missing then, remembers this for as long.
 */
export function createStageCache(
  crm: Pick<Crm, 'stages' | 'stagesFreshMs'>,
  now: () => number = () => performance.now(),
) {
  const accounts = createCache<AccountStages>(mostStages)
  const loading = new Map<string, { accessToken: string; stages: Promise<Stage[]> }>()

  /** All who may share a read do. If it fails because of one user's token, the next one reads. */
  async function load(access: CrmAccess): Promise<Stage[]> {
    const { accountId, sharedBy = accountId, accessToken } = access
    for (;;) {
      const running = loading.get(sharedBy)
      if (running === undefined) break
      try {
        return await running.stages
      } catch (error) {
        const isOfOther = isOfToken(error) && running.accessToken !== accessToken
        if (!isOfOther) throw error
      }
    }
    const stages = crm.stages(access).finally(() => loading.delete(sharedBy))
    loading.set(sharedBy, { accessToken, stages })
    return await stages
  }

  /** Returns the stages by id. The caller needs those in `ids`. @throws ProviderError */
  return async function stagesOf(
    access: CrmAccess,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, Stage>> {
    const { accountId, sharedBy = accountId } = access
    const cached = accounts.get(sharedBy)
    const isFresh =
      cached !== undefined && now() - cached.loadedAt < (crm.stagesFreshMs ?? stagesFreshMs)
    if (isFresh && ids.every((id) => cached.stages.has(id) || cached.missing.has(id))) {
      return cached.stages
    }
    const stages = new Map((await load(access)).map((stage) => [stage.id, stage]))
    const asked = [...ids, ...(accounts.get(sharedBy)?.missing ?? [])]
    const missing = new Set(asked.filter((id) => !stages.has(id)).slice(0, mostMissing))
    const size = 1 + stages.size + missing.size
    accounts.set(sharedBy, { stages, missing, loadedAt: now() }, { size })
    return stages
  }
}

/** Returns a function that finds a stage. A deleted stage counts as open. Without a label, its id is shown. */
export function stageFinder(stages: ReadonlyMap<string, Stage>): (id: string) => Stage {
  return (id) => {
    const stage = stages.get(id)
    return {
      ...stage,
      id,
      label: visibleText(stage?.label) ?? id,
      outcome: stage?.outcome ?? 'open',
    }
  }
}
