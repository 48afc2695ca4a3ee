import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  index,
  integer,
  jsonb,
  pgTable,
  text,
  timestamp,
  unique,
  uuid,
} from 'drizzle-orm/pg-core'
import { crmIds, dealProperties, providerIds } from '../providers/registry.ts'

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })

/**
 * A person. A new browser's user has only an id. Once the person has connected a CRM, the identity
 * there finds the same user from every browser.
 */
export const users = pgTable(
  'users',
  {
    id: uuid('id').primaryKey().defaultRandom(),
    crm: text('crm', { enum: crmIds }),
    crmAccountId: text('crm_account_id'),
    crmUserId: text('crm_user_id'),
    createdAt: time('created_at').notNull().defaultNow(),
  },
  (table) => [
    unique('users_crm_identity').on(table.crm, table.crmAccountId, table.crmUserId),
    index('users_unnamed').on(table.createdAt).where(sql`crm_user_id is null`),
  ],
)

/** A browser that is signed in. Two browsers can belong to the same user. */
export const sessions = pgTable(
  'sessions',
  {
    // SHA-256 of the cookie's value, so that the database does not hold usable sessions.
    tokenHash: text('token_hash').primaryKey(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
  },
  (table) => [
    index('sessions_user').on(table.userId),
    index('sessions_expires').on(table.expiresAt),
  ],
)

/** An authorization that has begun and not yet come back (RFC 9700 §4.7.1). */
export const authorizations = pgTable(
  'authorizations',
  {
    // SHA-256 of the state. It is single use: taking it deletes the row.
    stateHash: text('state_hash').primaryKey(),
    sessionHash: text('session_hash')
      .notNull()
      .references(() => sessions.tokenHash, { onDelete: 'cascade' }),
    provider: text('provider', { enum: providerIds }).notNull(),
    // PKCE (RFC 7636). It is worthless without the code and the client secret.
    codeVerifier: text('code_verifier').notNull(),
    expiresAt: time('expires_at').notNull(),
  },
  (table) => [
    index('authorizations_session').on(table.sessionHash),
    index('authorizations_expires').on(table.expiresAt),
  ],
)

/** One value, sealed with the key that all processes on this database must share (people/keys.ts). */
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
    provider: text('provider', { enum: providerIds }).notNull(),
    // The stand-in granted this connection. It does not count once the real provider is configured.
    standIn: boolean('stand_in').notNull().default(false),
    // The tokens, encrypted and bound to (user, provider): see people/connections.ts.
    secrets: text('secrets').notNull(),
    // When the access token ends; null when it does not.
    accessExpiresAt: time('access_expires_at'),
    // HubSpot's hub_id, which its webhooks call portalId; Slack's team id.
    accountId: text('account_id').notNull(),
    // HubSpot's hub_domain; Slack's team name.
    accountName: text('account_name'),
    // The provider's id of the person who authorized.
    accountUserId: text('account_user_id'),
    // Connections with the same grant share a token at the provider. Revoking it ends them all.
    grantId: text('grant_id').notNull(),
    // The channel that messages go to; null for a CRM.
    channelId: text('channel_id'),
    channelName: text('channel_name'),
    connectedAt: time('connected_at').notNull(),
    // Why the provider no longer accepts this connection (its own error code), and since when.
    brokenReason: text('broken_reason'),
    brokenSince: time('broken_since'),
    // One process refreshes the access token until then. The others wait.
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

/** A property of a deal that got a new value. One row, however often the CRM reports it. */
export const dealEvents = pgTable(
  'deal_events',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    // See `key` of DealEvent in providers/provider.ts.
    key: text('key').notNull().unique('deal_events_key'),
    crm: text('crm', { enum: crmIds }).notNull(),
    accountId: text('account_id').notNull(),
    dealId: text('deal_id').notNull(),
    property: text('property', { enum: dealProperties }).notNull(),
    value: text('value').notNull(),
    occurredAt: time('occurred_at').notNull(),
    receivedAt: time('received_at').notNull().defaultNow(),
  },
  (table) => [index('deal_events_received').on(table.receivedAt)],
)

/** What becomes of one event for one user. This table holds the order and the state of all messages. */
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
    // Ignored: no rule of the user applies, or there is nothing left to report.
    state: text('state', { enum: ['pending', 'sent', 'dead', 'ignored'] })
      .notNull()
      .default('pending'),
    // Copied from the event, so that one index gives the next delivery of a channel in order.
    occurredAt: time('occurred_at').notNull(),
    attempts: integer('attempts').notNull().default(0),
    // Why the last try failed, or why there will be none.
    reason: text('reason'),
    // The next try is not before this time.
    notBefore: time('not_before'),
    // Set right before the chat is called. Until then no other process may send this delivery.
    sendingUntil: time('sending_until'),
    finishedAt: time('finished_at'),
  },
  (table) => [
    unique('deliveries_event_user').on(table.eventId, table.userId),
    index('deliveries_pending')
      .on(table.channel, table.occurredAt, table.id)
      .where(sql`state = 'pending'`),
    index('deliveries_user').on(table.userId),
    index('deliveries_dead').on(table.id).where(sql`state = 'dead'`),
  ],
)

/**
 * A chat channel that messages go to, as `team/channel`, and when the relay has work in it
 * (relay/channels.ts).
 */
export const channels = pgTable(
  'channels',
  {
    id: text('id').primaryKey(),
    // The next message is not before this time: Slack takes one a second, and may ask for a pause.
    nextAt: time('next_at').notNull().defaultNow(),
    // When there is work in the channel; null when there is none that is known.
    dueAt: time('due_at'),
    // The process that works on the channel, and until when. It renews the lease while it works.
    leasedBy: uuid('leased_by'),
    leasedUntil: time('leased_until'),
  },
  (table) => [
    index('channels_due').on(table.dueAt).where(sql`due_at is not null`),
    index('channels_leased').on(table.leasedUntil).where(sql`leased_until is not null`),
  ],
)
