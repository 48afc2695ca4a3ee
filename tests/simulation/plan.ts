import { type ChatId, type CrmId, crmIds } from '../../server/providers/registry.ts'
import { type AccountPace, channelIn, drawChat, knownChat } from './chats.ts'
import {
  type Between,
  drawChangelogs,
  drawFaults,
  drawLost,
  drawMistake,
  drawUnknown,
  type Fault,
  minute,
  outage,
  second,
  type Theme,
  themeOf,
} from './faults.ts'
import { Dice } from './time.ts'

// What happens in one run, drawn from the seed before the run begins. Runs are short and crowded: few
// channels, many users and changes in them, and faults at the moments between two steps.

export interface PlannedUser {
  account: number
  /** As the relay names it: team/channel. */
  channel: string
  ruleIds: readonly string[]
  tokenLastsMs: number
}

const stages = ['start', 'next', 'w1'] as const

/** A deal moves to a stage. */
export interface PlannedMove {
  deal: number
  account: number
  at: number
  to: (typeof stages)[number]
  linked: boolean
  /** The numbers of the users who may not see the deal, where a CRM hides deals. */
  hiddenFrom: ReadonlySet<string>
}

/** The CRM tells of moves, by their index. */
interface Webhook {
  moves: readonly number[]
  at: number
  process: number
}

/** Something happens to a user's webhook at Pipedrive. A check of the connection follows. */
export interface WebhookFault {
  at: number
  user: number
  how: 'deleted' | 'deactivated' | 'doubled' | 'of a former server' | OfAddress
}
/** A second server with the same client id makes one, or ours has got another address since. */
type OfAddress = 'made by another server' | 'at a former address'

/** Somebody does something, or the providers' side changes for good. */
export type Act = { at: number; process: number; user: number } & (
  | { what: 'choose channel'; channel: string }
  | { what: 'leave chat' | 'leave crm' | 'connect chat' | 'connect crm' | 'untick' | 'tick' }
  /** The browser connects another account of the CRM, so it is another person's from then on. */
  | { what: 'other account' }
  | { what: 'withdraw scope' | 'uninstall' | 'revoke' | 'archive' }
)

export interface Plan {
  seed: number
  theme: Theme
  /** All users have the same ones. */
  crm: CrmId
  chat: ChatId
  /** A smaller pace of an account, which few channels reach. Undefined: the chat has its own. */
  pace: AccountPace | undefined
  processes: number
  users: readonly PlannedUser[]
  moves: readonly PlannedMove[]
  webhooks: readonly Webhook[]
  webhookFaults: readonly WebhookFault[]
  acts: readonly Act[]
  faults: readonly Fault[]
  /** By when everything planned has begun. */
  endMs: number
  /** When a search begins for what no webhook has brought, or by when. */
  searchMs: number | undefined
  /** All processes are away before `searchMs`, so they search. Otherwise the server has searched by itself by then. */
  searchesAtStart: boolean
  /** How far the CRM's clock is ahead. */
  aheadMs: number
  /** A search finds a change only after this time. */
  indexLagMs: number
  /** The CRM's limit of calls in ten seconds, or in two. */
  callLimit: number
  /** Since when other programs have left little of the account's tokens of the day. */
  shortFrom: number | undefined
  /** The CRM's answers say what is left of the day. */
  tellsDay: boolean
  /** The chat takes a message once that comes twice with one id. */
  knowsIds: boolean
}

/** The service is away for so long before a search, and searches after so long (search/schedule.ts). */
export const awayMs = 65 * second
export const searchedAfterMs = 2 * minute

/** So many deals change at once that a webhook makes more rows than one transaction may have. */
const bulk = { account: 3, users: 30, channel: 'T9/C9', deals: 100 }

/** The seeds that once failed, by their faults, had Slack. With this number, they keep it (simulation.test.ts). */
const chatSalt = 389
/** With this number, they keep the pace of its account, too. */
const paceSalt = 178
const lostSalt = 11

/** With this number, each of their deals moves once. */
const moreSalt = 537

/** With this number, their chat fails with no unknown code. */
const unknownSalt = 5_836

const changelogSalt = 11
const secondSalt = 13

/** In some runs, the accounts of the chat have a smaller pace than its own. */
function drawPace(dice: Dice, { perSecond }: AccountPace): AccountPace | undefined {
  if (!dice.chance(0.2) || perSecond < 1) return
  return dice.oneOf([
    { perSecond: 0.5, burst: 1 },
    { perSecond: 1, burst: 2 },
  ])
}

/** Draws the CRM of all users of a run. */
const crmOf = (seed: number): CrmId => new Dice(seed * 7_919 + 5).oneOf(crmIds)

