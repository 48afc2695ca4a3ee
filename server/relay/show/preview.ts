import { setTimeout as delay } from 'node:timers/promises'
import { and, eq, inArray, isNull } from 'drizzle-orm'
import type { Preview } from '../../../contract/activity.ts'
import type { AvailableRuleId } from '../../../contract/rules.ts'
import type { Database } from '../../database/open.ts'
import { connections } from '../../database/schema.ts'
import type { Log } from '../../log.ts'
import type { CrmConnection } from '../../people/access-token.ts'
import { isOfConfigured } from '../../people/connections.ts'
import type { Vault } from '../../people/vault.ts'
import {
  type CrmAccess,
  type CrmDeal,
  ProviderError,
  type Providers,
} from '../../providers/provider.ts'
import { type CrmId, crmIds, type DealProperty, isCrmId } from '../../providers/registry.ts'
import { formerValue } from '../decide/former-value.ts'
import { type Change, dealRules, decide, needsLinks, watchedProperties } from '../decide/rules.ts'
import { createStageCache, stageFinder } from '../decide/stages.ts'
import {
  createBreaks,
  createSpareCalls,
  dealsChangedSince,
  dealsInBatches,
  reportedChanges,
} from '../search/past-changes.ts'
import { plainTextOf } from '../write/message.ts'

/** How much a preview reads, and for how long, in milliseconds. Tests use other values. */
export interface PreviewLimits {
  mostDeals: number
  /** A few deals may have long histories. This many changes take a second of processor time. */
  mostChanges: number
  /** After this time, the answer is what is counted so far. The dashboard asks again. */
  answerMs: number
  /** How many calls of one user may wait for an answer, and how many of all users. */
  waitingOfUser: number
  waiting: number
  freshMs: number
  /**
   * If a user repeats a failed call, the answer is the same error for this long, without a read. The dashboard
   * asks again after at most 15 s, and must get the error.
   */
  failedMs: number
  /** The wait after a failed call to the CRM. It doubles with each try. */
  retryMs: number
  /** For how many accounts HubSpot is called at the same time. Each answer takes processor time. */
  accountsAtOnce: number
  /** The most previews that are kept. Fewer users than this open the dashboard within ten minutes. */
  mostKept: number
}

export const previewLimits: PreviewLimits = {
  mostDeals: 1_000,
  mostChanges: 100_000,
  answerMs: 800,
  waitingOfUser: 2,
  // A tenth of the connections that may be open.
  waiting: 100,
  freshMs: 10 * 60_000,
  failedMs: 20_000,
  retryMs: 100,
  accountsAtOnce: 10,
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
 * undefined if no CRM is connected. If the read takes longer than `answerMs`, or another one of the user is
 * under way, the answer is not complete. Until something is counted, its `rules` are empty.
 * @throws ProviderError
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
  const inTurn = createTurns(limits.accountsAtOnce)
  const entries = new Map<string, Entry>()
  /** The connections that are being read. */
  const reading = new Set<string>()
  /** The users of the calls that wait for a read. */
  const waiting: string[] = []

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

  /**
   * Finds the preview of a connection, or starts to read it. Calls at the same time share one read.
   * @returns undefined while the connection is read for another number of days.
   */
  function entryOf(connection: CrmConnection, days: number): Entry | undefined {
    const connectionKey = keyOf(connection)
    const key = `${connectionKey}/${days}`
    const known = entries.get(key)
    if (known !== undefined && now() < known.endsAt) return known
    if (reading.has(connectionKey)) return undefined

    const soFar = nothingYet(days)
    reading.add(connectionKey)
    const read = readPreview(connection, soFar).finally(() => reading.delete(connectionKey))
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
      // A call that waits because the CRM asks for a pause has no turn meanwhile.
      return spareCall(
        { crm: crmId, connection: sameConnection, retryMs: limits.retryMs },
        (access) => inTurn(access.accountId, () => make(access)),
      )
    }

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

    const count = countIn(preview)
    const unlinked = new Map<string, Array<{ rule: RuleAlone; past: PastChange }>>()
    async function countLinked(ids: readonly string[]): Promise<void> {
      const linked = await call((access) => crm.linked(access, ids))
      for (const id of ids) {
        for (const { rule, past } of unlinked.get(id) ?? []) {
          await breathe()
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
    let changesLeft = limits.mostChanges
    let complete = true
    for await (const found of pages) {
      const ids = found.slice(0, left)
      for (const property of watchedProperties) {
        const batches = dealsInBatches(ids, crm.dealsAtOnce, (some) =>
          call((access) => crm.deals(access, some, property)),
        )
        for await (const deals of batches) {
          const changes = await changesOf(deals, property)
          for (const past of changes) {
            await breathe()
            for (const rule of rulesAlone) {
              if (!needsLinks(past.change, rule.ticked)) count(rule, past)
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
      for (const { ruleId } of rulesAlone) preview.rules[ruleId] ??= 0
      left -= ids.length
      complete = ids.length === found.length && changesLeft > 0
      if (!complete) break
    }
    if (unlinked.size > 0) await countLinked([...unlinked.keys()])
    return { ...preview, complete }
  }

  /** Waits for a read, but not for long, and not if too many calls wait. Then returns what is known. */
  async function orSoFar({ read, soFar }: Entry, userId: string): Promise<Preview> {
    const mayWait =
      waiting.length < limits.waiting &&
      waiting.filter((id) => id === userId).length < limits.waitingOfUser
    const answered = new AbortController()
    const timer = { ref: false, signal: answered.signal }
    // A read that has ended wins.
    const inTime = delay(mayWait ? limits.answerMs : 0, undefined, timer).then(() =>
      structuredClone(soFar),
    )
    if (mayWait) waiting.push(userId)
    try {
      return await Promise.race([read, inTime])
    } finally {
      if (mayWait) waiting.splice(waiting.indexOf(userId), 1)
      answered.abort()
    }
  }

  return async function preview(userId, days) {
    const connection = await connectionOf(userId)
    if (connection === undefined) return undefined
    const entry = entryOf(connection, days)
    if (entry === undefined) return nothingYet(days)
    try {
      return await orSoFar(entry, userId)
    } catch (error) {
      const current = await connectionOf(userId)
      if (current !== undefined && keyOf(current) === keyOf(connection)) throw error
      // The user has disconnected meanwhile, or the CRM no longer accepts the connection.
      return undefined
    }
  }
}

const nothingYet = (days: number): Preview => ({ days, rules: {}, samples: {}, complete: false })

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
    if (atMs <= (newest.get(ruleId) ?? 0)) return
    newest.set(ruleId, atMs)
    const headline = dealRules[ruleId].headline(change)
    preview.samples[ruleId] = plainTextOf({ deal: change.deal, headline })
  }
}

/**
 * Returns the function that starts a task as soon as no other one of the same account runs, and fewer than `most` of
 * all accounts.
 */
function createTurns(most: number) {
  const running = new Set<string>()
  const waiting: Array<{ account: string; start: () => void }> = []
  function startNext() {
    if (running.size >= most) return
    const next = waiting.find(({ account }) => !running.has(account))
    if (next === undefined) return
    waiting.splice(waiting.indexOf(next), 1)
    running.add(next.account)
    next.start()
  }
  return async function inTurn<Result>(
    account: string,
    task: () => Promise<Result>,
  ): Promise<Result> {
    await new Promise<void>((start) => {
      waiting.push({ account, start })
      startNext()
    })
    try {
      return await task()
    } finally {
      running.delete(account)
      startNext()
    }
  }
}
