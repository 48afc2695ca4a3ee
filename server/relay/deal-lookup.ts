import type { Crm, CrmDeal, Stage } from '../providers/provider.ts'

const stagesFreshMs = 5 * 60_000
const ownersFreshMs = 60 * 60_000

/** The CRM leaves out the oldest values of a long history. A shorter one than this is complete. */
const shortestCutHistory = 20

/**
 * Finds the value before a change in the deal's history. The webhook reports only the new value.
 * @returns null if the deal was created with the new value; undefined if the history is incomplete.
 */
export function formerValue(
  history: CrmDeal['history'],
  { value, occurredAt }: { value: string; occurredAt: Date },
): string | null | undefined {
  const distance = (at: Date) => Math.abs(at.getTime() - occurredAt.getTime())
  // The property may have had this value more than once. Use the time that is nearest to the event.
  const entered = history
    .map((version, at) => ({ ...version, index: at }))
    .filter((version) => version.value === value)
    .sort((a, b) => distance(a.at) - distance(b.at))[0]
  // The history may not contain this change yet. The last other value before the event is the old
  // one.
  if (entered === undefined || distance(entered.at) > 60_000) {
    return history.findLast((version) => version.at <= occurredAt && version.value !== value)?.value
  }
  if (entered.index > 0) return history[entered.index - 1]?.value
  return history.length < shortestCutHistory ? null : undefined
}

/** Caches the stages of each account for five minutes. Loads them again if a stage is missing. */
export function createStageCache(crm: Pick<Crm, 'stages'>, now: () => number = Date.now) {
  const accounts = new Map<string, { stages: ReadonlyMap<string, Stage>; loadedAt: number }>()
  const loading = new Map<string, Promise<ReadonlyMap<string, Stage>>>()

  function load(accountId: string, accessToken: string): Promise<ReadonlyMap<string, Stage>> {
    const running = loading.get(accountId)
    if (running !== undefined) return running
    const started = crm
      .stages(accessToken)
      .then((list) => {
        const stages = new Map(list.map((stage) => [stage.id, stage]))
        accounts.set(accountId, { stages, loadedAt: now() })
        return stages
      })
      .finally(() => loading.delete(accountId))
    loading.set(accountId, started)
    return started
  }

  /** Returns the account's stages by id. The caller needs those in `ids`. @throws ProviderError */
  return async function stagesOf(
    accountId: string,
    accessToken: string,
    ids: readonly string[],
  ): Promise<ReadonlyMap<string, Stage>> {
    const cached = accounts.get(accountId)
    const fresh = cached !== undefined && now() - cached.loadedAt < stagesFreshMs
    if (fresh && ids.every((id) => cached.stages.has(id))) return cached.stages
    return await load(accountId, accessToken)
  }
}

/**
 * Caches the names of deal owners for an hour. A name is undefined if the app may not read owners.
 */
export function createOwnerCache(crm: Pick<Crm, 'ownerName'>, now: () => number = Date.now) {
  const owners = new Map<string, { name: string | undefined; loadedAt: number }>()

  return async function ownerName(
    accountId: string,
    accessToken: string,
    ownerId: string,
  ): Promise<string | undefined> {
    const key = `${accountId}/${ownerId}`
    const cached = owners.get(key)
    if (cached !== undefined && now() - cached.loadedAt < ownersFreshMs) return cached.name
    const name = await crm.ownerName(accessToken, ownerId)
    owners.set(key, { name, loadedAt: now() })
    return name
  }
}
