import { knownChat } from './chats.ts'
import type { SimulatedDatabase } from './database.ts'
import { type How, minute, second } from './faults.ts'
import { dealOf, type MoveName, movesIn, nameOf, nameSql } from './moves.ts'
import type { Plan, PlannedMove } from './plan.ts'
import type { Processes } from './processes.ts'
import type { Owner, Time } from './time.ts'
import { sees, type User } from './users.ts'
import { longestWayMs, type Post, type World } from './world.ts'

// What must hold. Each check looks at what the providers saw, and compares it with what users may and must
// be told, and says what is broken. The number is that of the list in tests/simulation/simulate.ts.

export interface Move extends PlannedMove {
  /** When it happened. Undefined: it has not. */
  happenedAt?: number
  /** When it happened by the deal's history, which a search reads. */
  inHistoryAt?: number
  /** When a process answered that it has stored it. */
  acknowledgedAt?: number
}

export interface Played {
  time: Time
  plan: Plan
  database: SimulatedDatabase
  world: World
  processes: Processes
  users: readonly User[]
  moves: readonly Move[]
}

interface Row {
  user_id: string
  move: MoveName
  channel: string
  state: string
  reason: string | null
  attempts: number
}

const isIn = (move: MoveName) => (post: Post) => post.moves.includes(move)

function applies(user: User, move: Move): boolean {
  const { to, linked } = move
  if (!sees(user, move)) return false
  return user.ruleIds.some(
    (id) => id === 'deal-stage-changed' || (id === 'deal-closed' ? to === 'w1' : linked === false),
  )
}

/** The deals at which a provider fails in this way. */
export const dealsOf = ({ faults }: Plan, how: How) =>
  faults.flatMap((fault) => ('how' in fault && fault.how === how ? (fault.deals ?? []) : []))

/** Whether the chat never says that it has the message about the move, which may be a digest. */
function isLost({ deal, to }: Move, { plan, world }: Played): boolean {
  const lost = dealsOf(plan, 'loses the answers of a deal')
  return (
    lost.includes(deal) ||
    (lost.length > 0 &&
      world.posts.some(
        ({ moves }) =>
          moves.includes(nameOf({ deal, to })) && moves.some((name) => lost.includes(dealOf(name))),
      ))
  )
}

/** Whether the user must be told of the move, if the run has ended. */
function mustBeTold(played: Played, user: User, move: Move): boolean {
  const { plan } = played
  const { safeSince } = user
  if (user.account !== move.account || safeSince === undefined || !applies(user, move)) return false
  if (move.happenedAt === undefined || move.happenedAt <= safeSince) return false
  if (dealsOf(plan, 'refuses a deal').includes(move.deal)) return false
  if (isLost(move, played)) return false
  // The user has connected during the run. HubSpot's clock tells the time in whole seconds only.
  if (user.hasActed && move.happenedAt < safeSince + 5 * second && safeSince > 0) {
    if (safeSince !== user.routes[0]?.from) return false
  }
  if (move.acknowledgedAt !== undefined) return true
  // On a short day, nothing is searched.
  return plan.searchMs !== undefined && plan.shortFrom === undefined && isFindable(move, played)
}

/** Whether a search finds the move. Pipedrive's list tells only the last one, and no reopening (decision 474). */
function isFindable({ deal }: Move, { time, plan, moves }: Played): boolean {
  if (plan.crm !== 'pipedrive') return true
  const own = moves.filter((each) => each.deal === deal)
  if (dealsOf(plan, 'fails at a changelog').includes(deal)) return false
  const [before, last] = [own.at(-2), own.at(-1)]
  const isReopened = own.length === 2 && before?.to === 'w1' && last?.to === 'start'
  // What a webhook has told late may be stored when the search looks, or may not.
  const late = time.startMs + plan.endMs + minute
  return [late, Number.POSITIVE_INFINITY].every((until) => {
    const stored = own.filter(({ acknowledgedAt = until }) => acknowledgedAt < until)
    if (stored.length === 0) return !isReopened
    return stored.at(-1) !== last || (stored.length > 1 && stored.at(-2) !== before)
  })
}

