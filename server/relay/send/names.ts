// When a broken chat ends a backlog, nothing is known of its deals yet. This reads from the CRM, which may still work,
// what the user's list of messages shows of the newest ones. It works beside the channels and holds up none of them.

import { and, desc, eq, inArray, isNull, sql } from 'drizzle-orm'
import { isRefusedWithoutRoom } from '../../database/failure.ts'
import type { Database } from '../../database/open.ts'
import { connections, dealEvents, deliveries } from '../../database/schema.ts'
import { errorFields, type Log } from '../../log.ts'
import type { CrmConnection } from '../../people/access-token.ts'
import { ProviderError } from '../../providers/provider.ts'
import type { Candidate, ChangeReader, ReadBy } from '../decide/change.ts'
import { decide } from '../decide/rules.ts'
import {
  type Delivery,
  deliveryAndEvent,
  isOfDeal,
  type Shown,
  stateWithoutIndex,
} from '../pick/delivery.ts'
import { entryOf } from '../write/message.ts'
import { shownOfChange, shownOfEntry, shownOfValue } from '../write/shown.ts'
import { idsOf, setShown, shownItems } from './group.ts'

/** The most backlogs that wait for their names. Those of further ones are shown with the ids of their deals. */
const mostWaiting = 50

interface NamingDependencies {
  database: Database
  log: Log
  changes: Pick<ChangeReader, 'candidatesOf' | 'changeOf'>
  isStopping: () => boolean
}

/** Deliveries of the same user and channel as `delivery`, of which the relay has read nothing. */
interface Unnamed {
  delivery: Delivery
  crm: CrmConnection
  ids: readonly number[]
}

/** Creates the function that names ended deliveries. It works on one backlog at a time. */
export function createNaming({ database, log, changes, isStopping }: NamingDependencies) {
  const waiting: Unnamed[] = []
  let running: Promise<void> | undefined

  async function run(): Promise<void> {
    for (;;) {
      const next = waiting.shift()
      if (next === undefined || isStopping()) break
      try {
        await nameAll(next)
      } catch (error) {
        // A list with ids is better than more calls to a CRM that refuses them.
        const isExpected = error instanceof ProviderError || isRefusedWithoutRoom(error)
        if (!isExpected) log('deals not named', errorFields(error))
      }
    }
    running = undefined
  }

  async function nameAll({ delivery, crm, ids }: Unnamed): Promise<void> {
    const askedAt = Date.now()
    const rows = await database
      .select(deliveryAndEvent)
      .from(deliveries)
      .innerJoin(dealEvents, eq(dealEvents.id, deliveries.eventId))
      .where(
        and(
          inArray(deliveries.id, [...ids]),
          isNull(deliveries.dealName),
          sql`${stateWithoutIndex} = 'dead'`,
          // Nothing is read for a user who has disconnected the CRM meanwhile.
          sql`exists (select from ${connections} as own where own.id = ${crm.id} and own.broken_since is null)`,
        ),
      )
      .orderBy(desc(deliveries.occurredAt), desc(deliveries.id))
    const unnamed = rows
      .map((row) => ({ ...delivery, ...row, receivedAtMs: askedAt - row.ageMs }))
      .filter(isOfDeal)
    const by: ReadBy = { crm, urgency: 'backlog' }
    const candidates = await changes.candidatesOf(unnamed, by)
    const named: Delivery[] = []
    try {
      for (const [n, candidate] of candidates.entries()) {
        if (isStopping()) break
        const others = candidates.slice(n + 1).filter(({ possible }) => possible.length > 0)
        named.push({ ...candidate.delivery, shown: await shownOf([candidate, ...others], by) })
      }
    } finally {
      if (named.length > 0) await store(named, crm)
    }
  }

  /** Reads what the list shows of the first change. The same calls read those after it. */
  async function shownOf(
    candidates: readonly [Candidate, ...Candidate[]],
    by: ReadBy,
  ): Promise<Shown> {
    const [{ delivery, possible, stage }] = candidates
    const atMs = Date.now()
    // A deal that no rule needs is not read.
    const change = possible.length > 0 ? await changes.changeOf(candidates, by, atMs) : undefined
    if (change === undefined) return shownOfValue({ ...delivery, stage })
    const decision = decide(change, new Set(delivery.ruleIds), { mayLookAgain: false })
    return decision.kind === 'send'
      ? shownOfEntry(entryOf(change, decision, { occurredAt: delivery.occurredAt, atMs }))
      : shownOfChange(change)
  }

  async function store(named: readonly Delivery[], crm: CrmConnection): Promise<void> {
    // The lock makes a disconnect wait. It then deletes these names, too.
    await database.execute(
      sql`with crm as materialized (
            select id from ${connections} where id = ${crm.id} for share
          )
          update deliveries set rule_id = coalesce(item."ruleId", rule_id), ${setShown}
          from ${shownItems(named)}
          where id = item.delivery and exists (select from crm) and id = any(array(
            select id from deliveries
            where id = any(${idsOf(named)}) and ${stateWithoutIndex} = 'dead' order by id for update
          ))`,
    )
  }

  return {
    /** Names deliveries that ended because the chat is broken, if the CRM still works. */
    nameLater(delivery: Delivery, ids: readonly number[]): void {
      const { crm, crmId } = delivery
      if (crm === null || crm.brokenReason !== null || ids.length === 0) return
      if (waiting.length >= mostWaiting) return
      waiting.push({ delivery, crm: { ...crm, provider: crmId }, ids })
      running ??= run()
    },

    /** Resolves when nothing is being read or stored. */
    async ended(): Promise<void> {
      await running
    },
  }
}
