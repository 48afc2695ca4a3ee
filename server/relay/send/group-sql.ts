import { sql } from 'drizzle-orm'
import { batchRows } from '../../database/batches.ts'
import { errorCode } from '../../log.ts'
import { type Delivery, type Group, isClaimed } from '../pick/delivery.ts'

// SQL about the deliveries of one message: what claim.ts and record.ts share.

/** The condition that nobody is sending a delivery. */
export const isUnclaimed = sql`(${isClaimed} is not true)`

export const idsOf = (group: readonly Delivery[]) =>
  sql`${sql.param(group.map(({ id }) => id))}::bigint[]`

export const eventIdsOf = (group: readonly Delivery[]) =>
  sql`${sql.param(group.map(({ eventId }) => eventId))}::bigint[]`

export const isPendingIn = (group: readonly Delivery[]) =>
  sql`id = any(${idsOf(group)}) and state = 'pending'`

/** What the list of messages shows of these deliveries, as a table `item`. */
export const shownItems = (group: readonly Delivery[]) =>
  sql`json_to_recordset(${JSON.stringify(
    group.map(({ id, shown }) => ({ delivery: id, ...shown })),
  )}::json) as item(delivery bigint, "ruleId" text, "dealName" text, "dealUrl" text, "from" text, "to" text)`

/**
 * Stores what the list of messages shows. A later try may know less than an earlier one, so a missing
 * value does not replace a stored one.
 */
export const setShown = sql`
  deal_name = coalesce(item."dealName", deal_name), deal_url = coalesce(item."dealUrl", deal_url),
  from_label = coalesce(item."from", from_label), to_label = coalesce(item."to", to_label)`

/**
 * The first pending deliveries of a user in a channel that nobody is sending, a batch of them. Locks their rows in
 * the order of all statements.
 */
export const firstUnclaimed = ({ userId, channel }: Delivery, condition = sql`true`) => {
  const isWaiting = sql`state = 'pending' and ${isUnclaimed} and channel = ${channel}
    and user_id = ${userId} and ${condition}`
  return sql`(
    select id from deliveries
    where ${isWaiting} and id = any(array(
      select id from deliveries where ${isWaiting} order by occurred_at, id limit ${batchRows}
    ))
    order by id for update
  )`
}

/**
 * Runs a statement that stores what the list of messages shows. If the database cannot store a value of it (the class 22 of
 * SQLSTATE), runs it once more without names: the message counts, and so does the next one.
 */
export async function withStorable<Result>(
  group: Group,
  statement: (group: Group) => Promise<Result>,
): Promise<Result> {
  try {
    return await statement(group)
  } catch (error) {
    if (!errorCode(error)?.startsWith('22')) throw error
    const [first, ...others] = group.map(({ shown, ...delivery }) => ({
      ...delivery,
      ...(shown?.ruleId && { shown: { ruleId: shown.ruleId } }),
    }))
    return await statement(first === undefined ? group : [first, ...others])
  }
}