/** Those of accounts with few users. No user of the others gets a message. */
const rowsOf = (database: SimulatedDatabase) =>
  database.ask<Row>(
    `select user_id, ${nameSql} as move, channel, state, reason, attempts
     from deliveries join deal_events on deal_events.id = event_id where account_id < '3'`,
  )

/** Whether everything that must be told has been told, so that the run may end. */
export function isAllTold(played: Played): boolean {
  const { database, users, moves } = played
  const told = new Set(
    rowsOf(database)
      .filter(({ state, reason }) => state === 'sent' || reason === 'said_in_channel')
      .map(({ user_id, move }) => `${user_id} ${move}`),
  )
  return users.every((user) =>
    moves.every(
      (move) => !mustBeTold(played, user, move) || told.has(`${user.id} ${nameOf(move)}`),
    ),
  )
}

export function check(played: Played): string[] {
  const { database } = played
  const rows = rowsOf(database)
  return [
    ...eachOnce(played, rows),
    ...noneRepeated(played),
    ...fewRepeated(played, rows),
    ...inOrder(played, rows),
    ...atPace(played),
    ...accountsAtPace(played).slice(0, 3),
    ...pausesKept(played),
    ...limitsKept(played).slice(0, 3),
    ...onlyWanted(played),
    ...brokenForOwnReason(played),
    ...nothingLeft(played),
  ]
}

/** (1), (7), (8): each change reaches each user once, and the activity says what the chat got. */
function eachOnce(played: Played, rows: readonly Row[]): string[] {
  const { world } = played
  const users = played.users.filter(({ account }) => account < 3)
  const moves = played.moves.filter(({ account }) => account < 3)
  const broken: string[] = []
  const { posts } = world
  const postsOf = (channel: string, name: MoveName) =>
    posts.filter((post) => post.channel === channel && isIn(name)(post))
  for (const move of moves) {
    const name = nameOf(move)
    const deal = `deal ${name}`
    for (const user of users) {
      const row = rows.find((each) => each.user_id === user.id && each.move === name)
      const isTold = row?.state === 'sent' || row?.reason === 'said_in_channel'
      if (isTold && row !== undefined && postsOf(row.channel, name).length === 0) {
        broken.push(`(8) ${deal} counts as sent to ${row.channel}`)
      }
      if (mustBeTold(played, user, move) && !isTold) {
        const state = row ? `${row.state}, ${row.reason}` : 'not stored'
        // Only a search may have brought it.
        const promise = move.acknowledgedAt === undefined ? 7 : 1
        broken.push(`(${promise}) user ${user.name} never hears of ${deal}: ${state}`)
      }
    }
    const channels = new Set(posts.filter(isIn(name)).map(({ channel }) => channel))
    for (const channel of channels) {
      const some = postsOf(channel, name)
      if (some.slice(0, -1).some(({ isExcused }) => !isExcused)) {
        broken.push(`(1) ${channel} gets ${deal} ${some.length} times`)
      }
      if (some.some(({ isDenied, isExcused }) => isDenied && !isExcused)) {
        broken.push(`(8) ${channel} gets ${deal} after it has ended`)
      }
      const isSent = rows.some(
        (row) => row.channel === channel && row.move === name && row.state === 'sent',
      )
      if (!isSent && some.some(({ isExcused }) => !isExcused)) {
        broken.push(`(8) ${channel} has got ${deal}, which does not count as sent`)
      }
    }
    // One user's messages, in all channels that nobody else ever used.
    for (const user of users) {
      const own = new Set(user.routes.map(({ channel }) => channel))
      const isAlone = users.every(
        (other) => other === user || other.routes.every(({ channel }) => !own.has(channel)),
      )
      const some = posts.filter((post) => own.has(post.channel) && isIn(name)(post))
      if (isAlone && some.slice(0, -1).some(({ isExcused }) => !isExcused)) {
        broken.push(`(1) user ${user.name} hears of ${deal} ${some.length} times`)
      }
    }
  }
  return broken
}

