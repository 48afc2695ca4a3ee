// What the search for missed changes (search/) and the preview (activity/read-preview.ts) share: they read the past
// changes of an account, with calls that leave room for the relay's.

import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import {
  type AccessDependencies,
  type CrmConnection,
  createWithAccess,
} from '../people/access-token.ts'
import { checkSoon, isSame } from '../people/refusals.ts'
import type { CrmDeal } from '../providers/deal.ts'
import type { Crm, CrmAccess } from '../providers/provider.ts'
import {
  isLasting,
  isOfToken,
  isTooLarge,
  mayBeOfOneDeal,
  ProviderError,
} from '../providers/provider-error.ts'
import type { CrmId, DealProperty } from '../providers/registry.ts'

const longestPauseMs = 30_000
const longestTurnMs = 10
/** After this many failed tries of one call, the reading ends. */
const maxTries = 5

interface Reading {
  crm: CrmId
  /**
   * Finds a connection that works and that the CRM has not refused. It is called before each try, so that
   * none uses the token of a user who has disconnected.
   */
  connection(refused: readonly string[]): Promise<CrmConnection | undefined>
  /** The wait after a failed try, in ms. It doubles with each try. */
  retryMs: number
  signal?: AbortSignal
}

/**
 * Creates the function that begins to read past changes. It returns the function that calls the CRM for this. The calls
 * use only room that the account's limit has to spare, and wait as the CRM asks. Until the first answer, a call that fails
 * is not made again: while the CRM is away, a reading ends soon and costs little.
 */
export function createSpareCalls(dependencies: AccessDependencies) {
  const { database } = dependencies
  const withAccess = createWithAccess(dependencies)

  return function reading({ crm, connection: find, retryMs, signal }: Reading) {
    let hasAnswered = false
    return call

    /**
     * @param mostTries how often it is made at most, unless the CRM asks for a wait.
     * @throws ProviderError of the last try; with the reason `no_connection` if there was no try.
     */
    async function call<Result>(
      make: (access: CrmAccess) => Promise<Result>,
      mostTries = maxTries,
    ): Promise<Result> {
      const refused: string[] = []
      let lastError = new ProviderError(crm, 'read', 'refused', 'no_connection')
      for (let tries = 1; ; ) {
        signal?.throwIfAborted()
        const connection = await find(refused)
        if (connection === undefined) throw lastError
        try {
          const answer = await withAccess(connection, 'spare', make)
          hasAnswered = true
          return answer
        } catch (error) {
          if (!(error instanceof ProviderError)) throw error
          lastError = error
          if (isOfToken(error)) {
            refused.push(connection.id)
            // A refused refresh may break the connection. A refused read does not: perhaps only this read is not allowed.
            if (error.stage === 'refresh') await checkSoon(database, isSame(connection))
            continue
          }
          // Each answer may cost the account some of its budget.
          if (isLasting(error)) throw error
          const waitMs = error.retryAfterMs ?? retryMs * 2 ** (tries - 1)
          const most = error.retryAfterMs !== undefined ? maxTries : hasAnswered ? mostTries : 1
          if (tries >= most || waitMs > longestPauseMs) throw error
          tries++
          await delay(waitMs, undefined, { ref: false, ...(signal && { signal }) })
        }
      }
    }
  }
}

/** Finds the deals that changed since a time, page by page, the oldest change first. Each one once. */
export async function* dealsChangedSince(
  since: Date,
  search: (since: Date) => ReturnType<Crm['changedDeals']>,
): AsyncGenerator<string[], void> {
  const known = new Set<string>()
  for (;;) {
    const found = await search(since)
    // A deal that changes during the search is found twice.
    const ids = [...new Set(found.ids)].filter((id) => !known.has(id))
    for (const id of ids) known.add(id)
    yield ids
    if (found.complete) return
    since = found.until
  }
}

/**
 * Reads the histories of deals, with calls for at most `size` of them. If one of the deals may be why a call failed, reads
 * those of that call again one by one.
 * @param leaveOut is called if a call for a single deal failed. It throws to end the reading. By default, only a deal whose
 * answer is too large is left out.
 */
export async function* dealsInBatches(
  ids: readonly string[],
  size: number,
  read: (ids: readonly string[]) => Promise<ReadonlyMap<string, CrmDeal>>,
  leaveOut: (id: string, error: unknown) => void = throwUnlessTooLarge,
): AsyncGenerator<ReadonlyMap<string, CrmDeal>, void> {
  const batches = batchesOf(ids, size)
  for (let ids = batches.shift(); ids !== undefined; ids = batches.shift()) {
    try {
      yield await read(ids)
    } catch (error) {
      if (ids.length === 1) leaveOut(String(ids[0]), error)
      else if (mayBeOfOneDeal(error)) batches.unshift(...batchesOf(ids, 1))
      else throw error
    }
  }
}

function throwUnlessTooLarge(_: string, error: unknown): void {
  if (!isTooLarge(error)) throw error
}

/**
 * Returns a function to call in long loops. It lets other work run if this loop has held the thread for some
 * milliseconds.
 */
export function createBreaks(): () => Promise<void> {
  let since = performance.now()
  return async () => {
    if (performance.now() - since < longestTurnMs) return
    await nextTurn()
    since = performance.now()
  }
}

function batchesOf(ids: readonly string[], size: number): string[][] {
  return Array.from({ length: Math.ceil(ids.length / size) }, (_, at) =>
    ids.slice(at * size, (at + 1) * size),
  )
}

/** The changes of a property, as the webhooks would report them. The first value counts too. */
export function reportedChanges(
  property: DealProperty,
  history: CrmDeal['history'],
): CrmDeal['history'] {
  return history.filter(
    ({ value }, at) => value !== history[at - 1]?.value && isReported(property, value),
  )
}

/** Whether a webhook would bring this value. Users can clear a property, but not the stage. */
function isReported(property: DealProperty, value: string): boolean {
  if (property === 'stage' && value === '') return false
  // PostgreSQL cannot store NUL or half of a surrogate pair.
  return value.length <= 255 && value.isWellFormed() && !value.includes('\0')
}
