import { createHash, createHmac } from 'node:crypto'
import { appUrl } from '../relay/hubspot-webhook.ts'
import type { PipedriveWebhook } from '../relay/pipedrive-outside.ts'
import type { Move, Played } from './checks.ts'
import { minute, second } from './faults.ts'
import { type MoveName, nameOf, nameSql } from './moves.ts'
import type { WebhookFault } from './plan.ts'
import { pipedriveSecret } from './processes.ts'
import { numberOf, sees, type User } from './users.ts'
import type { Note } from './world.ts'

// What only Pipedrive does: each user has a webhook, which it forgets after failures, each user sees other deals, and each
// call costs tokens. How it must be is written here again, so that a change of server/providers/ is seen.

const triesAfterMs = [0, 3 * second, 30 * second, 150 * second]
const answeredWithinMs = 10 * second
const mostFailures = 10
const banMs = 30 * minute
const webhookUrl = `${appUrl}/webhooks/pipedrive`
/** After a check has begun, it ends within this time. */
const checkMs = 25 * second
/** So often is asked whether a user's webhook is there, until it is. */
const mostRounds = 8
/** A call that was begun before a change was stored may still be under way. */
const underWayMs = minute

const passwordOf = (company: string) =>
  createHmac('sha256', pipedriveSecret).update(`webhook:${company}`).digest('base64url')

function webhookFor(user: Pick<User, 'account' | 'name'>, id: number): PipedriveWebhook {
  const company = String(user.account)
  const fingerprint = createHash('sha256').update(passwordOf(company)).digest('hex').slice(0, 8)
  const name = `Dealbell ${fingerprint}`
  return {
    ...{ id, company, user_id: Number(numberOf(user)), is_active: 1, name },
    ...{ subscription_url: webhookUrl, event_action: '*', event_object: 'deal', version: '2.0' },
    ...{ http_auth_user: company, http_auth_password: passwordOf(company) },
  }
}

/** Gives each user a webhook, and plays what happens to them. */
export function playPipedrive(played: Played, note: Note) {
  const { time, plan, world, database, users } = played
  if (plan.crm !== 'pipedrive') return { isSettled: () => true }
  const { webhooks } = world.pipedrive
  const ownOf = (user: User) =>
    webhooks.filter(({ company, user_id }) => `${company}-${user_id}` === user.name)
  for (const [at, user] of users.entries()) webhooks.push(webhookFor(user, at + 1))
  let made = 1_000

  function happen(user: User, how: WebhookFault['how']): void {
    for (const webhook of ownOf(user)) {
      if (how === 'deleted') world.pipedrive.remove(webhook)
      else if (how === 'deactivated') webhook.is_active = 0
      else if (how === 'doubled') webhooks.push({ ...webhook, id: ++made })
      else Object.assign(webhook, { http_auth_password: 'former', name: 'Dealbell 0' })
    }
    note('CRM', `the webhook of user ${user.name} is ${how}`)
  }
  for (const { at, user: index, how } of plan.webhookFaults) {
    const user = users[index]
    if (user === undefined) continue
    time.after(at, undefined, () => happen(user, how))
    time.after(at + time.dice.between(100, 5_000), undefined, () => {
      database.ask(
        `update connections set checked_at = now() - interval '25 hours'
         where user_id = $1 and provider = 'pipedrive'`,
        [user.id],
      )
    })
  }

  let endsAt: number | undefined
  let rounds = 0
  return {
    /** Has all connections checked, and again those that may be late, as happens each hour. @returns whether they have been. */
    isSettled(): boolean {
      const { due, late } = database.ask<{ due: number; late: number }>(
        `select count(case when checked_at < now() - interval '24 hours' then 1 end)::int as due,
                count(case when late_since is not null and broken_since is null then 1 end)::int as late
         from connections where provider = 'pipedrive'`,
      )[0] ?? { due: 0, late: 0 }
      if (rounds > 0) {
        if (due === 0) endsAt ??= time.now + checkMs
        if (endsAt === undefined || time.now < endsAt) return false
        if (late === 0 || rounds === mostRounds) return true
      }
      rounds++
      endsAt = undefined
      database.ask(
        `update connections set checked_at = now() - interval '25 hours'
         where provider = 'pipedrive' and ($1 or late_since is not null)`,
        [rounds === 1],
      )
      return false
    },
  }
}

