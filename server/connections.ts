import { and, eq } from 'drizzle-orm'
import * as v from 'valibot'
import type { Database } from './database/open.ts'
import { connections } from './database/schema.ts'
import type { Grant, ProviderId, Secrets } from './providers/provider.ts'
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
    secrets: vault.seal(JSON.stringify(secrets), rowName(owner.userId, owner.provider)),
    connectedAt: now,
  }
  await database
    .insert(connections)
    .values({ ...owner, ...values })
    .onConflictDoUpdate({ target: [connections.userId, connections.provider], set: values })
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

export async function isConnected(
  database: Database,
  userId: string,
  provider: ProviderId,
): Promise<boolean> {
  const rows = await database
    .select({ id: connections.id })
    .from(connections)
    .where(and(eq(connections.userId, userId), eq(connections.provider, provider)))
  return rows.length > 0
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
