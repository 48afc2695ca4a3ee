import type { CrmId } from '../../server/providers/registry.ts'
import { signedWebhook, stageChange } from '../relay/hubspot-webhook.ts'
import { check, isAllTold, type Move, type Played } from './checks.ts'
import type { SimulatedDatabase } from './database.ts'
import { type Fault, minute, outage, second } from './faults.ts'
import { nameOf } from './moves.ts'
import { createPeople } from './people.ts'
import { checkPipedrive, playPipedrive, tellOwners } from './pipedrive.ts'
import { awayMs, type Plan, planOf, searchedAfterMs } from './plan.ts'
import { createProcesses } from './processes.ts'
import { createStarvationCheck } from './starvation.ts'
import { Time } from './time.ts'
import { createUsers } from './users.ts'
import { createWorld, type Note } from './world.ts'

// Plays the whole server, in several processes on one database, against a CRM and a chat. The seed decides
// everything: who does what, what fails, and in which order statements, calls and timers continue.

/** What must hold. A failure begins with the number of what it breaks. */
export const promises = [
  '(1) Each acknowledged change reaches each user whose rules it meets once. Twice only where the README says so.',
  "(2) A user's messages in a channel keep the order of the changes.",
  "(3) A channel and an account get messages at the pace of their chat. The CRM's limits and the pauses of both providers are kept.",
  '(4) No message after a disconnect, in a channel that the user did not choose, or by a rule that is not ticked.',
  '(5) A connection is marked as broken only for its own reason.',
  '(6) When faults end, everything ends. No channel starves, no message waits for another one that fails alone, nothing stays leased.',
  '(7) A change that no webhook has brought is told after the next search, which comes in time.',
  '(8) What the activity says equals what the chat got.',
  '(9) Where a CRM hides deals from users, nobody is told of a deal that is hidden from them.',
  '(10) Whoever is connected to a CRM that wants to be asked has exactly one webhook there, and nobody else has one.',
  "(11) A change costs few of an account's tokens, and what is left of a short day is kept for changes that a webhook has told.",
]

export interface Run {
  seed: number
  crm: CrmId
  broken: readonly string[]
  faults: readonly Fault[]
  log: readonly string[]
  statements: number
}

/** When faults end, everything ends within this time. */
const restMs = 30 * minute
/** Long after the last fault, what a search finds is told within this time. */
const toldMs = 5 * minute
/** After the longest of `failsUntil`, a message has its next try within this time. */
const nextTryMs = 10 * minute
/** A run with fewer messages may miss a kind of statement by chance. */
const fewPosts = 8
/** How often the run is looked at. */
const lookMs = 2 * second
/** HubSpot waits so long for an answer, and tells again up to ten times. */
const acknowledgedMs = 5 * second
const mostTries = 10

/**
 * Plays a seed.
 * @param chosen replaces the faults of the seed, to find those that matter, or the CRM that it draws.
 */
export async function simulate(
  database: SimulatedDatabase,
  seed: number,
  chosen: { faults?: readonly Fault[]; crm?: CrmId | undefined } = {},
): Promise<Run> {
  const plan = planOf(seed, chosen.crm)
  const faults = chosen.faults ?? plan.faults
  const time = new Time(Date.UTC(2030, 0, 1), seed)
  const realFetch = globalThis.fetch
  const log: string[] = []
  const note: Note = (who, what) => {
    log.push(`${((time.now - time.startMs) / second).toFixed(3)} ${who}: ${what}`)
  }
  time.install()
  try {
    const broken = await play({ database, time, plan, faults, note })
    return { seed, crm: plan.crm, broken, faults, log, statements: database.statements }
  } finally {
    time.uninstall()
    globalThis.fetch = realFetch
  }
}

