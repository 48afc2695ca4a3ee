import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type Database, openPglite, openPostgres } from '../../server/database/open.ts'
import { connections, rules, sessions, users } from '../../server/database/schema.ts'
import { sealSecrets } from '../../server/people/connections.ts'
import { randomToken, sha256 } from '../../server/people/session.ts'
import { createVault } from '../../server/people/vault.ts'
import { type ServerOptions, serverKey } from '../relay/process.ts'

export type Target = ServerOptions['database']

export const openTarget = (target: Target) =>
  'url' in target
    ? openPostgres(target.url, () => undefined)
    : openPglite(join(target.folder, 'pglite'))

/**
 * Stores users with both services connected and a rule, each with an account of its own, from 1 on.
 * @param slack what differs in their connections to Slack.
 * @returns their ids.
 */
export async function seedUsers(
  database: Database,
  count: number,
  slack: Partial<typeof connections.$inferInsert> = {},
): Promise<string[]> {
  const vault = createVault([serverKey])
  const now = new Date()
  const all = Array.from({ length: count }, (_, at) => ({ userId: randomUUID(), n: at + 1 }))
  for (let first = 0; first < count; first += 1_000) {
    const some = all.slice(first, first + 1_000)
    // The clean-up deletes users without an identity, and would do so during the measurements.
    const identity = { crm: 'hubspot' as const, crmUserId: '1' }
    await database
      .insert(users)
      .values(some.map(({ userId, n }) => ({ id: userId, ...identity, crmAccountId: `${n}` })))
    const ruleIds = ['deal-stage-changed']
    await database
      .insert(rules)
      .values(some.map(({ userId }) => ({ userId, ruleIds, savedAt: now })))
    const rows = some.flatMap(({ userId, n }) => {
      const hubspot = { userId, provider: 'hubspot' } as const
      const chat = { userId, provider: 'slack' } as const
      return [
        {
          ...hubspot,
          secrets: sealSecrets(vault, hubspot, { accessToken: `t${n}`, refreshToken: `r${n}` }),
          accessExpiresAt: new Date(Date.now() + 3_600_000),
          accountId: `${n}`,
          grantId: `${n}`,
          connectedAt: now,
        },
        {
          ...chat,
          secrets: sealSecrets(vault, chat, { accessToken: `s${n}` }),
          // Slack limits the messages of a workspace, too.
          accountId: `T${n}`,
          grantId: `s${n}`,
          channelId: `C${n}`,
          connectedAt: now,
          ...slack,
        },
      ]
    })
    await database.insert(connections).values(rows)
  }
  return all.map(({ userId }) => userId)
}

/** Signs each user in once, an hour ago. @returns the cookies, in the order of the users. */
export async function seedSessions(
  database: Database,
  userIds: readonly string[],
): Promise<string[]> {
  const createdAt = new Date(Date.now() - 3_600_000)
  const expiresAt = new Date(Date.now() + 170 * 86_400_000)
  const all = userIds.map((userId) => ({ userId, token: randomToken() }))
  for (let first = 0; first < all.length; first += 1_000) {
    const rows = all
      .slice(first, first + 1_000)
      .map(({ userId, token }) => ({ tokenHash: sha256(token), userId, createdAt, expiresAt }))
    await database.insert(sessions).values(rows)
  }
  return all.map(({ token }) => `__Host-dealbell=${token}`)
}
