import type { Database } from '../../server/database/open.ts'
import { sha256 } from '../../server/people/cookies.ts'
import { createVault } from '../../server/people/vault.ts'
import { storeAccounts } from '../relay/accounts.ts'
import { pipedrivePath } from '../relay/pipedrive-outside.ts'
import { base, webhookOf } from './chats.ts'
import type { SimulatedDatabase } from './database.ts'
import { minute } from './faults.ts'
import type { Plan, PlannedMove, PlannedUser } from './plan.ts'
import { key } from './processes.ts'
import type { Time } from './time.ts'

// The users as they are when the run begins, and what is known of each: where messages may go, which rules
// are ticked, and whether anything may prevent a message.

/** How long a user's messages may go to a channel. */
export interface Route {
  channel: string
  from: number
  /** When an answer said that it is stored. Undefined: none did. */
  storedAt?: number
  /** The answer that ended it. Undefined: it has not ended, or nobody knows. */
  until?: number
  /** After a disconnect, nothing at all may come. Another message may just be on its way to a former channel. */
  isStrict?: boolean
}

export interface User extends PlannedUser {
  id: string
  /** The account and the user's number there, as in tokens. */
  name: string
  cookie: string
  routes: Route[]
  /** The times in which the rules may be ticked. */
  ticked: Array<{ from: number; until?: number }>
  /** Every change since this time must be told. Undefined: something may prevent that. */
  safeSince: number | undefined
  /** What the user has, as far as a browser knows. */
  has: { chat: boolean; crm: boolean; rules: boolean }
  /** The user or a provider has changed something in this run. */
  hasActed: boolean
  /** When the user has left the chat or the CRM. */
  leaves: number[]
  /** Why a connection may be marked as broken. */
  reasons: Set<string>
}

/** Stores the users as they are when the run begins. */
export async function createUsers(
  database: SimulatedDatabase,
  time: Time,
  plan: Plan,
): Promise<User[]> {
  const direct = database.direct()
  const { crm } = plan
  const at = new Date(time.now - 10 * minute)
  const users: User[] = []
  for (const [index, planned] of plan.users.entries()) {
    const number = index + 1
    const name = `${planned.account}-${number}`
    const cookie = `cookie-${number}`
    const [row] = database.ask<{ id: string }>(
      `with made as (
         insert into users (crm, crm_account_id, crm_user_id) values ($5, $1, $2) returning id
       ), rule as (
         insert into rules (user_id, rule_ids, saved_at) select id, $3::jsonb, now() from made
       ), session as (
         insert into sessions (token_hash, user_id, created_at, expires_at)
         select $4, id, now(), now() + interval '1 day' from made
       ) select id from made`,
      [String(planned.account), String(number), planned.ruleIds, sha256(cookie), crm],
    )
    if (row === undefined) throw new Error('No user was made.')
    const { id } = row
    await connect(direct, { ...planned, id, name, chat: plan.chat, crm }, time.now, at)
    users.push({
      ...planned,
      id,
      name,
      cookie,
      routes: [{ channel: planned.channel, from: time.now, storedAt: time.now }],
      ticked: [{ from: time.now }],
      safeSince: time.now,
      has: { chat: true, crm: true, rules: true },
      hasActed: false,
      leaves: [],
      reasons: new Set(),
    })
  }
  database.ask(`update connections set check_at = now() + interval '1 day', check_asked = false`)
  // Of the many users of an account, none gets a message. That would need too many statements.
  database.ask(
    `update connections set broken_reason = 'token_revoked', broken_since = now()
     where account_id || '/' || channel_id = any($1)`,
    [`{${[...new Set(users.map(({ channel }) => channel).filter(isOfT9))].join()}}`],
  )
  for (const user of users.filter(({ account }) => account > 2)) unsafe(user, 'token_revoked')
  return users
}

async function connect(
  database: Database,
  user: Pick<User, 'id' | 'name' | 'account' | 'channel' | 'tokenLastsMs'> &
    Pick<Plan, 'chat' | 'crm'>,
  now: number,
  at: Date,
): Promise<void> {
  const { id, name, account: portal, tokenLastsMs, chat, crm } = user
  const webhook = webhookOf(user.channel)
  const [team = '', channel = ''] = user.channel.split('/')
  await storeAccounts(
    database,
    createVault([key]),
    id,
    {
      portal,
      crm,
      ...(crm === 'pipedrive' && { crmUser: name.split('-')[1] }),
      accessExpiresAt: new Date(now + tokenLastsMs),
      hubspot: {
        accessToken: `${crm}-access-secret-${name}-0`,
        refreshToken: `${crm}-refresh-secret-${name}-0`,
        ...(crm === 'pipedrive' && { apiUrl: `${base}${pipedrivePath}` }),
      },
      team,
      channel,
      chat,
      chatSecrets: webhook
        ? { accessToken: '', incomingWebhookUrl: webhook.url.href }
        : { accessToken: `xoxb-secret-${team}-0` },
    },
    at,
  )
}

/** The user's number in the account. */
export const numberOf = ({ name }: Pick<User, 'name'>) => name.split('-')[1] ?? ''

/** Whether the user may see the deal. */
export const sees = (user: Pick<User, 'name'>, { hiddenFrom }: Pick<PlannedMove, 'hiddenFrom'>) =>
  !hiddenFrom.has(numberOf(user))

/** Something may prevent this user's messages from now on. */
export function unsafe(user: User, reason?: string): void {
  user.safeSince = undefined
  user.hasActed = true
  if (reason !== undefined) user.reasons.add(reason)
}

/** Whether the channel is of the workspace that a plan calls T9, which is broken from the start. */
const isOfT9 = (channel: string) => (webhookOf(channel)?.planned ?? channel).startsWith('T9/')