async function play({
  database,
  time,
  plan,
  faults,
  note,
}: {
  database: SimulatedDatabase
  time: Time
  plan: Plan
  faults: readonly Fault[]
  note: Note
}): Promise<readonly string[]> {
  database.reset(time)
  const atOnce: string[] = []
  const broke = (rule: string) => {
    atOnce.push(rule)
  }
  const world = createWorld({ time, database, plan, note })
  for (const fault of faults) if (fault.kind === 'clock') world.setClock(fault.aheadMs)
  globalThis.fetch = world.fetch(faults)
  const users = await createUsers(database, time, plan)
  const processes = createProcesses({ time, database, plan, world, faults, note, broke })
  for (let index = 0; index < plan.processes; index++) processes.start(index)
  const people = createPeople({ time, plan, world, database, processes, users, note, broke })
  const moves: Move[] = plan.moves.map((move) => ({ ...move }))
  const played: Played = { time, plan, database, world, processes, users, moves }
  const isTelling = tellMoves(played, note)
  const pipedrive = playPipedrive(played, note)

  /** The faults that concern all have ended. */
  const calmFrom = () => {
    const ends = processes.disturbances.map(({ until }) => until)
    return Math.max(time.startMs + plan.endMs, ...ends)
  }
  const lookForStarving = createStarvationCheck(played, () => time.now > calmFrom())
  const faultyUntil = (channel: string) =>
    Math.max(
      ...faults.map((fault) =>
        'only' in fault && fault.only === channel ? time.startMs + fault.at + fault.forMs : 0,
      ),
    )
  /** Until when messages about some deals fail. Their next try may be as long after it as they have failed, and longer. */
  const failsUntil = Math.max(
    ...faults.map((fault) =>
      'deals' in fault && fault.how !== 'fails at a changelog'
        ? time.startMs + fault.at + fault.forMs
        : 0,
    ),
  )
  const pausedUntil = () => Math.max(0, ...world.pauses.map(({ until }) => until))
  try {
    let end = Number.POSITIVE_INFINITY
    let isSearching = plan.searchMs === undefined
    const leavesAtMs = plan.searchesAtStart ? awayMs + searchedAfterMs : 0
    for (;;) {
      await time.runUntil(time.now + lookMs)
      atOnce.push(...lookForStarving(faultyUntil))
      if (atOnce.length > 0) return atOnce
      const sinceMs = time.now - time.startMs
      if (!isSearching && sinceMs >= (plan.searchMs ?? 0) - leavesAtMs) {
        isSearching = true
        for (let at = 0; plan.searchesAtStart && at < plan.processes; at++) {
          processes.kill(at, awayMs)
        }
      }
      const calm = Math.max(calmFrom(), time.startMs + (plan.searchMs ?? 0), pausedUntil())
      end = Math.max(calm + (plan.searchesAtStart ? restMs : toldMs), failsUntil + nextTryMs)
      // Long waits need no short polls.
      const isDown = faults.includes(outage) && sinceMs > plan.endMs + 20 * second
      const isWaiting =
        (isDown || time.now > calmFrom() + 20 * second) && time.now < calm - 12 * second
      // At a small pace, channels wait for turns, and a turn is lost after ten seconds (`keepTurnMs` in pauses.ts).
      const isInTurns =
        plan.pace !== undefined &&
        database.ask(`select from deliveries where state = 'pending' limit 1`).length > 0
      const isRare = !isInTurns && (isWaiting || time.now > calm + minute)
      processes.times.pollMs = isRare ? 10 * second : second
      if (time.now > end) break
      if (time.now < calm || people.isBusy() || isTelling()) continue
      const [left] = database.ask<{ count: number }>(
        `select count(*)::int as count from deliveries where state = 'pending'
         union all select count(*)::int from channels where leased_until is not null
         order by count desc`,
      )
      const isOver = isSearching && left?.count === 0 && isAllTold(played)
      if (isOver && pipedrive.isSettled()) break
    }
    for (const moment of ['claim', 'next', 'record', 'lease', 'store'] as const) {
      if (world.posts.length < fewPosts || processes.seen.has(moment)) continue
      throw new Error(
        `The simulation no longer knows the statement '${moment}' (plan.ts, moments).`,
      )
    }
    return [...checkPipedrive(played), ...check(played)]
  } finally {
    processes.end()
  }
}

/** The deals move, and the CRM tells of it. @returns whether it still does. */
function tellMoves(played: Played, note: Note): () => boolean {
  const { time, plan, world, moves } = played
  const { dice } = time
  const { outside } = world
  const apartMs = dice.oneOf([0, 0, 3, dice.between(-2_000, 2_000)])
  for (const move of moves) {
    time.after(move.at, undefined, () => {
      move.happenedAt = Math.floor(time.now)
      move.inHistoryAt = Math.floor(move.happenedAt + apartMs)
      const at = Math.floor(move.happenedAt + plan.aheadMs)
      // The history and the webhook may name slightly different times.
      const inHistoryAt = at + Math.floor(apartMs)
      const { deal, linked, to, hiddenFrom } = move
      const account = String(move.account)
      const foundAtMs = time.now + plan.indexLagMs
      const { moves = [] } = world.pipedrive.deals.get(deal) ?? {}
      world.pipedrive.deals.set(deal, {
        ...{ company: account, hiddenFrom, linked, listedAtMs: foundAtMs },
        moves: [...moves, { to, at, inHistoryAt }],
      })
      const start = { value: 'start', timestamp: '2020-01-01T00:00:00Z' }
      const { history = [start] } = outside.deals.get(String(deal)) ?? {}
      outside.deals.set(String(deal), {
        ...{ account, linked, searchableAtMs: foundAtMs },
        history: [{ value: to, timestamp: new Date(inHistoryAt).toISOString() }, ...history],
      })
      note('CRM', `deal ${deal} of account ${account} moves to ${to}`)
    })
  }
  let open = 0
  for (const webhook of plan.webhooks) {
    open++
    time.after(webhook.at, undefined, async () => {
      const told = webhook.moves.flatMap((index) => moves[index] ?? [])
      if (plan.crm === 'hubspot') await tell(told, webhook.process, played, note)
      else await Promise.all(told.map((move) => tellOwners(move, played, note)))
      open--
    })
  }
  return () => open > 0
}

async function tell(
  told: readonly Move[],
  process: number,
  { time, plan, processes }: Played,
  note: Note,
): Promise<void> {
  const items = told.map(({ deal, account, to, happenedAt = 0 }) =>
    stageChange(deal, { portal: account, stage: to, at: Math.floor(happenedAt + plan.aheadMs) }),
  )
  for (let tries = 0; tries < mostTries; tries++) {
    const index = tries === 0 ? process : time.dice.whole(0, plan.processes - 1)
    const answer = await processes.request(
      index,
      '/webhooks/hubspot',
      signedWebhook(items, time.now + plan.aheadMs),
      acknowledgedMs,
    )
    const status = answer?.status ?? 0
    note('HubSpot', `tells process ${index} of ${told.map(nameOf).join()}: ${status}`)
    if (status === 204) {
      for (const move of told) move.acknowledgedAt ??= time.now
      return
    }
    if (status >= 400 && status < 429) return
    await time.wait(Math.min(2 ** tries * 2 * second, minute), undefined)
  }
}