/** The first and the last time at which a change may have happened, as far as the relay knows. */
function timesOf(move: Move, { searchMs, crm, aheadMs }: Plan) {
  const { happenedAt = 0, inHistoryAt = happenedAt } = move
  // Pipedrive tells whole seconds.
  const told = (at: number) =>
    crm === 'pipedrive' ? Math.floor((at + aheadMs) / second) * second - aheadMs : at
  const times = (searchMs === undefined ? [happenedAt] : [happenedAt, inHistoryAt]).map(told)
  return { first: Math.min(...times), last: Math.max(...times) }
}

/** Whether two moves of a deal happen in one second, as far as the relay knows. Their former values tell their order. */
function isSecondOf(earlier: Move, later: Move, plan: Plan): boolean {
  if (earlier.deal !== later.deal) return false
  return timesOf(earlier, plan).first === timesOf(later, plan).first && earlier.at < later.at
}

/**
 * (1): if the chat knows the ids of messages, no channel gets the same message again, also after a crash. And no change
 * comes in two messages, except in a channel where two users may each have one.
 */
function noneRepeated({ plan, world, users }: Played): string[] {
  if (!plan.knowsIds) return []
  const isShared = (channel: string) => {
    const own = users.filter(({ routes }) => routes.some((route) => route.channel === channel))
    return own.length > 1 || own.some(({ hasActed }) => hasActed)
  }
  const told = Map.groupBy(
    world.outside.posts
      .filter((post) => post.blocks !== '' && !isShared(world.channelOf(post)))
      .flatMap((post) => movesIn(post).map((move) => `${world.channelOf(post)} gets ${move}`)),
    (each) => each,
  )
  const twice = [...told].flatMap(([what, { length }]) =>
    length > 1 ? [`(1) ${what} in ${length} messages`] : [],
  )
  const same = Map.groupBy(world.outside.posts, (post) =>
    post.blocks === '' || world.isGreeting(post)
      ? undefined
      : [world.channelOf(post), post.text, post.blocks].join(),
  )
  same.delete(undefined)
  const again = [...same.values()].flatMap(([first, ...more]) =>
    first !== undefined && more.length > 0
      ? [`(1) ${first.channel} gets the same message again: ${first.text}`]
      : [],
  )
  return [...again, ...twice]
}

/** A chat that knows no ids gets a user's message so often if no answer comes, once more than the relay counts at a restart. */
const mostRepeats = 6

/** (1): a message whose answers are lost comes a few times. */
function fewRepeated({ plan, world }: Played, rows: readonly Row[]): string[] {
  const isOurs = plan.faults.some(({ kind }) => kind !== 'chat' && kind !== 'crm')
  if (isOurs) return []
  const deals = dealsOf(plan, 'loses the answers of a deal')
  const tried = rows.filter(({ move, attempts }) => attempts > 0 && deals.includes(dealOf(move)))
  // A delivery may move to another channel.
  return [...Map.groupBy(tried, ({ move }) => move)].flatMap(([move, own]) => {
    const { length } = world.posts.filter(isIn(move))
    return length > mostRepeats * own.length ? [`(1) deal ${move} comes ${length} times`] : []
  })
}

/**
 * (2): of two changes that were stored before a process looked, the earlier one comes first, unless a try of it has
 * failed.
 */
