import type { Database } from '../../server/database/open.ts'
import { storeConnection } from '../../server/people/connections.ts'
import type { Vault } from '../../server/people/vault.ts'
import type { Secrets } from '../../server/providers/provider.ts'
import type { ChatId, CrmId } from '../../server/providers/registry.ts'

interface Accounts {
  portal: number
  /** The user's number in the CRM, if that makes the grant. */
  crmUser?: string
  /** HubSpot by default. */
  crm?: CrmId
  /** When the CRM's access token ends. */
  accessExpiresAt: Date
  hubspot: Secrets
  /** Slack by default. */
  chat?: ChatId
  team: string
  channel: string
  chatSecrets: Secrets
}

/** Stores a user's connections to a CRM and a chat, as if the user had just authorized both. */
export async function storeAccounts(
  database: Pick<Database, 'insert'>,
  vault: Vault,
  userId: string,
  {
    portal,
    crmUser = userId,
    crm = 'hubspot',
    accessExpiresAt,
    hubspot,
    chat = 'slack',
    team,
    channel,
    chatSecrets,
  }: Accounts,
  at: Date,
): Promise<void> {
  const unnamed = { accountUserId: null, channelId: null, channelName: null, standIn: false }
  await storeConnection(
    database,
    vault,
    { userId, provider: crm },
    {
      ...unnamed,
      secrets: hubspot,
      accessExpiresAt,
      accountId: String(portal),
      accountName: 'acme.example',
      grantId: `${portal}:${crmUser}`,
    },
    at,
  )
  await storeConnection(
    database,
    vault,
    { userId, provider: chat },
    {
      ...unnamed,
      secrets: chatSecrets,
      accessExpiresAt: null,
      accountId: team,
      accountName: `Workspace ${team}`,
      grantId: chat === 'slack' ? team : `${team}/${channel}`,
      channelId: channel,
      channelName: `#${channel}`,
    },
    at,
  )
}
