import type { Database } from '../../server/database/open.ts'
import { storeConnection } from '../../server/people/connections.ts'
import { sha256 } from '../../server/people/session.ts'
import { createVault } from '../../server/people/vault.ts'
import { appUrl } from '../relay/hubspot-webhook.ts'
import type { SimulatedDatabase } from './database.ts'
import { type Act, minute, type Plan, type PlannedUser, second } from './plan.ts'
import { key, type Processes } from './processes.ts'
import type { Time } from './time.ts'
import type { Note, World } from './world.ts'

// The users: they connect, choose channels, tick rules and leave, each with a browser. This file knows what
// each of them may and must be told.

/** How long a user's messages may go to a channel. */
interface Route {
  channel: string
  from: number
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
  const at = new Date(time.now - 10 * minute)
  const users: User[] = []
  for (const [index, planned] of plan.users.entries()) {
    const number = index + 1
    const name = `${planned.account}-${number}`
    const cookie = `cookie-${number}`
    const [row] = database.ask<{ id: string }>(
      `with made as (
         insert into users (crm, crm_account_id, crm_user_id) values ('hubspot', $1, $2) returning id
       ), rule as (
         insert into rules (user_id, rule_ids, saved_at) select id, $3::jsonb, now() from made
       ), session as (
         insert into sessions (token_hash, user_id, created_at, expires_at)
         select $4, id, now(), now() + interval '1 day' from made
       ) select id from made`,
      [String(planned.account), String(number), planned.ruleIds, sha256(cookie)],
    )
    if (row === undefined) throw new Error('No user was made.')
    const { id } = row
    await connect(direct, { ...planned, id, name }, time.now, at)
    users.push({
      ...planned,
      id,
      name,
      cookie,
      routes: [{ channel: planned.channel, from: time.now }],
      ticked: [{ from: time.now }],
      safeSince: time.now,
      has: { chat: true, crm: true, rules: true },
      hasActed: false,
      reasons: new Set(),
    })
  }
  // Of the many users of an account, none gets a message. That would need too many statements.
  database.ask(
    `update connections set broken_reason = 'token_revoked', broken_since = now() where account_id = 'T9'`,
  )
  for (const user of users.filter(({ account }) => account > 2)) unsafe(user, 'token_revoked')
  return users
}

