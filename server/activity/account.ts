// What the operator does with one account of a CRM: with its users, and with everything that belongs to them.

import { type SQL, sql } from 'drizzle-orm'
import { type Database, rowsOf } from '../database/open.ts'
import { standInMark } from '../people/stand-ins.ts'
import { type CrmId, crmIds } from '../providers/registry.ts'
import { makeDueFrom } from '../relay/schedule/channels.ts'
import { countDeliveries } from './operator.ts'

/** An account is named by its id at the CRM. Two CRMs may give one id, so the CRM may stand before it, as in `crm:5`. */
function partsOf(name: string): { id: string; crms: CrmId[] } {
  const crm = crmIds.find((each) => name.startsWith(`${each}:`))
  if (crm === undefined) return { id: name, crms: [...crmIds] }
  return { id: name.slice(crm.length + 1), crms: [crm] }
}

const isOfOne = (crm: SQL, { crms }: { crms: CrmId[] }) =>
  sql`${crm} = any(${sql.param(crms)}::text[])`

export function isOf(name: string): SQL {
  const parts = partsOf(name)
  return sql`account_id = ${parts.id} and ${isOfOne(sql`crm`, parts)}`
}

/** Selects the ids of an account's users: who is known by it, and who has connected it. */
export function usersOf(name: string): SQL {
  const parts = partsOf(name)
  const { id } = parts
  return sql`(
    select id from users
    where ${isOfOne(sql`crm`, parts)} and crm_account_id = any(${sql.param([id, standInMark + id])}::text[])
    union
    select user_id from connections where ${isOfOne(sql`provider`, parts)} and account_id = ${id})`
}

/** Returns the full names of the known accounts that a name means. */
async function accountsNamed(database: Database, name: string): Promise<string[]> {
  const { id, crms } = partsOf(name)
  const known: string[] = []
  for (const full of crms.map((crm) => `${crm}:${id}`)) {
    const [row] = await rowsOf(
      database,
      sql`select where exists ${usersOf(full)}
            or exists (select from crm_accounts where ${isOf(full)})
            or exists (select from deal_events where ${isOf(full)})`,
    )
    if (row !== undefined) known.push(full)
  }
  return known
}

const mostShown = 100

/** Reads an account's connections, what waits and what failed. Counts all messages of its users. */
export async function readAccount(database: Database, id: string): Promise<object> {
  const isOfUsers = sql`user_id in ${usersOf(id)}`
  const [row] = await rowsOf<object>(
    database,
    sql`with people as materialized ${usersOf(id)},
             own as materialized (
               select user_id as "user", provider, account_id as account,
                      case when broken_since is null then 'working' else 'broken' end as state,
                      coalesce(broken_since, connected_since) as since, broken_reason as reason
               from connections where user_id in (select id from people)
             ),
             waiting as materialized (
               select coalesce(reason, '') as reason, count(*)::int as count, min(event_id) as first
               from deliveries where user_id in (select id from people) and state = 'pending'
               group by 1
             )
        select (select min(paused_at) from crm_accounts where ${isOf(id)}) as "pausedSince",
               (select count(*)::int from people) as users,
               (select count(*)::int from own) as connections,
               (select count(*)::int from own where state = 'broken') as broken,
               (select coalesce(json_agg(shown), '[]') from (
                 select * from own order by state, since limit ${mostShown}
               ) as shown) as "firstConnections",
               (select coalesce(json_object_agg(reason, count), '{}') from waiting) as waiting,
               (select extract(epoch from now() - received_at)::float8 from deal_events
                where deal_events.id = (select min(first) from waiting)) as "oldestPendingS"`,
  )
  if (row === undefined) throw new Error('The database says nothing of the account.')
  return {
    accounts: await accountsNamed(database, id),
    ...row,
    ...(await countDeliveries(database, isOfUsers)),
  }
}

export async function pauseAccount(database: Database, id: string): Promise<void> {
  const parts = partsOf(id)
  // The search may not have added an account yet that somebody has just connected. Nothing before that is missing.
  await database.execute(
    sql`insert into crm_accounts (crm, account_id, searched_until, search_at, paused_at)
        select provider, account_id, min(connected_since), now(), now() from connections
        where ${isOfOne(sql`provider`, parts)} and account_id = ${parts.id} group by provider, account_id
        on conflict (crm, account_id)
        do update set paused_at = coalesce(crm_accounts.paused_at, excluded.paused_at)`,
  )
}

/** Lets the messages of an account go on. Of each user, only the first one in a channel is `paused` (send/work.ts). */
export async function resumeAccount(database: Database, id: string): Promise<void> {
  await database.execute(sql`update crm_accounts set paused_at = null where ${isOf(id)}`)
  await database.execute(
    sql`with resumed as (
          update deliveries set not_before = null, reason = null
          where id = any(array(
            select id from deliveries
            where user_id in ${usersOf(id)} and state = 'pending' and reason = 'paused'
            order by id for update
          ))
          returning channel
        )
        ${makeDueFrom(sql`select channel from resumed`)}`,
  )
}
