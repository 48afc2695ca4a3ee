import { endpoints } from '../../contract/endpoints.ts'
import type { ProviderId } from '../../server/providers/registry.ts'
import { appUrl } from '../relay/hubspot-webhook.ts'
import { knownChat, webhookOf } from './chats.ts'
import type { SimulatedDatabase } from './database.ts'
import { second } from './faults.ts'
import type { Act, Plan } from './plan.ts'
import type { Processes } from './processes.ts'
import type { Time } from './time.ts'
import { type Route, type User, unsafe } from './users.ts'
import type { Note, World } from './world.ts'

// What the users do during the run, each with a browser: they connect, choose channels, tick rules and leave.
// For each user, it also notes since when a message is allowed, since when it is required, and since when forbidden.

export function createPeople({
  time,
  plan,
  world,
  database,
  processes,
  users,
  note,
  broke,
}: {
  time: Time
  plan: Plan
  world: World
  database: SimulatedDatabase
  processes: Processes
  /** Whoever appears during the run is added. */
  users: User[]
  note: Note
  broke: (rule: string) => void
}) {
  /** What each user does last. A user does one thing after the other. */
  const doing = new Map<User, Promise<void>>()
  let busy = 0
  /** Somebody has had a connection for a time, so it is none that comes while a disconnect ends the grant (decision 105). */
  const isSettled = (user: User, of: string) =>
    user.routes.some(
      ({ channel, storedAt = time.now, until }, index) =>
        // Whoever is about to choose a channel of another workspace leaves this one.
        ((channel.startsWith(`${of}/`) && index === user.routes.length - 1) ||
          crmGrantOf(user) === of) &&
        until === undefined &&
        time.now - storedAt > 20 * second,
    )
  const { closed } = knownChat(plan.chat)
  /** What ends together at the CRM: all of an account, or what one user has installed. */
  const crmGrantOf = ({ account, name }: User) =>
    plan.crm === 'pipedrive' ? name : String(account)
  const crmGone = plan.crm === 'pipedrive' ? 'invalid_grant' : 'BAD_REFRESH_TOKEN'
  const noScope = plan.crm === 'pipedrive' ? 'scope_and_url_mismatch' : 'MISSING_SCOPES'
  let isByProvider = false
  /** When the tokens of an account or workspace ended last. */
  const endedAt = new Map<string, number>()
  world.onEnded.push((of) => {
    endedAt.set(of, time.now)
    for (const user of users) {
      const isTeam = user.routes.some(({ channel }) => channel.startsWith(`${of}/`))
      if (!isTeam && crmGrantOf(user) !== of) continue
      if (!isByProvider && user.safeSince !== undefined && isSettled(user, of)) {
        broke(`the tokens of ${of} are ended while user ${user.name} uses them`)
      }
      unsafe(user, isTeam ? 'token_revoked' : crmGone)
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
          Cookie: `__Host-dealbell-0123abcd=${user.cookie}`,
          Origin: appUrl,
          'Sec-Fetch-Site': 'same-origin',
          ...init.headers,
        },
      })
      const cookie = /__Host-dealbell-[\w-]+=([^;]+)/.exec(
        answer?.headers.get('Set-Cookie') ?? '',
      )?.[1]
      if (cookie !== undefined) user.cookie = cookie
      if (answer !== undefined && answer.status < 500) return answer
      await time.wait(2 * second, undefined)
    }
    return
  }

  /** Connects a provider. @returns whether the browser knows that it has succeeded. */
  async function authorize(
    user: User,
    index: number,
    provider: ProviderId,
    given: string,
    address?: string,
  ) {
    const begun = await call(user, index, `/api/${provider}/auth`, { tries: 3 })
    const state = new URL(begun?.headers.get('Location') ?? 'https://none').searchParams.get(
      'state',
    )
    if (state === null) return false
    const code = address === undefined ? given : await paste(user, index, provider, state, address)
    if (code === null) return false
    const path = `/api/${provider}/callback?code=${encodeURIComponent(code)}&state=${state}`
    return (await call(user, index, path, { tries: 1 }))?.status === 204
  }

  /** Pastes the address of a webhook into the page of a chat by address. @returns the code for the callback. */
  async function paste(
    user: User,
    index: number,
    provider: ProviderId,
    state: string,
    address: string,
  ) {
    const answer = await call(user, index, `/api/${provider}/address`, {
      method: 'POST',
      body: new URLSearchParams({ state, address, channel: 'sales' }),
      tries: 1,
    })
    return new URL(answer?.headers.get('Location') ?? 'https://none').searchParams.get('code')
  }

  function restored(user: User): void {
    const { chat, crm, rules } = user.has
    if (chat && crm && rules && user.reasons.size === 0) user.safeSince = time.now
  }

  async function choose(user: User, process: number, channel: string): Promise<void> {
    const former = user.routes.filter(({ until }) => until === undefined)
    const route: Route = { channel, from: time.now }
    user.routes.push(route)
    if (world.archived.has(channel)) unsafe(user, closed)
    const address = webhookOf(channel)?.url.href
    if (!(await authorize(user, process, plan.chat, channel.replace('/', ':'), address))) return
    route.storedAt = time.now
    for (const each of former) each.until ??= time.now
    note('user', `${user.name} has chosen ${channel}`)
    if (user.has.chat) return
    user.has.chat = true
    restored(user)
  }

  async function leave(user: User, process: number, provider: ProviderId): Promise<void> {
    unsafe(user)
    user.has[provider === plan.chat ? 'chat' : 'crm'] = false
    user.leaves.push(time.now)
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
    if ((await call(user, process, endpoints.saveRules.path, init))?.status !== 204) return
    note('user', `${user.name} has ${isTicked ? '' : 'un'}ticked the rules`)
    if (isTicked) restored(user)
    else for (const period of user.ticked) period.until ??= time.now
  }

  /** The user connects another account. From then on, the browser is another person's, who does the same as the user. */
  async function becomeAnother(user: User, process: number, channel: string): Promise<void> {
    const account = user.account === 1 ? 2 : 1
    const number = 50 + users.indexOf(user)
    const begunAt = time.now
    if (!(await authorize(user, process, plan.crm, `${account}:${number}`))) return
    const [row] = database.ask<{ id: string }>(
      'select id from users where crm_account_id = $1 and crm_user_id = $2',
      [String(account), String(number)],
    )
    if (row === undefined) return broke(`user ${user.name} has connected another account in vain`)
    const other: User = {
      ...user,
      ...row,
      account,
      name: `${account}-${number}`,
      routes: [],
      ticked: [],
      safeSince: undefined,
      has: { chat: false, crm: true, rules: false },
      leaves: [],
      reasons: new Set(),
    }
    users.push(other)
    note('user', `${user.name} has become ${other.name}`)
    // Somebody else's disconnect ended the token while it was on its way (decision 105).
    if ((endedAt.get(crmGrantOf(other)) ?? 0) >= begunAt) unsafe(other, crmGone)
    await choose(other, process, channel)
    await tick(other, process, true)
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
        return await leave(user, process, plan.chat)
      case 'leave crm':
        return await leave(user, process, plan.crm)
      case 'connect crm': {
        const was = user.has.crm
        const route: Route = { channel: current, from: time.now }
        if (!was) user.routes.push(route)
        const code = user.name.replace('-', ':')
        if (!(await authorize(user, process, plan.crm, code)) || was) return
        route.storedAt = time.now
        user.has.crm = true
        return restored(user)
      }
      case 'other account':
        return await becomeAnother(user, process, current)
      case 'untick':
        return await tick(user, process, false)
      case 'tick':
        return await tick(user, process, true)
      case 'withdraw scope':
        unsafe(user, noScope)
        world.withdrawn.add(user.name)
        return
      case 'archive':
        world.archived.add(current)
        for (const other of users) {
          if (other.routes.some(({ channel }) => channel === current)) unsafe(other, closed)
        }
        return
      default:
        // A chat by address has no tokens: the address is all that can be ended.
        if (each.what === 'revoke' && webhookOf(current) !== undefined) {
          return await act({ ...each, what: 'archive' }, user)
        }
        isByProvider = true
        world.endTokens(each.what === 'revoke' ? (current.split('/')[0] ?? '') : crmGrantOf(user))
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