function inOrder({ plan, world, users, moves }: Played, rows: readonly Row[]): string[] {
  const hasFailed = (channel: string, move: Move) =>
    rows.some(
      (row) =>
        row.channel === channel &&
        row.move === nameOf(move) &&
        row.attempts > Number(row.state === 'sent'),
    )
  const broken: string[] = []
  for (const [channel, posts] of Map.groupBy(world.posts, (post) => post.channel)) {
    const visitors = users.filter(({ routes }) => routes.some((route) => route.channel === channel))
    const first = (move: Move) => posts.findIndex(isIn(nameOf(move)))
    for (const earlier of moves) {
      const at = first(earlier)
      if (at === -1 || hasFailed(channel, earlier)) continue
      const own = visitors.filter(({ account }) => account === earlier.account)
      if (own.some(({ hasActed }) => hasActed)) continue
      for (const later of moves) {
        if (later.account !== earlier.account) continue
        // What a search finds of one deal is stored together.
        const isFound = later.deal === earlier.deal && later.acknowledgedAt === undefined
        if (earlier.acknowledgedAt === undefined && !isFound) continue
        const mayBeEarlier = timesOf(later, plan).first <= timesOf(earlier, plan).last
        if (mayBeEarlier && !isSecondOf(earlier, later, plan)) continue
        if (!own.every((user) => applies(user, earlier) === applies(user, later))) continue
        const atLater = first(later)
        if (atLater === -1 || atLater >= at) continue
        if ((earlier.acknowledgedAt ?? 0) > (posts[atLater]?.pickedAt ?? 0)) continue
        const [name, other] = [nameOf(later), nameOf(earlier)]
        broken.push(`(2) deal ${name} comes before deal ${other} in ${channel}`)
      }
    }
  }
  return broken
}

/** What was stored while the clock was ahead counts no longer than until it was put right. */
const isAcross = ({ clockRightAt }: Time, from: number, until: number) =>
  from < clockRightAt && clockRightAt <= until

/** (3): the pace of the chat in a channel, over all processes. */
function atPace({ time, plan, world }: Played): string[] {
  const { apartMs } = knownChat(plan.chat)
  return [...Map.groupBy(world.posts, ({ channel }) => channel)].flatMap(([channel, some]) =>
    some.slice(1).flatMap((post, index): string[] => {
      const before = some[index]
      if (before === undefined || before.isExcused || post.isExcused) return []
      if (isAcross(time, before.at, post.at)) return []
      const gapMs = Math.round(post.at - before.at)
      if (gapMs >= apartMs - longestWayMs - 10) return []
      return [
        `(3) ${channel} gets deal ${before.moves[0]} and deal ${post.moves[0]} within ${gapMs} ms`,
      ]
    }),
  )
}

/** (3): the pace of the chat in an account, over all processes: `burst` messages, and then `perSecond`. */
function accountsAtPace({ time, plan, world }: Played): string[] {
  const { perSecond, burst } = plan.pace ?? knownChat(plan.chat).pace
  return [...Map.groupBy(world.posts, ({ channel }) => channel.split('/')[0])].flatMap(
    ([account, some]) =>
      some.flatMap(({ pickedAt: from }): string[] => {
        // A message takes its turn between these two times. It may be delayed before and after, so what took its turn
        // apart may be claimed, and arrive, together.
        const later = some
          .filter(({ pickedAt }) => pickedAt >= from)
          .map(({ at, claimedAt = at }) => claimedAt)
          .sort((a, b) => a - b)
        return later.flatMap((until, index): string[] => {
          const count = index + 1
          const leastMs = ((count - burst) * second) / perSecond
          if (until - from >= leastMs - 10 || isAcross(time, from, until)) return []
          return [`(3) ${account} gets ${count} messages in ${Math.round(until - from)} ms`]
        })
      }),
  )
}

/** (3): the pauses that a provider asked for. */
function pausesKept({ time, world }: Played): string[] {
  const { calls, pauses, posts } = world
  const broken: string[] = []
  for (const { of, isOfChat, isSearch, owner, from, until: asked, storedAt = asked } of pauses) {
    const until = isAcross(time, storedAt, asked) ? time.clockRightAt : asked
    if (isOfChat) {
      const post = posts.find(
        ({ channel, claimedAt = 0 }) =>
          channel.startsWith(`${of}/`) && claimedAt > storedAt && claimedAt < until,
      )
      if (post) broken.push(`(3) ${post.channel} gets deal ${post.moves[0]} in a pause of ${of}`)
      continue
    }
    const call = calls.find(
      (each) =>
        each.account === of &&
        each.owner === owner &&
        each.isSearch === isSearch &&
        each.at > from + 1 &&
        each.at < until - 1,
    )
    if (call) broken.push(`(3) account ${of} is called in a pause`)
  }
  return broken.slice(0, 3)
}

