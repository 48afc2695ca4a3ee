import { randomBytes, randomUUID } from 'node:crypto'
import { eq } from 'drizzle-orm'
import { createBackend } from '../../server/backend.ts'
import type { OpenDatabase } from '../../server/database/open.ts'
import { deliveries, rules, sessions, users } from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { sha256 } from '../../server/people/cookies.ts'
import type { ProviderId } from '../../server/providers/registry.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { storeAccounts } from './accounts.ts'
import { appUrl, clientSecret, signedWebhook } from './hubspot-webhook.ts'
import type { Outside } from './outside.ts'

export const metricsToken = 'a-token-of-at-least-16'

export interface Account {
  portal: number
  channel: string
  team?: string
  ruleIds?: string[]
  accessEndsInMs?: number
  /** Slack gave an address for posting to the channel. */
  webhook?: boolean
}

/** The backend with its relay in this process, between a database and the outside world. */
export async function startBackend(
  open: OpenDatabase,
  outside: Outside,
  {
    alone = true,
    // Shorter than in earnest, so that no test waits for what it is not about.
    times = { ...relayTimes, lookAgainMs: 300, firstRetryMs: 50, askAgainMs: 50, pollMs: 50 },
    working = true,
    key = randomBytes(32),
    now = () => new Date(),
    settings = {},
  } = {},
) {
  const { database } = open
  const lines: string[] = []
  const log = logTo((_level, event, fields) => {
    lines.push(JSON.stringify({ event, ...fields }))
  })
  const addresses = parseEnv({
    HUBSPOT_CLIENT_ID: 'hubspot-client',
    HUBSPOT_CLIENT_SECRET: clientSecret,
    HUBSPOT_API_URL: outside.hubspotUrl,
    SLACK_CLIENT_ID: 'slack-client',
    SLACK_CLIENT_SECRET: 'slack-client-secret',
    SLACK_API_URL: `${outside.slackUrl}/api`,
    APP_URL: appUrl,
    ...settings,
  }).addressesAt(1)
  const { app, relay, vault, providers, watch } = createBackend({
    database,
    encryptionKeys: [key],
    addresses,
    dashboard: undefined,
    metricsToken,
    alone,
    log,
    now,
    times,
  })
  if (working) await relay.start()

  async function newUser(): Promise<string> {
    const [user] = await database.insert(users).values({}).returning()
    if (user === undefined) throw new Error('No user was made.')
    return user.id
  }

  async function connectAgain(
    userId: string,
    { portal, team = 'T1', channel, accessEndsInMs = 1_800_000, webhook = false }: Account,
  ): Promise<void> {
    const webhookUrl = `${outside.slackUrl}/services/secret-${team}/${channel}`
    await storeAccounts(
      database,
      vault,
      userId,
      {
        portal,
        accessExpiresAt: new Date(Date.now() + accessEndsInMs),
        hubspot: {
          accessToken: `hubspot-access-secret-${portal}`,
          refreshToken: `hubspot-refresh-secret-${portal}-1-0`,
        },
        team,
        channel,
        chatSecrets: {
          accessToken: `xoxb-secret-${team}`,
          ...(webhook && { incomingWebhookUrl: webhookUrl }),
        },
      },
      new Date(),
    )
  }

  /** A call of the dashboard in a new browser of this user. */
  async function call(userId: string, path: string, init: RequestInit = {}): Promise<Response> {
    const token = randomUUID()
    const ends = { createdAt: new Date(), expiresAt: new Date(Date.now() + 1e12) }
    await database.insert(sessions).values({ tokenHash: sha256(token), userId, ...ends })
    const headers = {
      Cookie: `__Host-dealbell-0123abcd=${token}`,
      Origin: appUrl,
      'Sec-Fetch-Site': 'same-origin',
      ...init.headers,
    }
    return await app.request(path, { ...init, headers })
  }

  return {
    app,
    database,
    relay,
    vault,
    providers,
    watch,
    lines,
    log,
    /** HubSpot tells of items; resolves to the answer's status. */
    async tell(items: unknown): Promise<number> {
      return (await app.request('/webhooks/hubspot', signedWebhook(items))).status
    },
    /** A user who connected both and ticked rules. */
    async connect(account: Account): Promise<string> {
      const userId = await newUser()
      await connectAgain(userId, account)
      const { ruleIds = ['deal-stage-changed'] } = account
      await database.insert(rules).values({ userId, ruleIds, savedAt: new Date() })
      return userId
    },
    newUser,
    connectAgain,
    call,
    /** What a call of the user's dashboard answers. */
    async read(userId: string, path: string) {
      return await (await call(userId, `/api/${path}`)).json()
    },
    /** The user has ticked these rules instead. */
    async tick(userId: string, ...ruleIds: string[]): Promise<void> {
      await database.update(rules).set({ ruleIds }).where(eq(rules.userId, userId))
    },
    async disconnect(userId: string, provider: ProviderId): Promise<void> {
      const answer = await call(userId, `/api/${provider}/disconnect`, { method: 'DELETE' })
      if (answer.status !== 204) throw new Error(`${answer.status} ${await answer.text()}`)
    },
    /** State and reason of each of a user's deliveries, in order of occurrence. */
    async outcomes(userId: string): Promise<Array<[string, string | null]>> {
      const rows = await database
        .select()
        .from(deliveries)
        .where(eq(deliveries.userId, userId))
        .orderBy(deliveries.occurredAt, deliveries.id)
      return rows.map(({ state, reason }) => [state, reason])
    },
    /** What is stored of each change, for the user's list of messages, in order of occurrence. */
    async shown(userId: string) {
      const { ruleId, dealName, fromLabel, toLabel } = deliveries
      return await database
        .select({ ruleId, dealName, fromLabel, toLabel })
        .from(deliveries)
        .where(eq(deliveries.userId, userId))
        .orderBy(deliveries.occurredAt, deliveries.id)
    },
    /** Resolves when nothing is pending any more, so that no further message can come. */
    async settled(withinMs = 20_000): Promise<void> {
      const end = Date.now() + withinMs
      for (;;) {
        const pending = await database.$count(deliveries, eq(deliveries.state, 'pending'))
        if (pending === 0) return
        if (Date.now() > end)
          throw new Error(`${pending} deliveries are pending after ${withinMs} ms.`)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    },
    stop: () => relay.stop(),
  }
}

export type Backend = Awaited<ReturnType<typeof startBackend>>
