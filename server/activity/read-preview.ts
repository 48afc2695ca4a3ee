import type { Preview } from '../../contract/features/preview.ts'
import type { AvailableRuleId } from '../../contract/rules.ts'
import type { AccessDependencies, CrmConnection } from '../people/access-token.ts'
import { routeOf } from '../people/routes.ts'
import type { ChangedDeals, CrmDeal } from '../providers/deal.ts'
import type { CrmAccess } from '../providers/provider.ts'
import { crmIds, type DealProperty, eachOf } from '../providers/registry.ts'
import { dealsAtOnce } from '../relay/decide/deals.ts'
import { formerValue } from '../relay/decide/former-value.ts'
import {
  type Change,
  dealRules,
  needsLinks,
  ruleFor,
  watchedProperties,
} from '../relay/decide/rules.ts'
import { createStageCache, stageFinder } from '../relay/decide/stages.ts'
import {
  createBreaks,
  createSpareCalls,
  dealsChangedSince,
  dealsInBatches,
  reportedChanges,
} from '../relay/past-changes.ts'
import { plainTextOf } from '../relay/write/message.ts'

/** How much a preview reads. Tests use other values. */
export const readLimits = {
  mostDeals: 1_000,
  /** A few deals may have long histories. This many changes take a second of processor time. */
  mostChanges: 100_000,
  /** The wait after a failed call to the CRM, in ms. It doubles with each try. */
  retryMs: 100,
  /** For how many accounts the CRM is called at the same time. Each answer takes processor time. */
  accountsAtOnce: 10,
  /** A call that waits longer for its answer does not count among them, in ms. */
  slowMs: 1_000,
}

export type ReadLimits = Readonly<typeof readLimits>

export const previewDays = 7

const dayMs = 24 * 60 * 60_000

const singleRules = Object.keys(dealRules).map((id) => {
  // The type of Object.keys does not keep the names of the keys.
  const ruleId = id as AvailableRuleId
  return { ruleId, ticked: new Set([ruleId]) }
})
type SingleRule = (typeof singleRules)[number]

interface PastChange {
  dealId: string
  change: Change
  atMs: number
}

/**
 * Creates the function that reads what changed in the days of a preview, and counts what each rule alone would have
 * sent. It stops when the user disconnects or connects again. @throws ProviderError
 */
