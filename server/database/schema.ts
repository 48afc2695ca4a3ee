import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  date,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
  unique,
  uuid,
} from 'drizzle-orm/pg-core'
import { crmIds, dealProperties, providerIds } from '../providers/registry.ts'

const time = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })

/** A person. By the identity at a CRM, the server finds the same user from every browser. */
export const users = pgTable(
  'users',
  {
    id: uuid('id').primaryKey().defaultRandom(),
    crm: text('crm', { enum: crmIds }),
    crmAccountId: text('crm_account_id'),
    crmUserId: text('crm_user_id'),
    createdAt: time('created_at').notNull().defaultNow(),
    // When the person last had a session or a connection, give or take a month (clean/people.ts).
    seenAt: time('seen_at').notNull().defaultNow(),
    // The user has disconnected since the deliveries up to this id were stored. Those that still wait end.
    endedThrough: bigint('ended_through', { mode: 'number' }),
  },
  (table) => [unique('users_crm_identity').on(table.crm, table.crmAccountId, table.crmUserId)],
)

/** A browser that is signed in. Two browsers can belong to the same user. */
export const sessions = pgTable(
  'sessions',
  {
    // SHA-256 of the cookie's value, so that nobody can use a session from a copy of the database.
    tokenHash: text('token_hash').primaryKey(),
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    createdAt: time('created_at').notNull(),
    expiresAt: time('expires_at').notNull(),
  },
  (table) => [index('sessions_user').on(table.userId)],
)

/** What may be used once: the state of an authorization, and the token of a browser before it is signed in. */
export const usedTokens = pgTable(
  'used_tokens',
  {
    // SHA-256.
    hash: text('hash').primaryKey(),
    // The sealed result of the authorization with this state, for a call that is repeated.
    result: text('result'),
    expiresAt: time('expires_at').notNull(),
  },
  (table) => [index('used_tokens_expires').on(table.expiresAt)],
)

/** One value, sealed with a key that all processes on this database share (people/keys.ts). */
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
    // The stand-in granted this connection. A start with the real provider deletes it.
    standIn: boolean('stand_in').notNull().default(false),
    // The tokens, encrypted and bound to (user, provider).
    secrets: text('secrets').notNull(),
    accessExpiresAt: time('access_expires_at'),
    // What the provider calls account, company or workspace. Channels of one account share a limit.
    accountId: text('account_id').notNull(),
    accountName: text('account_name'),
    // Connections with the same grant share a token at the provider. A revocation ends them all.
    grantId: text('grant_id').notNull(),
    // The channel for messages; null for a CRM.
    channelId: text('channel_id'),
    channelName: text('channel_name'),
    // When the provider last told the channel's name, if that was after the connection.
    channelNamedAt: time('channel_named_at'),
    connectedAt: time('connected_at').notNull(),
    // Since when the user gets this provider's changes or messages. Connecting again keeps it.
    connectedSince: time('connected_since').notNull().defaultNow(),
    // The provider's error code if it no longer accepts this connection, and since when.
    brokenReason: text('broken_reason'),
    brokenSince: time('broken_since'),
    // The provider has refused a connection that is not broken: a refusal after this time breaks it. Or the provider
    // accepts a broken one again: the next message shows whether it works.
    askAgainAt: time('ask_again_at'),
    // Until this time, one process refreshes the access token. Other processes wait.
    refreshingUntil: time('refreshing_until'),
    // When the provider is asked next whether the connection works. Each connection has its own time of day.
    checkAt: time('check_at').notNull().default(sql`now() + random() * interval '1 day'`),
    // Somebody asks for this check, or it is under way. It does not wait behind the daily ones (checks.ts).
    checkAsked: boolean('check_asked').notNull().default(false),
    // The CRM's id of the webhook that tells this user's events, where each user has one.
    webhookId: text('webhook_id'),
    // Since when the CRM may not have told this user's events. A search finds them later. If this time lies ahead, one
    // look for the webhook has failed, and another one is made before.
    lateSince: time('late_since'),
    // Where each user's token sees other deals: all changes up to this time have been found with this one.
    searchedUntil: time('searched_until'),
  },
  (table) => [
    unique('connections_user_provider').on(table.userId, table.provider),
    index('connections_account').on(table.provider, table.accountId),
    index('connections_grant').on(table.provider, table.grantId),
    index('connections_check').on(table.checkAsked, table.checkAt),
  ],
)