/** Pipedrive tells the owners of all webhooks that may see a deal of its move. */
export async function tellOwners(move: Move, played: Played, note: Note): Promise<void> {
  const { world, time } = played
  const { pipedrive } = world
  const concerned = pipedrive.webhooks.filter(
    ({ company, user_id, is_active, bannedUntil = 0 }) =>
      is_active && bannedUntil <= time.now && pipedrive.sees(move.deal, company, String(user_id)),
  )
  await Promise.all(concerned.map((webhook) => tellOwner(webhook, move, played, note)))
}

async function tellOwner(
  webhook: PipedriveWebhook,
  move: Move,
  { time, plan, world, processes }: Played,
  note: Note,
): Promise<void> {
  const { pipedrive } = world
  await time.wait(time.dice.between(0, 500), undefined)
  for (const [tries, waitMs] of triesAfterMs.entries()) {
    await time.wait(waitMs, undefined)
    if (!pipedrive.webhooks.includes(webhook) || !webhook.is_active) return
    const index = time.dice.whole(0, plan.processes - 1)
    const { pathname } = new URL(webhook.subscription_url)
    const request = pipedrive.eventFor(webhook, move)
    const answer = await processes.request(index, pathname, request, answeredWithinMs)
    const status = answer?.status ?? 0
    note(
      'CRM',
      `tells process ${index} for user ${webhook.user_id} of deal ${nameOf(move)}: ${status}`,
    )
    if (status >= 200 && status < 300) {
      move.acknowledgedAt ??= time.now
      return
    }
    if (tries > 0) continue
    webhook.failures = (webhook.failures ?? 0) + 1
    if (webhook.failures < mostFailures) continue
    webhook.failures = 0
    webhook.bannedUntil = time.now + banMs
    note('CRM', `the webhook of user ${webhook.user_id} is banned`)
  }
}

/** What must hold only for Pipedrive. */
export function checkPipedrive(played: Played): string[] {
  if (played.plan.crm !== 'pipedrive') return []
  return [...nothingHidden(played), ...oneWebhook(played), ...withinBudget(played)]
}

/** (9): no channel, and no user's list, has anything of a deal that is hidden from those whose messages go there. */
function nothingHidden({ world, database, users, moves }: Played): string[] {
  const broken: string[] = []
  for (const { channel, moves: told } of world.posts) {
    for (const name of told) {
      const move = moves.find((each) => nameOf(each) === name)
      const own = users.filter(
        ({ account, routes }) =>
          account === move?.account && routes.some((route) => route.channel === channel),
      )
      if (move === undefined || own.length === 0 || own.some((user) => sees(user, move))) continue
      broken.push(`(9) deal ${name} is hidden from all users of ${channel}`)
    }
  }
  const known = database.ask<{ user_id: string; name: MoveName }>(
    `select user_id, ${nameSql} as name from deliveries join deal_events on deal_events.id = event_id
     where coalesce(deal_name, deal_url, from_label, to_label) is not null`,
  )
  for (const { user_id, name } of known) {
    const user = users.find(({ id }) => id === user_id)
    const move = moves.find((each) => nameOf(each) === name)
    if (user === undefined || move === undefined || sees(user, move)) continue
    broken.push(`(9) user ${user.name} has the name of deal ${name}, which is hidden`)
  }
  return broken
}

