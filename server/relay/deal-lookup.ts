import type { Crm, CrmDeal, Stage } from '../providers/provider.ts'

const stagesFreshMs = 5 * 60_000
const ownersFreshMs = 60 * 60_000

/** The CRM leaves out the oldest versions of a property that has changed often. */
const shortestCutHistory = 20

/**
 * Finds the value before a change in the deal's history, because the webhook reports only the new one.
 * @returns null when the deal was created with the value; undefined when the history does not say.
 */
export function formerValue(
  history: CrmDeal['history'],
  { value, occurredAt }: { value: string; occurredAt: Date },
): string | null | undefined {
  const distance = (at: Date) => Math.abs(at.getTime() - occurredAt.getTime())
  // The property may have had this value more than once. The nearest time is this event's.
  const entered = history
    .map((version, at) => ({ ...version, index: at }))
    .filter((version) => version.value === value)
    .sort((a, b) => distance(a.at) - distance(b.at))[0]
  // The history may lag behind the webhook. Then the last other value before the event is the old one.
  if (entered === undefined || distance(entered.at) > 60_000) {
    return history.findLast((version) => version.at <= occurredAt && version.value !== value)?.value
  }
  if (entered.index > 0) return history[entered.index - 1]?.value
  return history.length < shortestCutHistory ? null : undefined
}

/** Caches the stages of each account for five minutes. A stage that is not among them reloads them. */
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

  /** The account's stages by id. `ids` are the ones that are needed. @throws ProviderError */
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

/** Caches the names of deal owners for an hour. A name is undefined when the app may not read owners. */
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
