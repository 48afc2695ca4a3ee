import { and, eq } from 'drizzle-orm'
import * as v from 'valibot'
import type { ConnectionStatus } from '../../contract/endpoints.ts'
import type { Database } from '../database/open.ts'
import { connections, keyCheck } from '../database/schema.ts'
import type { Grant, ProviderId, Secrets } from '../providers/provider.ts'
import type { Vault } from './vault.ts'

const sealedSecrets = v.object({
  accessToken: v.string(),
  refreshToken: v.exactOptional(v.string()),
  incomingWebhookUrl: v.exactOptional(v.string()),
})

/** The row that a secret is bound to. Whoever moves a connection to another user must seal it anew. */
function rowName(userId: string, provider: ProviderId): string {
  return `connections.secrets:${userId}:${provider}`
}

/** Stores what a provider gave; replaces the user's former connection and keeps its id. */
export async function storeConnection(
  database: Database,
  vault: Vault,
  owner: { userId: string; provider: ProviderId },
  grant: Grant,
  now: Date,
): Promise<void> {
  const { secrets, ...known } = grant
  const values = {
    ...known,
    secrets: sealSecrets(vault, owner, secrets),
    connectedAt: now,
    brokenReason: null,
    brokenSince: null,
    refreshingUntil: null,
  }
  await database
    .insert(connections)
    .values({ ...owner, ...values })
    .onConflictDoUpdate({ target: [connections.userId, connections.provider], set: values })
}

/** What the row of `owner` stores of its secrets. */
export function sealSecrets(
  vault: Vault,
  owner: { userId: string; provider: ProviderId },
  secrets: Secrets,
): string {
  return vault.seal(JSON.stringify(secrets), rowName(owner.userId, owner.provider))
}

/** @throws VaultError when the stored value was altered or is another row's. */
export function openSecrets(
  vault: Vault,
  row: { userId: string; provider: ProviderId; secrets: string },
): Secrets {
  return v.parse(
    sealedSecrets,
    JSON.parse(vault.open(row.secrets, rowName(row.userId, row.provider))),
  )
}

/** What the dashboard is told of a connection; undefined stands for none. */
export async function connectionStatus(
  database: Database,
  userId: string,
  provider: ProviderId,
): Promise<ConnectionStatus> {
  const [row] = await database
    .select({
      account: connections.accountName,
      channel: connections.channelName,
      brokenReason: connections.brokenReason,
      brokenSince: connections.brokenSince,
    })
    .from(connections)
    .where(and(eq(connections.userId, userId), eq(connections.provider, provider)))
  if (row === undefined) return { connected: false }
  const { account, channel, brokenReason, brokenSince } = row
  const names = { ...(account && { account }), ...(channel && { channel }) }
  if (brokenReason === null || brokenSince === null) return { connected: true, ...names }
  return {
    connected: false,
    ...names,
    reason: reasonInWords(provider, brokenReason),
    since: brokenSince.toISOString(),
  }
}

const words: Readonly<Record<string, string>> = {
  invalid_auth: 'the access is no longer valid',
  not_authed: 'the access is no longer valid',
  invalid_token: 'the access is no longer valid',
  token_revoked: 'the access was revoked',
  token_expired: 'the access has expired',
  account_inactive: 'the account or the app was deactivated',
  missing_scope: 'a permission is missing',
  no_permission: 'a permission is missing',
  access_denied: 'a permission is missing',
  team_access_not_granted: 'the app may not enter the workspace',
  no_team: 'the workspace is gone or was deactivated',
  team_disabled: 'the workspace is gone or was deactivated',
  two_factor_setup_required: 'the account must set up two-factor authentication',
  enterprise_is_restricted: 'an administrator does not let the app post',
  ekm_access_denied: 'an administrator has suspended posting',
  restricted_action: 'an administrator does not let the app post in the channel',
  restricted_action_read_only_channel: 'the app may only read the channel',
  restricted_action_thread_only_channel: 'the channel takes only replies',
  action_prohibited: 'an administrator does not let the app post in the channel',
  posting_to_general_channel_denied: 'an administrator does not let the app post in the channel',
  no_service: 'the app was removed from the channel',
  no_service_id: 'the app was removed from the channel',
  no_active_hooks: 'the app was removed from the channel',
  channel_not_found: 'the channel is gone, or private and without the app',
  channel_is_archived: 'the channel is archived',
  is_archived: 'the channel is archived',
  not_in_channel: 'the app is not in the channel',
  BAD_REFRESH_TOKEN: 'the access was revoked',
  invalid_grant: 'the access was revoked',
}

/** The provider's own code in a person's words, with the code for whoever looks it up. */
function reasonInWords(provider: ProviderId, code: string): string {
  const name = { hubspot: 'HubSpot', slack: 'Slack' }[provider]
  return `${name} says that ${words[code] ?? 'it no longer accepts this connection'} (${code}).`
}

/** Seals anew what an older key sealed, so that the older key can be taken from the settings. */
export async function sealWithNewestKey(database: Database, vault: Vault): Promise<void> {
  const rows = await database.select().from(connections)
  for (const row of rows.filter(({ secrets }) => !vault.isNewest(secrets))) {
    await database
      .update(connections)
      .set({ secrets: sealSecrets(vault, row, openSecrets(vault, row)) })
      // Another process may have refreshed it meanwhile.
      .where(and(eq(connections.id, row.id), eq(connections.secrets, row.secrets)))
  }
}

/**
 * Refuses to go on with a key that cannot open what is stored: every call would fail, one by one.
 * @throws Error
 */
export async function checkKeys(database: Database, vault: Vault): Promise<void> {
  const rows = await database.select({ secrets: connections.secrets }).from(connections)
  const locked = rows.filter((row) => !vault.holdsKeyOf(row.secrets)).length
  if (locked > 0) {
    throw new Error(
      `ENCRYPTION_KEY does not open ${locked} of ${rows.length} stored connections. ` +
        'List the key that made them after the new one, with a comma between.',
    )
  }
}

/**
 * Refuses to go on with another key than the other processes on this database: what one seals, the
 * other could not open. The first process leaves a value for that, as nothing may be stored yet.
 * @throws Error
 */
export async function checkSharedKey(database: Database, vault: Vault): Promise<void> {
  const sealed = vault.seal('', 'key_check.sealed')
  await database.insert(keyCheck).values({ id: 1, sealed }).onConflictDoNothing()
  const rows = await database.select().from(keyCheck)
  for (const row of rows) {
    if (!vault.holdsKeyOf(row.sealed)) {
      throw new Error(
        'ENCRYPTION_KEY is not the one that this database was begun with. Every process needs the ' +
          'same; without ENCRYPTION_KEY each DATA_DIR has its own, in the file encryption.key.',
      )
    }
    // The older key can then be taken from the settings.
    if (!vault.isNewest(row.sealed)) await database.update(keyCheck).set({ sealed })
  }
}
