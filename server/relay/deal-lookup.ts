import type { Crm, Stage } from '../providers/provider.ts'
import type { Move } from './decide.ts'

const stagesFreshMs = 5 * 60_000
const ownersFreshMs = 60 * 60_000

/** HubSpot leaves out the oldest versions of a property that changed often. */
const shortestCutHistory = 20

/** Where a deal came from, by its history: the event itself holds only where it went. */
export function formerStageId(
  history: ReadonlyArray<{ stageId: string; at: Date }>,
  { stageId, occurredAt }: { stageId: string; occurredAt: Date },
): string | null | undefined {
  const distance = (at: Date) => Math.abs(at.getTime() - occurredAt.getTime())
  // A deal may have come into the same stage more than once; the nearest time is this event's.
  const entered = history
    .map((version, at) => ({ ...version, index: at }))
    .filter((version) => version.stageId === stageId)
    .sort((a, b) => distance(a.at) - distance(b.at))[0]
  // The history may lag behind the webhook: then the last other stage before it is the former one.
  if (entered === undefined || distance(entered.at) > 60_000) {
    return history.findLast((version) => version.at <= occurredAt && version.stageId !== stageId)
      ?.stageId
  }
  if (entered.index > 0) return history[entered.index - 1]?.stageId
  return history.length < shortestCutHistory ? null : undefined
}

/** The stages of each account, kept for minutes; a stage that is not among them loads them anew. */
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

  /** Those of the stages that the account has. @throws ProviderError */
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

/** The names of deals' owners, kept for an hour; undefined when the app may not read them. */
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

/** A move by the stages' own words; a stage that no pipeline has any more is called by its id. */
export function moveBetween(
  stages: ReadonlyMap<string, Stage>,
  { from, to, linked }: { from: string | null | undefined; to: string; linked: boolean },
): Move {
  const stage = (id: string): Stage => stages.get(id) ?? { id, label: id, outcome: 'open' }
  return { from: from ? stage(from) : from === null ? null : undefined, to: stage(to), linked }
}