export function planOf(seed: number, crm: CrmId = crmOf(seed)): Plan {
  const dice = new Dice(seed * 7_919)
  const chat = drawChat(new Dice(seed * 7_919 + chatSalt))
  const named = (channel: string) => channelIn(chat, channel)
  const theme = themeOf(dice)
  const isOf = (some: Theme) => theme === some
  const processes = isOf('stall') ? 2 : dice.oneOf([1, 2, 2, 2, 2, 3])
  const accounts = dice.oneOf([1, 1, 2])
  const drawn = dice.oneOf<[string, ...string[]]>([
    isOf('lost lease') ? ['T1/C1', 'T1/C2'] : ['T1/C1'],
    ['T1/C1', 'T1/C2'],
    ['T1/C1', 'T1/C2', 'T1/C3'],
    ['T1/C1', 'T2/C2', 'T1/C3'],
  ])
  const channels = drawn.map(named) as typeof drawn
  // Whoever shares a channel may want what somebody who has left must not get.
  const isAlone = isOf('stall') && dice.chance(0.5)
  const users: PlannedUser[] = Array.from({ length: dice.whole(2, 5) }, (_, at) => ({
    account: dice.whole(1, accounts),
    channel: isAlone ? named(`T1/C${at + 1}`) : dice.oneOf(channels),
    ruleIds: dice.oneOf([
      ['deal-stage-changed'],
      ['deal-stage-changed'],
      ['deal-stage-changed'],
      ['deal-closed'],
      ['deal-stage-changed-orphan'],
      ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan'],
    ]),
    tokenLastsMs: dice.oneOf([25 * minute, 25 * minute, minute]),
  }))

  const eventsMs = dice.oneOf([500, 4 * second, 4 * second, isOf('none') ? 25 * second : second])
  const moves: PlannedMove[] = Array.from({ length: dice.whole(3, 16) }, (_, at) => ({
    deal: at + 1,
    account: dice.whole(1, accounts),
    at: dice.between(100, eventsMs),
    to: dice.oneOf(['next', 'next', 'next', 'w1']),
    linked: dice.chance(0.7),
    hiddenFrom: new Set<string>(),
  }))
  // Pipedrive tells of one change at a time, so there is no transaction with many.
  const isBulk = isOf('bulk') && crm === 'hubspot'
  if (isBulk) {
    for (let n = 0; n < bulk.users; n++) {
      const { account } = bulk
      const channel = named(bulk.channel)
      const ruleIds = ['deal-stage-changed']
      users.push({ account, channel, ruleIds, tokenLastsMs: 25 * minute })
    }
    for (let n = 0; n < bulk.deals; n++) {
      const of = { account: bulk.account, at: 1_000, to: 'next', linked: true } as const
      const hiddenFrom = new Set<string>()
      moves.push({ ...of, hiddenFrom, deal: 1_000 + n })
    }
  }

  // Some changes are told late or never, so that a search finds them first.
  const share = dice.oneOf([0, 0, 0.3])
  const isLost = moves.map(() => dice.chance(share))
  const aheadMs = dice.oneOf([
    0,
    0,
    0,
    dice.between(-4, 4) * minute,
    dice.between(-60, 60) * minute,
  ])
  // HubSpot signs by its own clock, so what it sends with another time is refused.
  const isRefused = crm === 'hubspot' && Math.abs(aheadMs) > 4.9 * minute
  const endMs = eventsMs + 10 * second
  const isSearched = isRefused || isLost.includes(true)
  // The others are long, so they are few. In them, the server searches in time by itself.
  const searchesAtStart = seed % 138 !== 10
  // All processes that a fault has killed have started again before they go away together.
  let searchMs = isSearched ? endMs + 75 * second + dice.between(130, 170) * second : undefined
  if (isSearched && !searchesAtStart) searchMs = 62 * minute

  const webhooks: Webhook[] = []
  const tell = (some: readonly number[], at: number) => {
    webhooks.push({ moves: some, at, process: dice.whole(0, processes - 1) })
  }
  const mostInBatch = isBulk ? 100 : dice.oneOf([1, 1, 3, 100])
  let batch: number[] = []
  moves.forEach(({ at }, index) => {
    if (isLost[index]) {
      const isToldLate = dice.chance(0.6) && (searchesAtStart || !isRefused)
      if (isToldLate) tell([index], (searchMs ?? at) + dice.between(-1, 5) * second)
      return
    }
    batch.push(index)
    if (batch.length < mostInBatch && index < moves.length - 1) return
    const happened = Math.max(...batch.map((each) => moves[each]?.at ?? 0))
    const sentAt = happened + (dice.chance(0.15) ? dice.between(0, 10_000) : dice.between(20, 800))
    tell(batch, sentAt)
    // The same again, at once in another process or later.
    if (dice.chance(0.25)) tell(batch, sentAt + dice.oneOf([0, 1, 20, dice.between(0, 20_000)]))
    batch = []
  })
  if (batch.length > 0) tell(batch, eventsMs + 100)

  const between = { dice, theme, chat, processes, users, channels, endMs, eventsMs }
  const acts = drawActs(between)
  // With dice of its own, so that seeds which once failed stay the same.
  const mistake = drawMistake(new Dice(seed * 104_729), between)
  const unknown = drawUnknown(new Dice(seed * 7_919 + unknownSalt), {
    ...{ chat, moves, endMs, eventsMs },
  })
  const faults = [...drawFaults(between), ...mistake, ...unknown]
  if (crm === 'pipedrive' && isSearched) {
    const lost = moves.filter((_, at) => isLost[at])
    faults.push(...drawChangelogs(new Dice(seed * 7_919 + changelogSalt), lost))
  }
  const { knowsIds = true } = knownChat(chat)
  const lost = knowsIds ? [] : drawLost(new Dice(seed * 7_919 + lostSalt), { moves, endMs })
  // Beside other faults, nobody can tell how often a message may come.
  if (lost.length > 0) faults.splice(0, seed % 2 === 0 ? faults.length : 0, ...lost)
  // It takes a minute to play, so it is rare.
  if (seed % 1_000 === 500) faults.push(outage)
  // Numbers of their own, so that older seeds keep the rest of their plans. With a clock that is further ahead, HubSpot's
  // webhooks would be refused.
  const more = new Dice(seed * 7_919 + 3)
  const isClockAhead = more.chance(0.12) && searchMs === undefined && aheadMs === 0
  const clockAt = more.between(0, endMs)
  if (isClockAhead) faults.push({ kind: 'clock', at: clockAt, aheadMs: 4 * minute })
  const isKnown = more.chance(0.5)
  const drawnPace = drawPace(new Dice(seed * 7_919 + paceSalt), knownChat(chat).pace)
  // The long outage is played with rare looks for due channels, between which turns would be lost.
  const pace = faults.includes(outage) ? undefined : drawnPace
  const plan = withMoreMoves({
    seed,
    theme,
    crm,
    chat,
    pace,
    processes,
    users,
    moves,
    webhooks,
    acts,
    faults,
    endMs,
    searchMs,
    searchesAtStart,
    aheadMs,
    indexLagMs: dice.oneOf([0, dice.between(0, 20_000)]),
    callLimit: dice.oneOf([100, 100, 12]),
    knowsIds: knownChat(chat).knowsIds ?? isKnown,
    ...(crm === 'pipedrive'
      ? drawPipedrive(seed, { users, moves, endMs })
      : { webhookFaults: [], shortFrom: undefined, tellsDay: false }),
  })
  return crm === 'pipedrive' ? withSameSecond(plan) : plan
}