/** HubSpot takes so many searches of an account in a second. */
const searchesASecond = 5

/** (3): all processes together keep the CRM's limits. */
function limitsKept({ time, plan, world }: Played): string[] {
  const broken: string[] = []
  const callsWithinMs = plan.crm === 'pipedrive' ? 1_900 : 9_900
  const kinds = Map.groupBy(world.calls, ({ account, isSearch }) => `${account} ${isSearch}`)
  for (const calls of kinds.values()) {
    const learntAt = new Map<Owner | undefined, number>()
    for (const { owner, toldAt = Number.POSITIVE_INFINITY } of calls) {
      learntAt.set(owner, Math.min(toldAt, learntAt.get(owner) ?? toldAt))
    }
    // A process learns the limit of reads from the first answer that tells it.
    const bound = calls.filter(
      ({ owner, at, isSearch }) => isSearch || at > (learntAt.get(owner) ?? 0),
    )
    bound.forEach(({ account, at, isSearch }, index) => {
      const [most, withinMs] = isSearch ? [searchesASecond, 990] : [plan.callLimit, callsWithinMs]
      const first = bound[index - most]
      if (first === undefined || at - first.at >= withinMs || isAcross(time, first.at, at)) return
      const what = isSearch ? 'searches' : 'reads'
      broken.push(`(3) account ${account} gets more than ${most} ${what}`)
    })
  }
  return broken
}

/** (4): no message for somebody who has left, to a former channel, or by a rule that was not ticked. */
function onlyWanted({ time, world, users, moves }: Played): string[] {
  return world.posts.flatMap((post) => {
    const { claimedAt = post.at } = post
    // A claim from before the clock was put back lies too far ahead, so a disconnect does not wait for its message.
    const isOfWrongClock = isAcross(time, claimedAt, post.at)
    return post.moves.flatMap((name): string[] => {
      const move = moves.find((each) => nameOf(each) === name)
      const happenedAt = move?.happenedAt ?? 0
      const isWanted = (user: User) =>
        move !== undefined &&
        user.account === move.account &&
        applies(user, move) &&
        user.ticked.some(({ from, until = Number.POSITIVE_INFINITY }) => {
          return from <= post.at && until >= happenedAt
        }) &&
        user.routes.some(
          ({ channel, from, until = Number.POSITIVE_INFINITY, isStrict = false }) =>
            channel === post.channel &&
            from <= post.at &&
            until >= (isStrict && !isOfWrongClock ? post.at : claimedAt),
        )
      if (users.some(isWanted)) return []
      return [`(4) nobody wants deal ${name} in ${post.channel} any more`]
    })
  })
}

/** (5): a connection is broken only for its own reason. */
function brokenForOwnReason({ plan, database, users }: Played): string[] {
  // The second refusal of what has a reason of its own may be the provider's mistake.
  const mayMistake = plan.faults.some((fault) => 'how' in fault && fault.how === 'refuses once')
  return database
    .ask<{ user_id: string; broken_reason: string }>(
      'select user_id, broken_reason from connections where broken_since is not null',
    )
    .flatMap(({ user_id, broken_reason: reason }): string[] => {
      const user = users.find(({ id }) => id === user_id)
      if (user?.reasons.has(reason) || (mayMistake && user?.reasons.size)) return []
      return [`(5) a connection of user ${user?.name} is broken: ${reason}`]
    })
}

/** (6): everything has ended, and nothing stays claimed or leased. */
function nothingLeft({ database }: Played): string[] {
  const pending = database.ask<Row>(
    `select ${nameSql} as move, channel, reason, attempts from deliveries
     join deal_events on deal_events.id = event_id where state = 'pending'`,
  )
  const leased = database.ask<{ id: string }>(
    'select id from channels where leased_until is not null',
  )
  return [
    ...pending
      .slice(0, 3)
      .map(
        ({ move, channel, reason }) => `(6) deal ${move} stays pending in ${channel}: ${reason}`,
      ),
    ...leased.map(({ id }) => `(6) ${id} stays leased`),
  ]
}