/** (10): each connected user has one webhook that works, and nobody else has any. */
function oneWebhook({ time, world, database, users, processes }: Played): string[] {
  const connected = database.ask<{ name: string; works: boolean }>(
    `select crm_account_id || '-' || crm_user_id as name, broken_since is null and ask_again_at is null as works
     from connections join users on users.id = user_id where provider = 'pipedrive'`,
  )
  const names = new Set([
    ...connected.map(({ name }) => name),
    ...users.map(({ name }) => name),
    ...world.pipedrive.webhooks.map(({ company, user_id }) => `${company}-${user_id}`),
  ])
  /** What ends a webhook is not tried again. So a fault may have prevented it. */
  const mayBeLeft = (at: number) =>
    world.failedAt.some((failed) => failed > at && failed < at + minute) ||
    processes.disturbances.some(({ from, until }) => from < at + minute && until > at - second)
  return [...names].flatMap((name): string[] => {
    const own = world.pipedrive.webhooks.filter(
      ({ company, user_id }) => `${company}-${user_id}` === name,
    )
    const connection = connected.find((each) => each.name === name)
    const user = users.find((each) => each.name === name)
    if (connection === undefined) {
      const { leaves = [] } = user ?? {}
      if (own.length === 0 || leaves.some((at) => mayBeLeft(at))) return []
      return [`(10) user ${name} has ${own.length} webhooks after leaving`]
    }
    // Without the scopes, a connection need not have been refused yet.
    if (!connection.works || user?.reasons.size) return []
    const right = own.filter(
      ({ company, is_active, http_auth_password, subscription_url }) =>
        is_active && http_auth_password === passwordOf(company) && subscription_url === webhookUrl,
    )
    if (own.length === 1 && right.length === 1) return []
    return [
      `(10) user ${name} has ${own.length} webhooks, of which ${right.length} are right, after ${Math.round((time.now - time.startMs) / second)} s`,
    ]
  })
}

/** (11): a known change costs no changelog, everything else costs little, and a short day is kept for fresh changes. */
function withinBudget(played: Played): string[] {
  const { plan, world, moves } = played
  const broken: string[] = []
  for (const { path, at } of world.calls) {
    const deal = Number(/deals\/(\d+)\/changelog/.exec(path)?.[1])
    const own = moves.filter((each) => each.deal === deal)
    const isKnown = own.every(({ acknowledgedAt = at }) => acknowledgedAt <= at - underWayMs)
    // A check of a broken connection reads the first one.
    if (Number.isNaN(deal) || deal === 1 || !isKnown) continue
    broken.push(`(11) the changelog of deal ${deal} is read, although its changes are known`)
  }
  for (const [account, calls] of Map.groupBy(world.calls, (call) => call.account)) {
    const spent = calls.reduce((sum, { isHeard, tokens }) => sum + (isHeard ? tokens : 0), 0)
    const most = mostTokens(played, Number(account))
    if (spent > most) broken.push(`(11) account ${account} costs ${spent} tokens, not ${most}`)
  }
  const { shortFrom } = plan
  if (shortFrom !== undefined) {
    // Each company has a day of its own.
    const ofCompany = Map.groupBy(
      world.calls,
      ({ owner, account }) => `${owner?.name} (company ${account})`,
    )
    for (const [name, calls] of ofCompany) {
      const heard = calls.find(({ tellsShort }) => tellsShort !== undefined)?.tellsShort
      const search = calls.find(
        ({ path, at }) => at > (heard ?? at) + 10 * second && /updated_since|changelog/.test(path),
      )
      if (search) broken.push(`(11) ${name} searches although little is left of the day`)
    }
  }
  return broken.slice(0, 3)
}

/** The most tokens that the calls of an account may cost of which a process has got the answer. */
function mostTokens({ time, plan, users, moves, processes }: Played, account: number): number {
  const own = users.filter((user) => user.account === account).length
  const changes = moves.filter((move) => move.account === account)
  const missed = changes.filter(
    ({ happenedAt = 0, acknowledgedAt = Number.POSITIVE_INFINITY }) =>
      acknowledgedAt > happenedAt + minute,
  )
  const hours = Math.ceil((time.now - time.startMs) / (60 * minute))
  const starts = processes.started()
  const crmFaults = plan.faults.filter(({ kind }) => kind === 'crm').length
  const acts = plan.acts.length + plan.webhookFaults.length
  const checks = own * (2 + 2 * crmFaults) + 3 * acts
  return (
    // Each process reads the deal once, and its links once.
    2 * changes.length * own * starts +
    10 * own * starts * hours +
    20 * own * (hours + starts + acts) +
    21 * missed.length * own +
    // One of a broken connection also reads stages and a deal with its history.
    (12 + 31) * checks +
    // A webhook that is made is looked for before and afterwards.
    26 * (acts + own)
  )
}
