import { index, jsonb, pgTable, text, timestamp, unique, uuid } from 'drizzle-orm/pg-core'

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })

/**
 * A person, as far as we know one: whoever opened the dashboard first has only an id. The HubSpot
 * identity lets the same person be found again from another browser.
 */
export const users = pgTable(
  'users',
  {
    id: uuid('id').primaryKey().defaultRandom(),
    hubspotHubId: text('hubspot_hub_id'),
    hubspotUserId: text('hubspot_user_id'),
    createdAt: time('created_at').notNull().defaultNow(),
  },
  (table) => [unique('users_hubspot_identity').on(table.hubspotHubId, table.hubspotUserId)],
)

/** A browser. It points at a user, so that two browsers can be the same person's. */
export const sessions = pgTable(
  'sessions',
  {
    // SHA-256 of the cookie's value: who reads the database cannot use the sessions in it.
    tokenHash: text('token_hash').primaryKey(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
  },
  (table) => [index('sessions_user').on(table.userId)],
)

/** An authorization that was begun and not yet returned from (RFC 9700 §4.7.1). */
export const authorizations = pgTable('authorizations', {
  // SHA-256 of the state, which is single use: the row is gone once it has been taken.
  stateHash: text('state_hash').primaryKey(),
  sessionHash: text('session_hash')
    .notNull()
    .references(() => sessions.tokenHash, { onDelete: 'cascade' }),
  provider: text('provider', { enum: ['hubspot', 'slack'] }).notNull(),
  // PKCE (RFC 7636); worthless without the code and the client secret.
  codeVerifier: text('code_verifier').notNull(),
  expiresAt: time('expires_at').notNull(),
})

/** What a user has connected: one account of each provider. */
export const connections = pgTable(
  'connections',
  {
    id: uuid('id').primaryKey().defaultRandom(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    provider: text('provider', { enum: ['hubspot', 'slack'] }).notNull(),
    // The tokens, encrypted and bound to (user, provider): see connections.ts.
    secrets: text('secrets').notNull(),
    // When the access token ends; null when it does not.
    accessExpiresAt: time('access_expires_at'),
    // HubSpot's hub_id, which webhooks call portalId; Slack's team id.
    accountId: text('account_id').notNull(),
    // HubSpot's hub_domain; Slack's team name.
    accountName: text('account_name'),
    // Who authorized, by the provider's own id.
    accountUserId: text('account_user_id'),
    // Connections with the same one share a token at the provider, so revoking it ends them all.
    grantId: text('grant_id').notNull(),
    // Where Slack lets us post; null for HubSpot.
    channelId: text('channel_id'),
    channelName: text('channel_name'),
    connectedAt: time('connected_at').notNull(),
  },
  (table) => [
    unique('connections_user_provider').on(table.userId, table.provider),
    index('connections_account').on(table.provider, table.accountId),
    index('connections_grant').on(table.provider, table.grantId),
  ],
)

/** The rules that a user saved, in the order in which they came. */
export const rules = pgTable('rules', {
  userId: uuid('user_id')
    .primaryKey()
    .references(() => users.id, { onDelete: 'cascade' }),
  ruleIds: jsonb('rule_ids').$type<string[]>().notNull(),
  savedAt: time('saved_at').notNull(),
})
