// When a broken chat ends a backlog, nothing is known of its deals yet. This reads from the CRM, which may still work,
// what the user's list of messages shows of the newest ones. Those that need no message end as ignored, because nothing
// of them was missed. It works beside the channels and holds up none of them.

import { and, desc, eq, inArray, isNull, sql } from 'drizzle-orm'
import { isRefusedWithoutRoom } from '../../database/failure.ts'
import type { Database } from '../../database/open.ts'
import { connections, dealEvents, deliveries } from '../../database/schema.ts'
import { errorFields, type Log } from '../../log.ts'
import type { CrmConnection } from '../../people/access-token.ts'
import { ProviderError } from '../../providers/provider-error.ts'
import type { ChangeReader, ReadBy } from '../decide/change.ts'
import { type Delivery, deliveryAndEvent, isOfDeal, stateWithoutIndex } from '../pick/delivery.ts'
import { onePage } from '../pick/following.ts'
import { eachCandidate } from './candidates.ts'
import { idsOf, setShown, shownItems } from './group.ts'
import { mostNamed } from './record.ts'
import { verdictOf } from './verdict.ts'

/**
 * At most so many pairs of a user and a channel wait for names. The messages of other pairs show the ids of their
 * deals.
 */
const mostWaiting = 50

interface NamingDependencies {
  database: Database
  log: Log
  changes: ChangeReader
  isStopping: () => boolean
}

/** Deliveries of the same user and channel as `delivery`, of which the relay has read nothing. The newest come first. */
interface Unnamed {
  delivery: Delivery
  crm: CrmConnection
  ids: readonly number[]
}

/** A delivery with what was read of it. If there is a reason, it needs no message. */
interface Named {
  delivery: Delivery
  reason?: string
}

/** Creates the function that names ended deliveries. It works on one backlog at a time. */
export function createNaming({ database, log, changes, isStopping }: NamingDependencies) {
  /** By user and channel. A long backlog ends in many batches, the oldest first. */
  const waiting = new Map<string, Unnamed>()
  let isRunning = false
  let storing: Promise<void> | undefined

  async function run(): Promise<void> {
    isRunning = true
    for (const [key, next] of waiting) {
      if (isStopping()) break
      waiting.delete(key)
      try {
        await nameAll(next)
      } catch (error) {
        // A list with ids is better than more calls to a CRM that refuses them. A stop closes the database.
        const isExpected = error instanceof ProviderError || isRefusedWithoutRoom(error)
        if (!isExpected && !isStopping()) log('deals not named', errorFields(error))
      }
    }
    isRunning = false
  }

  async function nameAll({ delivery, crm, ids }: Unnamed): Promise<void> {
    const askedAt = performance.now()
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
    const named: Named[] = []
    const skip = (each: Named) => named.push(each)
    try {
      for await (const candidates of eachCandidate(onePage(unnamed), { changes, by, skip })) {
        if (isStopping()) break
        named.push(await verdictOf(candidates, { changes, by, isLastLook: true }))
      }
    } finally {
      // The server no longer waits for this, and closes the database.
      if (!isStopping()) {
        storing = storeAll(named, crm)
        await storing
      }
    }
  }

  async function storeAll(named: readonly Named[], crm: CrmConnection): Promise<void> {
    for (const [reason, some] of Map.groupBy(named, (each) => each.reason)) {
      const end = reason && sql`state = 'ignored', reason = ${reason},`
      const group = some.map(({ delivery }) => delivery)
      // The lock makes a disconnect wait. It then deletes these names, too.
      await database.execute(
        sql`with crm as materialized (
              select id from ${connections} where id = ${crm.id} for share
            )
            update deliveries set ${end ?? sql``} rule_id = coalesce(item."ruleId", rule_id), ${setShown}
            from ${shownItems(group)}
            where id = item.delivery and exists (select from crm) and id = any(array(
              select id from deliveries
              where id = any(${idsOf(group)}) and ${stateWithoutIndex} = 'dead' order by id for update
            ))`,
      )
    }
  }

  return {
    /** Names deliveries that ended because the chat is broken, if the CRM still works. */
    nameLater(delivery: Delivery, ids: readonly number[]): void {
      const { crm, crmId } = delivery
      if (crm === null || crm.brokenReason !== null || ids.length === 0) return
      const key = `${delivery.userId} ${delivery.channel}`
      const former = waiting.get(key)
      if (former === undefined && waiting.size >= mostWaiting) return
      // Of a long backlog, the newest messages are those that the user sees.
      const newest = [...ids, ...(former?.ids ?? [])].slice(0, mostNamed)
      waiting.set(key, { delivery, crm: { ...crm, provider: crmId }, ids: newest })
      if (!isRunning) void run()
    },

    /** Resolves when nothing is being stored. What is still read for a list must not hold up a stop. */
    async ended(): Promise<void> {
      await storing?.catch(() => undefined)
    },
  }
}
