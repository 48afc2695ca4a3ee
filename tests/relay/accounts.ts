import type { Database } from '../../server/database/open.ts'
import { storeConnection } from '../../server/people/connections.ts'
import type { Vault } from '../../server/people/vault.ts'
import type { Secrets } from '../../server/providers/provider.ts'

interface Accounts {
  portal: number
  /** When HubSpot's access token ends. */
  accessExpiresAt: Date
  hubspot: Secrets
  team: string
  channel: string
  slack: Secrets
}

/** Stores a user's connections to HubSpot and Slack, as if the user had just authorized both. */
export async function storeAccounts(
  database: Pick<Database, 'insert'>,
  vault: Vault,
  userId: string,
  { portal, accessExpiresAt, hubspot, team, channel, slack }: Accounts,
  at: Date,
): Promise<void> {
  const unnamed = { accountUserId: null, channelId: null, channelName: null, standIn: false }
  await storeConnection(
    database,
    vault,
    { userId, provider: 'hubspot' },
    {
      ...unnamed,
      secrets: hubspot,
      accessExpiresAt,
      accountId: String(portal),
      accountName: 'acme.example',
      grantId: `${portal}:${userId}`,
    },
    at,
  )
  await storeConnection(
    database,
    vault,
    { userId, provider: 'slack' },
    {
      ...unnamed,
      secrets: slack,
      accessExpiresAt: null,
      accountId: team,
      accountName: `Workspace ${team}`,
      grantId: team,
      channelId: channel,
      channelName: `#${channel}`,
    },
    at,
  )
}
