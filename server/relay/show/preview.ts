import { setTimeout as delay } from 'node:timers/promises'
import type { Preview } from '../../../contract/features/preview.ts'
import type { Database } from '../../database/open.ts'
import type { CrmConnection } from '../../people/access-token.ts'
import { routeOf } from '../../people/routes.ts'
import type { Vault } from '../../people/vault.ts'
import type { Providers } from '../../providers/provider.ts'
import { createPreviewReader, type ReadLimits } from './read-preview.ts'

/** How much a preview reads, and for how long, in milliseconds. Tests use other values. */
export interface PreviewLimits extends ReadLimits {
  /** After this time, the answer is what is counted so far. The dashboard asks again. */
  answerMs: number
  /** How many calls of one user may wait for an answer, and how many of all users. */
  waitingOfUser: number
  waiting: number
  freshMs: number
  /** Replaces `freshMs` for a stand-in: a person who tries it wants to see at once what a move counts. */
  freshOfStandInMs: number
  /**
   * If a user repeats a failed call, the answer is the same error for this long, without a read. The dashboard
   * asks again after at most 15 s, and must get the error.
   */
  failedMs: number
  /** The most previews that are kept. Fewer users than this open the dashboard within ten minutes. */
  mostKept: number
}

export const previewLimits: Readonly<PreviewLimits> = {
  mostDeals: 1_000,
  mostChanges: 100_000,
  answerMs: 800,
  waitingOfUser: 2,
  // A tenth of the connections that may be open.
  waiting: 100,
  freshMs: 10 * 60_000,
  freshOfStandInMs: 5_000,
  failedMs: 20_000,
  retryMs: 100,
  accountsAtOnce: 10,
  mostKept: 5_000,
}

/** A preview that is being read, or was read. */
interface Entry {
  soFar: Preview
  read: Promise<Preview>
  /** When to read again. */
  endsAt: number
}

/**
 * Creates the function that returns what each rule alone would have sent to a connection's user within the last days;
 * undefined if the connection has ended meanwhile. If the read takes longer than `answerMs`, or another one of the user is
 * under way, the answer is not complete. Until something is counted, its `rules` are empty.
 * @throws ProviderError
 */
export function createPreview(
  dependencies: { database: Database; vault: Vault; providers: Providers },
  limits: PreviewLimits = previewLimits,
  now: () => number = () => performance.now(),
): (connection: CrmConnection, days: number) => Promise<Preview | undefined> {
  const { database, providers } = dependencies
  const readPreview = createPreviewReader({ ...dependencies, stillConnected }, limits)
  const entries = new Map<string, Entry>()
  /** The connections that are being read. */
  const reading = new Set<string>()
  /** The users of the calls that wait for a read. */
  const callers: string[] = []

  /** Returns the user's connection, unless it is broken, or the user has disconnected, or connected again. */
  async function stillConnected(connection: CrmConnection): Promise<CrmConnection | undefined> {
    const { crm } = await routeOf({ database, providers }, connection.userId)
    return crm?.brokenSince === null && keyOf(crm) === keyOf(connection) ? crm : undefined
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
        const { standIn } = providers[connection.provider]
        entry.endsAt = now() + (standIn ? limits.freshOfStandInMs : limits.freshMs)
      },
      // The call that waits for the read, or the next one, logs the error.
      () => {
        entry.endsAt = now() + limits.failedMs
      },
    )
    for (const [old, { endsAt }] of entries) {
      if (endsAt <= now() || entries.size >= limits.mostKept) entries.delete(old)
    }
    entries.set(key, entry)
    return entry
  }

  /** Waits for a read, but not for long, and not if too many calls wait. Then returns what is known. */
  async function orSoFar({ read, soFar }: Entry, userId: string): Promise<Preview> {
    const mayWait =
      callers.length < limits.waiting &&
      callers.filter((id) => id === userId).length < limits.waitingOfUser
    const answered = new AbortController()
    const timer = { ref: false, signal: answered.signal }
    // A read that has ended wins.
    const inTime = delay(mayWait ? limits.answerMs : 0, undefined, timer).then(() =>
      structuredClone(soFar),
    )
    if (mayWait) callers.push(userId)
    try {
      return await Promise.race([read, inTime])
    } finally {
      if (mayWait) callers.splice(callers.indexOf(userId), 1)
      answered.abort()
    }
  }

  return async function preview(connection, days) {
    const entry = entryOf(connection, days)
    if (entry === undefined) return nothingYet(days)
    try {
      return await orSoFar(entry, connection.userId)
    } catch (error) {
      if ((await stillConnected(connection)) !== undefined) throw error
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
