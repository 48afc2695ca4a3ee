import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, inArray, isNull } from 'drizzle-orm'
import type { Preview } from '../../contract/activity.ts'
import type { AvailableRuleId } from '../../contract/rules.ts'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import type { Log } from '../log.ts'
import type { CrmConnection } from '../people/access-token.ts'
import { isOfConfigured } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import { type CrmAccess, ProviderError, type Providers } from '../providers/provider.ts'
import { type CrmId, crmIds, type DealProperty, isCrmId } from '../providers/registry.ts'
import { createStageCache, formerValue, stageFinder } from './deal-lookup.ts'
import { plainTextOf } from './message.ts'
import { batchesOf, createSpareCalls, dealsChangedSince, reportedChanges } from './past-changes.ts'
import { type Change, dealRules, decide, needsLinks, watchedProperties } from './rules.ts'

/** How much a preview reads, and for how long, in milliseconds. Tests use other values. */
export interface PreviewLimits {
  mostDeals: number
  /** The dashboard waits ten seconds for an answer. */
  answerMs: number
  freshMs: number
  /** If a user repeats a failed call, the answer is the same error for this long, without a read. */
  failedMs: number
  /** The wait after a failed call to the CRM. It doubles with each try. */
  retryMs: number
  /** How many reads run at the same time. Each answer takes processor time, which the relay needs too. */
  readsAtOnce: number
  /** The most previews that are kept. Fewer users than this open the dashboard within ten minutes. */
  mostKept: number
}

export const previewLimits: PreviewLimits = {
  mostDeals: 1_000,
  answerMs: 8_000,
  freshMs: 10 * 60_000,
  failedMs: 10_000,
  retryMs: 100,
  readsAtOnce: 10,
  mostKept: 5_000,
}

const dayMs = 24 * 60 * 60_000

const rulesAlone = Object.keys(dealRules).map((id) => {
  // The type of Object.keys does not keep the names of the keys.
  const ruleId = id as AvailableRuleId
  return { ruleId, ticked: new Set([ruleId]) }
})
type RuleAlone = (typeof rulesAlone)[number]

interface PastChange {
  dealId: string
  change: Change
  atMs: number
}

/** A preview that is being read, or was read. */
interface Entry {
  soFar: Preview
  read: Promise<Preview>
  /** When to read again. */
  endsAt: number
}

/**
 * Creates the function that returns what each rule alone would have sent to a user within the last days;
 * undefined if no CRM is connected. If the read takes longer than the dashboard waits, the read goes on,
 * and the answer is not complete. Until something is counted, its `rules` are empty. @throws ProviderError
 */