/** The rules that a user saved, in the order of the request. */
export const rules = pgTable('rules', {
  userId: uuid('user_id')
    .primaryKey()
    .references(() => users.id, { onDelete: 'cascade' }),
  ruleIds: jsonb('rule_ids').$type<string[]>().notNull(),
  savedAt: time('saved_at').notNull(),
})

/** An event of this property is no change of a deal: the user asked for a test message. */
export const testProperty = 'test'
/** A new value of a deal's property. There is one row, even if the CRM reports it several times. */
export const dealEvents = pgTable(
  'deal_events',
  {
    id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
    // See DealEvent in providers/deal.ts.
    key: text('key').notNull().unique('deal_events_key'),
    crm: text('crm', { enum: crmIds }).notNull(),
    accountId: text('account_id').notNull(),
    dealId: text('deal_id').notNull(),
    property: text('property', { enum: [...dealProperties, testProperty] }).notNull(),
    value: text('value').notNull(),
    // The old value as JSON: 'null' if the deal was created with the new one. Null: the deal's history must tell it.
    former: text('former'),
    occurredAt: time('occurred_at').notNull(),
    receivedAt: time('received_at').notNull().defaultNow(),
    // Search: no webhook has brought the event, and a search for missed changes found it.
    foundBy: text('found_by', { enum: ['webhook', 'search'] })
      .notNull()
      .default('webhook'),
  },
  (table) => [
    index('deal_events_received').on(table.receivedAt),
    // To find the same change, which webhook and search report with slightly different times.
    index('deal_events_same').on(table.accountId, table.dealId, table.foundBy, table.occurredAt),
  ],
)

/** An account of a CRM that at least one user has connected, and the search for its missed changes. */
export const crmAccounts = pgTable(
  'crm_accounts',
  {
    crm: text('crm', { enum: crmIds }).notNull(),
    accountId: text('account_id').notNull(),
    // All changes up to this time have been found.
    searchedUntil: time('searched_until').notNull(),
    // When the last complete search ended, by our clock, or when the account was added.
    searchedAt: time('searched_at').notNull().defaultNow(),
    // When to search again. A process that searches sets it ahead, so that no other process does.
    searchAt: time('search_at').notNull(),
    // Since when the operator lets the account's messages wait.
    pausedAt: time('paused_at'),
  },
  (table) => [
    primaryKey({ columns: [table.crm, table.accountId] }),
    index('crm_accounts_search').on(table.searchAt),
  ],
)

