import { and, eq, like } from 'drizzle-orm'
import type { Database } from '../database/open.ts'
import { connections, users } from '../database/schema.ts'
import type { Log } from '../log.ts'
import {
  crmIds,
  isAddressId,
  mainSettingOf,
  type ProviderId,
  providerIds,
  registry,
  settingOf,
} from '../providers/registry.ts'

/**
 * Marks the account of an identity that a stand-in gave. It signs everyone in as the same person, so no
 * account of the real CRM may ever equal it.
 */
export const standInMark = 'stand-in:'

/**
 * Keeps what stand-ins granted apart from what real providers granted: a token must not go to somebody who never issued
 * it. With a real provider, it deletes the connections and the users of its stand-in.
 * @throws Error that says what to set, if there are connections to a real provider that is not configured.
 */
export async function forgetStandIns(
  database: Database,
  providers: Readonly<Record<ProviderId, { standIn: boolean; inUse: boolean }>>,
  log: Log,
): Promise<void> {
  const granted = (id: ProviderId, byStandIn: boolean) =>
    and(eq(connections.provider, id), eq(connections.standIn, byStandIn))
  // A stand-in may be used beside a real chat whose address is pasted.
  const isUsed = (id: ProviderId) =>
    providers[id].inUse && (isAddressId(id) || !providers[id].standIn)
  const isReal = (id: ProviderId) => providers[id].inUse && !providers[id].standIn
  for (const id of providerIds.filter((id) => !isUsed(id))) {
    const count = await database.$count(connections, granted(id, false))
    if (count === 0) continue
    throw new Error(
      `The database has connections to ${registry[id].name} (${count}), which is not configured. Set ` +
        `${isAddressId(id) ? mainSettingOf(id) : `${mainSettingOf(id)} and ${settingOf(id, 'CLIENT_SECRET')}`}. To give these connections up, run in ` +
        `the database: delete from connections where provider = '${id}'`,
    )
  }
  // Nearly always there is nothing, and then a start writes nothing.
  for (const id of providerIds.filter(isReal)) {
    const count = await database.$count(connections, granted(id, true))
    if (count === 0) continue
    await database.delete(connections).where(granted(id, true))
    log('stand-in forgotten', { provider: id, connections: count })
  }
  for (const id of crmIds.filter(isReal)) {
    const isOfStandIn = and(eq(users.crm, id), like(users.crmAccountId, `${standInMark}%`))
    if ((await database.$count(users, isOfStandIn)) === 0) continue
    await database.delete(users).where(isOfStandIn)
  }
}
