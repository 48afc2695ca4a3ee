import { sql } from 'drizzle-orm'
import {
  bigint,
  index,
  integer,
  jsonb,
  pgTable,
  text,
  timestamp,
  unique,
  uuid,
} from 'drizzle-orm/pg-core'

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

/** A value that the processes on a shared database seal with their key; one row (see connections.ts). */
export const keyCheck = pgTable('key_check', {
  id: integer('id').primaryKey(),
  sealed: text('sealed').notNull(),
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
    // The provider's word for why it no longer honours this connection, and since when.
    brokenReason: text('broken_reason'),
    brokenSince: time('broken_since'),
    // Until then one process refreshes the access token, and the others leave it alone.
    refreshingUntil: time('refreshing_until'),
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

/** A deal that came into a stage; one row however often HubSpot tells it. */
export const dealEvents = pgTable(
  'deal_events',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    // See keyOf in providers/hubspot/events.ts.
    key: text('key').notNull().unique('deal_events_key'),
    portalId: text('portal_id').notNull(),
    dealId: text('deal_id').notNull(),
    stageId: text('stage_id').notNull(),
    occurredAt: time('occurred_at').notNull(),
    receivedAt: time('received_at').notNull().defaultNow(),
  },
  (table) => [index('deal_events_received').on(table.receivedAt)],
)

/** What becomes of one event for one user. The order and the state of all sending is here. */
export const deliveries = pgTable(
  'deliveries',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    eventId: bigint('event_id', { mode: 'number' })
      .notNull()
      .references(() => dealEvents.id, { onDelete: 'cascade' }),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    // The id of a row of `channels`.
    channel: text('channel').notNull(),
    // Ignored: no rule of the user was met, or there is nothing left to tell.
    state: text('state', { enum: ['pending', 'sent', 'dead', 'ignored'] })
      .notNull()
      .default('pending'),
    // The event's, beside the channel, so that one index gives the next in order.
    occurredAt: time('occurred_at').notNull(),
    attempts: integer('attempts').notNull().default(0),
    // Why the last try failed, or why there will be none.
    reason: text('reason'),
    notBefore: time('not_before'),
    // Set before Slack is called: until then no other process may send this one.
    sendingUntil: time('sending_until'),
    finishedAt: time('finished_at'),
  },
  (table) => [
    unique('deliveries_event_user').on(table.eventId, table.userId),
    index('deliveries_pending')
      .on(table.channel, table.occurredAt, table.id)
      .where(sql`state = 'pending'`),
    index('deliveries_pending_user').on(table.userId).where(sql`state = 'pending'`),
    index('deliveries_dead').on(table.id).where(sql`state = 'dead'`),
  ],
)

/** A Slack channel that messages go to, as `team/channel`. Whoever changes its order locks its row. */
export const channels = pgTable('channels', {
  id: text('id').primaryKey(),
  // Slack takes one message a second for a channel, and may ask for a longer wait.
  nextAt: time('next_at').notNull().defaultNow(),
})