/** One event for one user. This table contains the order and the state of all messages. */
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
    // Ignored: no message is needed, for example because no rule of the user applies.
    state: text('state', { enum: ['pending', 'sent', 'dead', 'ignored'] })
      .notNull()
      .default('pending'),
    // Copied from the event, so that an index has it.
    occurredAt: time('occurred_at').notNull(),
    attempts: integer('attempts').notNull().default(0),
    // Why the last try failed, or why it is not sent.
    reason: text('reason'),
    notBefore: time('not_before'),
    // Set right before the call to the chat. Until this time, no other call may send this delivery.
    sendingUntil: time('sending_until'),
    // The chat has refused a richer form of its message: the next try is about this change alone, or is plain text.
    form: text('form', { enum: ['single', 'plain'] }),
    // Its tries fail, but the providers work for other messages. These do not wait for it.
    alone: boolean('alone').notNull().default(false),
    finishedAt: time('finished_at'),
    // What the user's list shows of the change. A disconnect of the CRM deletes the name and the labels.
    ruleId: text('rule_id'),
    dealName: text('deal_name'),
    dealUrl: text('deal_url'),
    fromLabel: text('from_label'),
    toLabel: text('to_label'),
  },
  (table) => [
    unique('deliveries_event_user').on(table.eventId, table.userId),
    index('deliveries_pending')
      .on(table.channel, table.occurredAt, table.id)
      .where(sql`state = 'pending'`),
    // The first delivery of each user of a channel is one look, however many wait behind it.
    index('deliveries_next')
      .on(table.channel, table.userId, table.occurredAt, table.id)
      .where(sql`state = 'pending'`),
    // Those that fail alone. They have their turn after the others of the channel.
    index('deliveries_alone')
      .on(table.channel, table.occurredAt, table.id)
      .where(sql`state = 'pending' and alone`),
    // The oldest that wait, for the metrics.
    index('deliveries_oldest').on(table.id).where(sql`state = 'pending'`),
    // A disconnect waits for these. A delivery leaves the index when it is recorded.
    index('deliveries_claimed').on(table.userId).where(sql`sending_until is not null`),
    // A user's list (activity/list.ts).
    index('deliveries_activity').on(table.userId, table.state, table.occurredAt, table.id),
    // To count from the index alone. A claim changes no indexed column: it would write to every index.
    index('deliveries_counted')
      .on(table.userId, table.ruleId, table.state, table.occurredAt)
      .where(sql`state in ('sent', 'dead')`),
  ],
)

/** A chat channel that gets messages. The row says when the relay has work in it (relay/schedule/channels.ts). */
export const channels = pgTable(
  'channels',
  {
    // 'account/channel', or 'account/' for the pause of all its channels.
    id: text('id').primaryKey(),
    // As it was called when the last message was sent: '#sales'.
    name: text('name'),
    // No message before this time: a chat has a pace, and may ask for a longer pause.
    nextAt: time('next_at').notNull().defaultNow(),
    // Since when. If this lies ahead, the clock was ahead then, and nothing waits.
    waitsSince: time('waits_since').notNull().defaultNow(),
    // When the channel has work; null if no work is known.
    dueAt: time('due_at'),
    // The last try of a delivery has failed. Such channels get only a part of the relay's places.
    failing: boolean('failing').notNull().default(false),
    // The process that leases the channel, and the end of the lease. The process renews its lease.
    leasedBy: uuid('leased_by'),
    leasedUntil: time('leased_until'),
  },
  (table) => [
    index('channels_due_first')
      .on(table.failing, table.dueAt)
      .where(sql`due_at is not null and leased_until is null`),
    index('channels_leased').on(table.leasedUntil).where(sql`leased_until is not null`),
  ],
)

/** What a day's calls have cost of an account's budget, where a CRM has one. */
export const crmBudgets = pgTable(
  'crm_budgets',
  {
    crm: text('crm', { enum: crmIds }).notNull(),
    accountId: text('account_id').notNull(),
    // In UTC, by the database's clock.
    day: date('day').notNull(),
    // What all processes have counted.
    spent: integer('spent').notNull(),
    // The budget of a day, as the CRM last said or as for the smallest account. And what all programs of the account had
    // left of it when the CRM last said that, without what was spent since; null if it has not said it today.
    most: integer('most'),
    remaining: integer('remaining'),
  },
  (table) => [primaryKey({ columns: [table.crm, table.accountId] })],
)

/**
 * When all processes together have made their last calls to what has a limit (call-counter.ts). The table is unlogged: a
 * crash of the database empties it, and a count costs no write to its log.
 */
export const recentCalls = pgTable('recent_calls', {
  key: text('key').primaryKey(),
  // In the order of time.
  made: time('made').array().notNull(),
})