/** In some runs, some deals move again, to stages where they have not moved before. With numbers of its own. */
function withMoreMoves(plan: Plan): Plan {
  const dice = new Dice(plan.seed * 7_919 + moreSalt)
  if (!dice.chance(0.3)) return plan
  const { searchMs, searchesAtStart, processes } = plan
  const moves = [...plan.moves]
  const webhooks = [...plan.webhooks]
  for (const [first, move] of plan.moves.entries()) {
    if (move.account === bulk.account || dice.chance(0.5)) continue
    const others = stages.filter((to) => to !== move.to)
    if (dice.chance(0.5)) others.reverse()
    let { at } = move
    for (const to of others.slice(0, dice.oneOf([1, 1, 2]))) {
      at += dice.oneOf([1.1, dice.between(2, 15)]) * second
      const index = moves.push({ ...move, at, to }) - 1
      const process = dice.whole(0, processes - 1)
      const isLost = dice.chance(0.5) && searchMs !== undefined
      if (isLost && !(searchesAtStart && dice.chance(0.4))) continue
      const sentAt = isLost ? searchMs + dice.between(-1, 5) * second : at + dice.between(20, 800)
      webhooks.push({ moves: [index], at: sentAt, process })
      // The same again, together with the first move.
      const againAt = sentAt + dice.oneOf([1, dice.between(0, 20_000)])
      if (dice.chance(0.25)) webhooks.push({ moves: [index, first], at: againAt, process })
    }
  }
  return { ...plan, moves, webhooks }
}