async function connect(
  database: Database,
  user: Pick<User, 'id' | 'name' | 'account' | 'channel' | 'tokenLastsMs'>,
  now: number,
  at: Date,
): Promise<void> {
  const vault = createVault([key])
  const unnamed = { accountUserId: null, channelId: null, channelName: null, standIn: false }
  const { id: userId, name } = user
  await storeConnection(
    database,
    vault,
    { userId, provider: 'hubspot' },
    {
      ...unnamed,
      secrets: {
        accessToken: `hubspot-access-secret-${name}-0`,
        refreshToken: `hubspot-refresh-secret-${name}-0`,
      },
      accessExpiresAt: new Date(now + user.tokenLastsMs),
      accountId: String(user.account),
      accountName: 'acme.example',
      grantId: `${user.account}:${userId}`,
    },
    at,
  )
  const [team = '', channel = ''] = user.channel.split('/')
  await storeConnection(
    database,
    vault,
    { userId, provider: 'slack' },
    {
      ...unnamed,
      secrets: { accessToken: `xoxb-secret-${team}-0` },
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

/** Something may prevent this user's messages from now on. */
function unsafe(user: User, reason?: string): void {
  user.safeSince = undefined
  user.hasActed = true
  if (reason !== undefined) user.reasons.add(reason)
}

export function createPeople({
  time,
  plan,
  world,
  processes,
  users,
  note,
  broke,
}: {
  time: Time
  plan: Plan
  world: World
  processes: Processes
  users: readonly User[]
  note: Note
  broke: (rule: string) => void
}) {
  /** What each user does last. A user does one thing after the other. */
  const doing = new Map<User, Promise<void>>()
  let busy = 0
  /** Somebody has a connection for longer than a check of it takes (end-grant.ts). */
  const isSettled = (user: User, of: string) =>
    user.routes.some(
      ({ channel, from, until }) =>
        (channel.startsWith(`${of}/`) || String(user.account) === of) &&
        until === undefined &&
        time.now - from > 20 * second,
    )
  let isByProvider = false
  world.onEnded.push((of) => {
    for (const user of users) {
      const isTeam = user.routes.some(({ channel }) => channel.startsWith(`${of}/`))
      if (!isTeam && String(user.account) !== of) continue
      if (!isByProvider && user.safeSince !== undefined && isSettled(user, of)) {
        broke(`the tokens of ${of} are ended while user ${user.name} uses them`)
      }
      unsafe(user, isTeam ? 'token_revoked' : 'BAD_REFRESH_TOKEN')
    }
  })

  /** A call of the user's browser. Without an answer, it tries again. */
  async function call(
    user: User,
    index: number,
    path: string,
    { tries = 8, ...init }: RequestInit & { tries?: number } = {},
  ): Promise<Response | undefined> {
    for (let n = 0; n < tries; n++) {
      const answer = await processes.request((index + n) % plan.processes, path, {
        ...init,
        headers: {
          Cookie: `__Host-dealbell=${user.cookie}`,
          Origin: appUrl,
          'Sec-Fetch-Site': 'same-origin',
          ...init.headers,
        },
      })
      const cookie = /__Host-dealbell=([^;]+)/.exec(answer?.headers.get('Set-Cookie') ?? '')?.[1]
      if (cookie !== undefined) user.cookie = cookie
      if (answer !== undefined && answer.status < 500) return answer
      await time.wait(2 * second, undefined)
    }
    return
  }

  /** Connects a provider. @returns whether the browser knows that it has succeeded. */
  async function authorize(user: User, index: number, provider: string, code: string) {
    const begun = await call(user, index, `/api/${provider}/auth`, { tries: 3 })
    const state = new URL(begun?.headers.get('Location') ?? 'https://none').searchParams.get(
      'state',
    )
    if (state === null) return false
    const path = `/api/${provider}/callback?code=${code}&state=${state}`
    return (await call(user, index, path, { tries: 1 }))?.status === 204
  }

  function restored(user: User): void {
    const { chat, crm, rules } = user.has
    if (chat && crm && rules && user.reasons.size === 0) user.safeSince = time.now
  }

  async function choose(user: User, process: number, channel: string): Promise<void> {
    const former = user.routes.filter(({ until }) => until === undefined)
    user.routes.push({ channel, from: time.now })
    if (world.archived.has(channel)) unsafe(user, 'is_archived')
    if (!(await authorize(user, process, 'slack', channel.replace('/', ':')))) return
    for (const route of former) route.until ??= time.now
    note('user', `${user.name} has chosen ${channel}`)
    if (user.has.chat) return
    user.has.chat = true
    restored(user)
  }

  async function leave(user: User, process: number, provider: 'slack' | 'hubspot'): Promise<void> {
    unsafe(user)
    user.has[provider === 'slack' ? 'chat' : 'crm'] = false
    const init = { method: 'DELETE', tries: 20 }
    if ((await call(user, process, `/api/${provider}/disconnect`, init))?.status !== 204) return
    note('user', `${user.name} has left ${provider}`)
    for (const route of user.routes) {
      route.until = Math.min(route.until ?? time.now, time.now)
      route.isStrict = true
    }
  }

  async function tick(user: User, process: number, isTicked: boolean): Promise<void> {
    if (isTicked) user.ticked.push({ from: time.now })
    else unsafe(user)
    user.has.rules = isTicked
    const init = {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ rules: isTicked ? user.ruleIds : [] }),
    }
    if ((await call(user, process, '/api/rules', init))?.status !== 204) return
    note('user', `${user.name} has ${isTicked ? '' : 'un'}ticked the rules`)
    if (isTicked) restored(user)
    else for (const period of user.ticked) period.until ??= time.now
  }

  async function act(each: Act, user: User): Promise<void> {
    const { process } = each
    const current = user.routes.at(-1)?.channel ?? user.channel
    user.hasActed = true
    switch (each.what) {
      case 'choose channel':
        return await choose(user, process, each.channel)
      case 'connect chat':
        return await choose(user, process, current)
      case 'leave chat':
        return await leave(user, process, 'slack')
      case 'leave crm':
        return await leave(user, process, 'hubspot')
      case 'connect crm': {
        const was = user.has.crm
        if (!was) user.routes.push({ channel: current, from: time.now })
        const code = user.name.replace('-', ':')
        if (!(await authorize(user, process, 'hubspot', code)) || was) return
        user.has.crm = true
        return restored(user)
      }
      case 'untick':
        return await tick(user, process, false)
      case 'tick':
        return await tick(user, process, true)
      case 'withdraw scope':
        unsafe(user, 'MISSING_SCOPES')
        world.withdrawn.add(user.name)
        return
      case 'archive':
        world.archived.add(current)
        for (const other of users) {
          if (other.routes.some(({ channel }) => channel === current)) unsafe(other, 'is_archived')
        }
        return
      default:
        isByProvider = true
        world.endTokens(
          each.what === 'revoke' ? (current.split('/')[0] ?? '') : String(user.account),
        )
        isByProvider = false
    }
  }

  for (const each of plan.acts) {
    const user = users[each.user]
    if (user === undefined) continue
    time.after(each.at, undefined, () => {
      busy++
      const before = doing.get(user)
      const task = async () => {
        await before
        note('user', `${user.name}: ${each.what}`)
        await act(each, user)
        busy--
      }
      doing.set(user, task())
    })
  }

  return { isBusy: () => busy > 0 }
}
