import { desc, eq, type SQL, type SQLWrapper, sql } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import { type ChatId, type CrmId, chatIds, isChatId, isCrmId } from '../providers/registry.ts'
import type { Connection } from './connections.ts'

type CrmConnection = Connection & { provider: CrmId }
type ChatConnection = Connection & { provider: ChatId }

/**
 * Where a user's messages go: from the CRM to the chat that the user connected last, and there to the channel. A
 * broken connection counts. Whoever asks for the route of a message asks this file.
 */
export interface Route {
  crm: CrmConnection | undefined
  chat: ChatConnection | undefined
}

export async function routeOf(database: Database, userId: string | undefined): Promise<Route> {
  if (userId === undefined) return { crm: undefined, chat: undefined }
  const own = await database
    .select()
    .from(connections)
    .where(eq(connections.userId, userId))
    .orderBy(desc(connections.connectedAt))
  return {
    crm: own.find((each): each is CrmConnection => isCrmId(each.provider)),
    chat: own.find((each): each is ChatConnection => isChatId(each.provider)),
  }
}

/**
 * Returns the SQL that selects columns of the connection to the chat that gets a user's messages. It is a subquery, also
 * for `lateral`.
 */
export const chatOf = (userId: SQLWrapper, columns: SQL): SQL => sql`(
  select ${columns} from ${connections} as own
  where own.user_id = ${userId} and own.provider = any(${sql.param([...chatIds])}::text[])
  order by own.connected_at desc limit 1)`

export const crmOf = (userId: SQLWrapper, crm: SQLWrapper): SQL => sql`(
  select id from ${connections} as own
  where own.user_id = ${userId} and own.provider = ${crm})`

/** The id of a chat's channel in the table `channels`. */
export const channelOf = ({ accountId, channelId }: Pick<Connection, 'accountId' | 'channelId'>) =>
  `${accountId}/${channelId ?? ''}`