export function createPreviewReader(
  dependencies: AccessDependencies,
  limits: ReadLimits,
): (connection: CrmConnection) => Promise<Preview> {
  const { database, providers } = dependencies
  const reading = createSpareCalls(dependencies)
  const stageCaches = eachOf(crmIds, (id) => createStageCache(providers[id]))
  const inTurn = createTurns(limits)

  return async function readPreview(connection) {
    const { provider: crmId } = connection
    const crm = providers[crmId]
    const sinceMs = Date.now() - previewDays * dayMs

    /** Returns the connection, unless it is broken, or the user has disconnected, or connected again. */
    async function sameConnection(refused: readonly string[]) {
      const { crm: current } = await routeOf(database, connection.userId)
      const isSame =
        current?.id === connection.id &&
        current.connectedAt.getTime() === connection.connectedAt.getTime()
      return isSame && current.brokenSince === null && !refused.includes(current.id)
        ? current
        : undefined
    }

    const { retryMs } = limits
    const spareCall = reading({ crm: crmId, connection: sameConnection, retryMs })
    // A call that waits because the CRM asks for a pause has no turn meanwhile.
    const call = <Result>(make: (access: CrmAccess) => Promise<Result>) =>
      spareCall((access) => inTurn(access.accountId, () => make(access)))

    const breathe = createBreaks()
    /** The changes of each deal, the newest first. */
    async function changesOf(deals: ReadonlyMap<string, CrmDeal>, property: DealProperty) {
      const changes: Array<Omit<PastChange, 'change'> & { change: Omit<Change, 'stage'> }> = []
      const stageIds = new Set<string>()
      for (const [dealId, deal] of deals) {
        const reported = reportedChanges(property, deal.history)
        for (const { value, at } of reported
          .filter(({ at }) => at.getTime() >= sinceMs)
          .reverse()) {
          await breathe()
          const from = formerValue(deal.history, { value, occurredAt: at })
          changes.push({ dealId, atMs: at.getTime(), change: { property, from, to: value, deal } })
          if (property === 'stage') for (const id of [from, value]) if (id) stageIds.add(id)
        }
      }
      if (changes.length === 0) return []
      const stages = await call((access) => stageCaches[crmId](access, [...stageIds]))
      const stage = stageFinder(stages)
      return changes.map((each): PastChange => ({ ...each, change: { ...each.change, stage } }))
    }

    const rules = Object.fromEntries(singleRules.map(({ ruleId }) => [ruleId, 0]))
    const preview: Preview = { days: previewDays, rules, samples: {}, complete: true }
    const count = countIn(preview)
    const unlinked = new Map<string, Array<{ rule: SingleRule; past: PastChange }>>()
    async function countLinked(ids: readonly string[]): Promise<void> {
      const linked = await call((access) => crm.linked(access, ids))
      for (const id of ids) {
        for (const { rule, past } of unlinked.get(id) ?? []) {
          await breathe()
          const deal = { ...past.change.deal, linked: linked.get(id) }
          count(rule, { ...past, change: { ...past.change, deal } })
        }
        unlinked.delete(id)
      }
    }

    let told: ChangedDeals['deals']
    const pages = dealsChangedSince(new Date(sinceMs), async (since) => {
      const found = await call((access) => crm.changedDeals(access, since))
      told = found.deals
      return found
    })
    // To read each history may cost the account too much of its budget. Then the last change of each deal must do.
    async function read(ids: readonly string[], property: DealProperty) {
      if (told === undefined) return await call((access) => crm.deals(access, ids, property))
      return new Map([...told].filter(([id]) => property === 'stage' && ids.includes(id)))
    }
    let left = limits.mostDeals
    let changesLeft = limits.mostChanges
    for await (const found of pages) {
      const ids = found.slice(0, left)
      for (const property of watchedProperties) {
        const batches = dealsInBatches(ids, dealsAtOnce(crm, property), (some) =>
          read(some, property),
        )
        for await (const deals of batches) {
          const changes = await changesOf(deals, property)
          for (const past of changes) {
            await breathe()
            for (const rule of singleRules) {
              const isKnown = past.change.deal.linked !== undefined
              if (isKnown || !needsLinks(past.change, rule.ticked)) count(rule, past)
              else {
                const others = unlinked.get(past.dealId) ?? []
                others.push({ rule, past })
                unlinked.set(past.dealId, others)
              }
            }
          }
          while (unlinked.size >= crm.linksAtOnce) {
            await countLinked([...unlinked.keys()].slice(0, crm.linksAtOnce))
          }
          changesLeft -= changes.length
          if (changesLeft <= 0) break
        }
      }
      left -= ids.length
      preview.complete = ids.length === found.length && changesLeft > 0
      if (!preview.complete) break
    }
    if (unlinked.size > 0) await countLinked([...unlinked.keys()])
    return preview
  }
}

/** Returns the function that counts a change if the relay would send it, and keeps the newest message. */
function countIn(preview: Preview) {
  const newest = new Map<AvailableRuleId, number>()
  return function count({ ruleId, ticked }: SingleRule, { change, atMs }: PastChange): void {
    if (ruleFor(change, ticked, { mayLookAgain: false }).kind !== 'send') return
    preview.rules[ruleId] = (preview.rules[ruleId] ?? 0) + 1
    if (atMs <= (newest.get(ruleId) ?? 0)) return
    newest.set(ruleId, atMs)
    const headline = dealRules[ruleId].headline(change)
    preview.samples[ruleId] = plainTextOf({ deal: change.deal, headline })
  }
}

/**
 * Returns the function that starts a task as soon as no other one of the same account runs, and few of all accounts. A
 * slow one gives its place to another account: where one data centre of the CRM is away, the others answer.
 */
function createTurns({ accountsAtOnce, slowMs }: ReadLimits) {
  const running = new Set<string>()
  const places = new Set<string>()
  const queue: Array<{ account: string; start: () => void }> = []
  function startNext() {
    if (places.size >= accountsAtOnce) return
    const next = queue.find(({ account }) => !running.has(account))
    if (next === undefined) return
    queue.splice(queue.indexOf(next), 1)
    running.add(next.account)
    places.add(next.account)
    next.start()
  }
  return async function inTurn<Result>(
    account: string,
    task: () => Promise<Result>,
  ): Promise<Result> {
    await new Promise<void>((start) => {
      queue.push({ account, start })
      startNext()
    })
    const leavePlace = () => {
      places.delete(account)
      startNext()
    }
    const timer = setTimeout(leavePlace, slowMs)
    try {
      return await task()
    } finally {
      clearTimeout(timer)
      running.delete(account)
      leavePlace()
    }
  }
}