/** In some runs, some deals that move once move again in the same second by Pipedrive's clock, as an automation does. */
function withSameSecond(plan: Plan): Plan {
  const dice = new Dice(plan.seed * 7_919 + secondSalt)
  // A changelog does not say whether a stage and a status changed in one edit, or in two of one second. What fails while the
  // clock is ahead waits as long: with more of it, others would wait, too.
  const isClockAhead = plan.faults.some(({ kind }) => kind === 'clock')
  if (plan.searchMs !== undefined || isClockAhead || dice.chance(0.3)) return plan
  const moves = [...plan.moves]
  const webhooks = [...plan.webhooks]
  for (const move of plan.moves) {
    if (plan.moves.filter(({ deal }) => deal === move.deal).length > 1 || dice.chance(0.3)) continue
    const msOfSecond = Math.floor(move.at + plan.aheadMs) % second
    const at = move.at + dice.between(1, 40)
    if (((msOfSecond + second) % second) + 42 > second) continue
    // Of there and back, nobody knows the order.
    const to = move.to === 'next' ? 'w1' : 'next'
    const index = moves.push({ ...move, at, to }) - 1
    const process = dice.whole(0, plan.processes - 1)
    webhooks.push({ moves: [index], at: at + dice.between(20, 800), process })
  }
  return { ...plan, moves, webhooks }
}

/** With numbers of its own, draws what only Pipedrive does, and hides deals from users. */
function drawPipedrive(
  seed: number,
  { users, moves, endMs }: Pick<Plan, 'users' | 'endMs'> & { moves: PlannedMove[] },
): Pick<Plan, 'webhookFaults' | 'shortFrom' | 'tellsDay'> {
  const dice = new Dice(seed * 7_919 + 7)
  const numbers = users.map((_, at) => String(at + 1))
  for (const move of moves) {
    if (dice.chance(0.6)) continue
    move.hiddenFrom = new Set(numbers.filter(() => dice.chance(0.5)))
  }
  const count = dice.oneOf([0, 0, 1, 2])
  const webhookFaults = Array.from({ length: count }, () => ({
    at: dice.between(0, endMs),
    user: dice.whole(0, users.length - 1),
    how: dice.oneOf<WebhookFault['how']>([
      'deleted',
      'deactivated',
      'doubled',
      'of a former server',
    ]),
  }))
  const shortFrom = dice.chance(0.08) ? dice.between(0, endMs) : undefined
  const more = new Dice(seed * 7_919 + 11)
  users.forEach((_, user) => {
    if (more.chance(0.7)) return
    const how = more.oneOf<OfAddress>(['made by another server', 'at a former address'])
    webhookFaults.push({ at: more.between(0, endMs), user, how })
  })
  return { webhookFaults, shortFrom, tellsDay: shortFrom !== undefined || dice.chance(0.5) }
}

function drawActs({
  dice,
  theme,
  chat,
  processes,
  users,
  channels,
  eventsMs,
  endMs,
}: Between): Act[] {
  const acts: Act[] = []
  users.slice(0, 5).forEach((_, user) => {
    const at = dice.between(0, eventsMs + 4 * second)
    const by = { at, user, process: dice.whole(0, processes - 1) }
    const again = { ...by, at: dice.between(at + 3 * second, endMs) }
    const what = dice.random()
    if (theme === 'stall' && dice.chance(0.5)) {
      // After the claim of a process that stands still, when another process sends.
      acts.push({ ...by, at: dice.between(21, 32) * second, what: 'leave chat' })
    }
    if (theme === 'lost lease' || theme === 'stall') return
    if (theme === 'leaving') acts.push({ ...by, what: dice.oneOf(['leave chat', 'leave crm']) })
    else if (what < 0.25) {
      const channel = dice.oneOf([...channels, channelIn(chat, 'T1/C4')] as [string, ...string[]])
      acts.push({ ...by, what: 'choose channel', channel })
    } else if (what < 0.35) acts.push({ ...by, what: 'leave chat' })
    else if (what < 0.38) acts.push({ ...by, what: 'leave crm' })
    else if (what < 0.42) acts.push({ ...by, what: 'leave crm' }, { ...again, what: 'connect crm' })
    else if (what < 0.46)
      acts.push({ ...by, what: 'leave chat' }, { ...again, what: 'connect chat' })
    else if (what < 0.5) acts.push({ ...by, what: 'untick' })
    else if (what < 0.54) acts.push({ ...by, what: 'untick' }, { ...again, what: 'tick' })
    else if (what < 0.58) acts.push({ ...by, what: 'connect crm' })
    else if (what < 0.66) acts.push({ ...by, at: dice.oneOf([0, at]), what: 'withdraw scope' })
    else if (what < 0.68) acts.push({ ...by, what: dice.oneOf(['uninstall', 'revoke', 'archive']) })
    else if (what < 0.72) acts.push({ ...by, what: 'other account' })
  })
  return acts.sort((a, b) => a.at - b.at)
}