export function createPreview(
  {
    database,
    vault,
    providers,
    log,
  }: { database: Database; vault: Vault; providers: Providers; log: Log },
  limits: PreviewLimits = previewLimits,
  now: () => number = Date.now,
): (userId: string, days: number) => Promise<Preview | undefined> {
  const spareCall = createSpareCalls({ database, vault, providers, log })
  const stageCaches = Object.fromEntries(
    crmIds.map((id) => [id, createStageCache(providers[id])]),
    // The type of Object.fromEntries does not keep the names of the keys.
  ) as Record<CrmId, ReturnType<typeof createStageCache>>
  const inTurn = createTurns(limits.readsAtOnce)
  const entries = new Map<string, Entry>()

  async function connectionOf(userId: string): Promise<CrmConnection | undefined> {
    const [row] = await database
      .select()
      .from(connections)
      .where(
        and(
          eq(connections.userId, userId),
          inArray(connections.provider, [...crmIds]),
          isNull(connections.brokenSince),
          isOfConfigured(providers, connections),
        ),
      )
      .orderBy(connections.connectedAt)
      .limit(1)
    return row && isCrmId(row.provider) ? { ...row, provider: row.provider } : undefined
  }

  /** Finds the preview of a connection, or starts to read it. Calls at the same time share one read. */
  function entryOf(connection: CrmConnection, days: number): Entry {
    const key = `${keyOf(connection)}/${days}`
    const known = entries.get(key)
    if (known !== undefined && now() < known.endsAt) return known

    const soFar: Preview = { days, rules: {}, samples: {}, complete: false }
    const read = inTurn(() => readPreview(connection, soFar))
    const entry: Entry = { soFar, read, endsAt: Number.POSITIVE_INFINITY }
    read.then(
      () => {
        entry.endsAt = now() + limits.freshMs
      },
      (error: unknown) => {
        entry.endsAt = now() + limits.failedMs
        // The call that waits for the read logs other errors. When the process stops, no call waits.
        if (!(error instanceof ProviderError) || error.reason === 'no_connection') return
        const { stage, kind, reason } = error
        log('preview failed', { connection: connection.id, stage, kind, reason })
      },
    )
    for (const [old, { endsAt }] of entries) {
      if (endsAt <= now() || entries.size >= limits.mostKept) entries.delete(old)
    }
    entries.set(key, entry)
    return entry
  }

  /** Reads the changes and counts them in `preview`. @throws ProviderError */
  async function readPreview(connection: CrmConnection, preview: Preview): Promise<Preview> {
    const { provider: crmId, userId } = connection
    const crm = providers[crmId]
    const sinceMs = now() - preview.days * dayMs

    /** Makes a call, unless the user has disconnected, or connected again. */
    function call<Result>(make: (access: CrmAccess) => Promise<Result>): Promise<Result> {
      async function sameConnection(refused: readonly string[]) {
        const current = await connectionOf(userId)
        const isSame = current !== undefined && keyOf(current) === keyOf(connection)
        return isSame && !refused.includes(current.id) ? current : undefined
      }
      return spareCall({ crm: crmId, connection: sameConnection, retryMs: limits.retryMs }, make)
    }

    async function changesOf(ids: readonly string[], property: DealProperty) {
      const deals = await call((access) => crm.deals(access, ids, property))
      const changes = [...deals].flatMap(([dealId, deal]) =>
        reportedChanges(property, deal.history)
          .filter(({ at }) => at.getTime() >= sinceMs)
          .map(({ value, at }) => {
            const from = formerValue(deal.history, { value, occurredAt: at })
            return { dealId, atMs: at.getTime(), change: { property, from, to: value, deal } }
          }),
      )
      if (changes.length === 0) return []
      const values = changes.flatMap(({ change: { from, to } }) => (from ? [from, to] : [to]))
      const stageIds = property === 'stage' ? [...new Set(values)] : []
      const stages = await call((access) => stageCaches[crmId](access, stageIds))
      const stage = stageFinder(stages)
      return changes.map((each): PastChange => ({ ...each, change: { ...each.change, stage } }))
    }

    const count = countIn(preview)
    const unlinked = new Map<string, Array<{ rule: RuleAlone; past: PastChange }>>()
    async function countLinked(ids: readonly string[]): Promise<void> {
      const linked = await call((access) => crm.linked(access, ids))
      for (const id of ids) {
        for (const { rule, past } of unlinked.get(id) ?? []) {
          const deal = { ...past.change.deal, linked: linked.has(id) }
          count(rule, { ...past, change: { ...past.change, deal } })
        }
        unlinked.delete(id)
      }
    }

    const pages = dealsChangedSince(new Date(sinceMs), (since) =>
      call((access) => crm.changedDeals(access, since)),
    )
    let left = limits.mostDeals
    let complete = true
    for await (const found of pages) {
      const ids = found.slice(0, left)
      for (const property of watchedProperties) {
        for (const some of batchesOf(ids, crm.dealsAtOnce)) {
          for (const past of await changesOf(some, property)) {
            for (const rule of rulesAlone) {
              if (!needsLinks(past.change, rule.ticked)) count(rule, past)
              else unlinked.set(past.dealId, [...(unlinked.get(past.dealId) ?? []), { rule, past }])
            }
          }
          while (unlinked.size >= crm.linksAtOnce) {
            await countLinked([...unlinked.keys()].slice(0, crm.linksAtOnce))
          }
        }
      }
      for (const { ruleId } of rulesAlone) preview.rules[ruleId] ??= 0
      left -= ids.length
      complete = ids.length === found.length
      if (!complete) break
    }
    if (unlinked.size > 0) await countLinked([...unlinked.keys()])
    return { ...preview, complete }
  }

  return async function preview(userId, days) {
    const connection = await connectionOf(userId)
    if (connection === undefined) return undefined
    const { read, soFar } = entryOf(connection, days)
    const answered = new AbortController()
    const timer = { ref: false, signal: answered.signal }
    const inTime = delay(limits.answerMs, undefined, timer).then(() => structuredClone(soFar))
    try {
      return await Promise.race([read, inTime])
    } catch (error) {
      const current = await connectionOf(userId)
      if (current !== undefined && keyOf(current) === keyOf(connection)) throw error
      // The user has disconnected meanwhile, or the CRM no longer accepts the connection.
      return undefined
    } finally {
      answered.abort()
    }
  }
}

/** A connection keeps its id when the user connects again. */
function keyOf({ id, connectedAt }: CrmConnection): string {
  return `${id}/${connectedAt.getTime()}`
}

/** Returns the function that counts a change if the relay would send it, and keeps the newest message. */
function countIn(preview: Preview) {
  const newest = new Map<AvailableRuleId, number>()
  return function count({ ruleId, ticked }: RuleAlone, { change, atMs }: PastChange): void {
    if (decide(change, ticked, { mayLookAgain: false }).kind !== 'send') return
    preview.rules[ruleId] = (preview.rules[ruleId] ?? 0) + 1
    if (atMs < (newest.get(ruleId) ?? 0)) return
    newest.set(ruleId, atMs)
    const headline = dealRules[ruleId].headline(change)
    preview.samples[ruleId] = plainTextOf({ deal: change.deal, headline })
  }
}

/** Returns the function that starts a task as soon as fewer than `most` of them run. */
function createTurns(most: number) {
  const waiting: Array<() => void> = []
  let running = 0
  return async function inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    if (running < most) running++
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await task()
    } finally {
      const next = waiting.shift()
      if (next === undefined) running--
      else next()
    }
  }
}
