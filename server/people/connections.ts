import { and, eq, sql } from 'drizzle-orm'
import * as v from 'valibot'
import type { ConnectionStatus } from '../../contract/endpoints.ts'
import { isShortDay } from '../database/budgets.ts'
import type { Database } from '../database/open.ts'
import { connections } from '../database/schema.ts'
import { oneLine } from '../providers/foreign-text.ts'
import { keptForEvents } from '../providers/limiter.ts'
import type { Grant, Names, Providers, Secrets } from '../providers/provider.ts'
import { isCrmId, type ProviderId, registry } from '../providers/registry.ts'
import type { Vault } from './vault.ts'

export type Connection = typeof connections.$inferSelect

interface Owner {
  userId: string
  provider: ProviderId
}

const storedSecrets = v.object({
  accessToken: v.string(),
  refreshToken: v.exactOptional(v.string()),
  incomingWebhookUrl: v.exactOptional(v.string()),
  mayReadOwners: v.exactOptional(v.boolean()),
  apiUrl: v.exactOptional(v.string()),
})

/**
 * Names the row that a secret is bound to. If a connection moves to another user, seal it again.
 */
function rowName({ userId, provider }: Owner): string {
  return `connections.secrets:${userId}:${provider}`
}

export function sealSecrets(vault: Vault, owner: Owner, secrets: Secrets): string {
  return vault.seal(JSON.stringify(secrets), rowName(owner))
}

/**
 * Decrypts the secrets of a row.
 * @throws VaultError if they were altered or are from another row.
 */
export function openSecrets(vault: Vault, row: Owner & { secrets: string }): Secrets {
  return v.parse(storedSecrets, JSON.parse(vault.open(row.secrets, rowName(row))))
}

/**
 * Stores what a provider, or its stand-in, granted. Replaces the user's earlier connection and keeps its id. Keeps
 * `connected_since` if the user chooses another channel or connects a broken connection again. Sets it anew if the
 * user connects another CRM account. Returns the connection.
 */
export async function storeConnection(
  database: Pick<Database, 'insert'>,
  vault: Vault,
  owner: Owner,
  grant: Grant & { standIn: boolean },
  now: Date,
): Promise<Connection> {
  // Who authorized is in the table `users` (identity.ts).
  const { secrets, accountUserId: _, ...known } = grant
  const { accountName = null, channelName = null } = namesOf(known)
  const values = {
    ...known,
    accountName,
    channelName,
    secrets: sealSecrets(vault, owner, secrets),
    connectedAt: now,
    brokenReason: null,
    brokenSince: null,
    askAgainAt: null,
    channelNamedAt: null,
    refreshingUntil: null,
    lateSince: null,
    // Users may share a token, and somebody's disconnect may have just revoked it.
    ...{ checkAt: now, checkAsked: true },
  }
  const isSameAccount = sql`${connections.accountId} = excluded.account_id`
  const isSameGrant = sql`${connections.grantId} = excluded.grant_id`
  const [stored] = await database
    .insert(connections)
    .values({ ...owner, ...values, connectedSince: now })
    .onConflictDoUpdate({
      target: [connections.userId, connections.provider],
      set: {
        ...values,
        connectedSince: sql`case
          when ${isSameAccount} or ${!isCrmId(owner.provider)}
          then ${connections.connectedSince}
          else excluded.connected_since end`,
        searchedUntil: sql`case when ${isSameAccount} then ${connections.searchedUntil} end`,
        webhookId: sql`case when ${isSameGrant} then ${connections.webhookId} end`,
      },
    })
    .returning()
  if (stored === undefined) throw new Error('The insert of a connection returned no row.')
  return stored
}

export const longestName = 80

/** The names that others have given, each as one line; undefined if there is none, or a reader would see nothing. */
export function namesOf({
  accountName,
  channelName,
}: Record<keyof Names, string | null | undefined> | Names) {
  const shown = (name: string | null | undefined) => oneLine(name ?? '', longestName) || undefined
  return { accountName: shown(accountName), channelName: shown(channelName) }
}

/** The share of a CRM's day that is left when a search fails: it needs several calls. */
const mostKept = keptForEvents + 0.01

/** The daily check may tell the channel's name. If it has not for so long, the name may have changed. */
const channelNameFreshMs = 2 * 24 * 60 * 60_000

export async function connectionStatus(
  { database, providers }: { database: Database; providers: Providers },
  { userId, provider }: Owner,
): Promise<ConnectionStatus> {
  const [row] = await database
    .select({
      account: connections.accountName,
      channel: connections.channelName,
      channelNamedAt: connections.channelNamedAt,
      connectedAt: connections.connectedAt,
      brokenReason: connections.brokenReason,
      brokenSince: connections.brokenSince,
      lateSince: connections.lateSince,
      isShortDay: isShortDay(mostKept),
    })
    .from(connections)
    .where(and(eq(connections.userId, userId), eq(connections.provider, provider)))
  if (row === undefined) return { connected: false }
  const { account, channel, connectedAt, channelNamedAt, brokenReason, brokenSince, lateSince } =
    row
  const namedAt = channelNamedAt ?? connectedAt
  const mayBeOld = namedAt.getTime() < Date.now() - channelNameFreshMs
  const names = {
    ...(account && { account }),
    ...(channel && { channel, ...(mayBeOld && { channelAsOf: namedAt.toISOString() }) }),
  }
  if (brokenReason === null || brokenSince === null) {
    // The search finds them every hour, while the day has calls to spare (relay/search/).
    const how = row.isShortDay
      ? 'only after midnight (UTC), because few of its calls are left for today'
      : 'up to an hour late'
    const late = `Changes in ${registry[provider].name} may arrive ${how}.`
    const isLate = lateSince !== null && lateSince.getTime() <= Date.now()
    return { connected: true, ...names, ...(isLate && { late }) }
  }
  const reason = refusalInWords(providers, provider, brokenReason)
  return { connected: false, ...names, reason, since: brokenSince.toISOString() }
}

/** Why a provider no longer accepts a connection, or did not take a message. The log has the code. */
export function refusalInWords(providers: Providers, provider: ProviderId, code: string): string {
  const { brokenReasons } = providers[provider]
  const words = Object.hasOwn(brokenReasons, code) ? brokenReasons[code] : undefined
  return `${registry[provider].name} says that ${words ?? 'it no longer accepts this connection'}.`
}
