import { createBackend } from '../../server/backend.ts'
import { storeConnection } from '../../server/people/connections.ts'
import { sha256 } from '../../server/people/session.ts'
import { createVault } from '../../server/people/vault.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import {
  appUrl,
  clientSecret,
  dealsIn,
  signedWebhook,
  stageChange,
} from '../relay/hubspot-webhook.ts'
import { createOutside, type Outside, type OutsideResponse } from '../relay/outside.ts'
import type { SimulatedDatabase } from './database.ts'
import { type Owner, Time } from './time.ts'

// Plays the whole relay, in several processes on one database, against HubSpot and Slack. The seed decides
// everything: what happens, what fails, and in which order statements and timers continue.

const base = 'https://outside.test'
const key = Buffer.alloc(32, 7)
const addresses = parseEnv({
  HUBSPOT_CLIENT_ID: 'hubspot-client',
  HUBSPOT_CLIENT_SECRET: clientSecret,
  HUBSPOT_API_URL: `${base}/hubspot`,
  SLACK_CLIENT_ID: 'slack-client',
  SLACK_CLIENT_SECRET: 'slack-client-secret',
  SLACK_API_URL: `${base}/slack/api`,
  APP_URL: appUrl,
}).addressesAt(1)
const minute = 60_000
/** When the faults end. Then everything must end within half an hour. */
const faultsEndMs = 4 * minute
const restMs = 30 * minute
/** A request needs this long at most to reach a provider, unless a fault delays it. */
const longestWayMs = 60

/** What happens in one run. A shorter list is a simpler run. */
export type Fault =
  | { kind: 'kill'; atMs: number; process: number; downMs: number }
  | { kind: 'freeze'; atMs: number; process: number; forMs: number }
  | { kind: 'database away'; atMs: number; forMs: number }
  | { kind: 'answers of the database are lost'; atMs: number; forMs: number; share: number }
  | {
      kind: 'provider'
      atMs: number
      forMs: number
      provider: 'hubspot' | 'slack'
      how: How
      share: number
    }
const hows = [
  'refuses',
  'asks for a pause',
  'is slow',
  'loses the answer',
  'hangs',
  'answers nonsense',
] as const
type How = (typeof hows)[number]

interface User {
  id: string
  account: number
  channel: string
  /** Where the user was before, if the user chose another channel during the run. */
  former?: string
  leftAt?: number
  cookie: string
}

interface Move {
  deal: number
  account: number
  atMs: number
  /** When a process answered 204 to its webhook. */
  acknowledgedAt?: number
}

export interface Run {
  seed: number
  broken: string[]
  faults: Fault[]
  log: string[]
}

/** Plays a seed. @param faults replaces the faults of the seed, to find those that matter. */
export async function simulate(
  database: SimulatedDatabase,
  seed: number,
  chosenFaults?: Fault[],
): Promise<Run> {
  const time = new Time(Date.UTC(2030, 0, 1), seed)
  const startMs = time.now
  await database.reset(time)
  unrecorded = []
  const log: string[] = []
  const note = (who: string, what: string) =>
    log.push(`${((time.now - startMs) / 1000).toFixed(3)} ${who}: ${what}`)
  const realFetch = globalThis.fetch
  time.install()
  try {
    return await play()
  } finally {
    for (const each of processes) each.owner.alive = false
    time.uninstall()
    globalThis.fetch = realFetch
  }

  async function play(): Promise<Run> {
    const drawn = drawFaults(time)
    const faults = chosenFaults ?? drawn
    const world = createOutside(base)
    const { outside } = world
    outside.callLimit = 100
    const excused = new Set<number>()
    globalThis.fetch = fetchFrom(time, world, faults, excused, note)

    const users = await createUsers(database, time)
    for (let index = 0; index < 2; index++) startProcess(database, time, index, note)
    const moves = scheduleMoves(time, outside, note)
    scheduleUsers(database, time, users, note)
    scheduleFaults(database, time, faults, excused, note)

    await time.runUntil(startMs + faultsEndMs)
    database.awayUntil = 0
    database.lostAnswers = 0
    // Whoever starts looks for what no webhook has brought.
    await time.runUntil(startMs + faultsEndMs + 3 * minute)
    for (const [index, each] of processes.entries()) {
      await kill(database, each)
      startProcess(database, time, index, note)
    }
    const end = startMs + faultsEndMs + restMs
    let pending = 0
    const isOver = async () => {
      const [row] = await database.ask<{ count: number }>(
        `select count(*)::int as count from deliveries where state = 'pending'`,
      )
      pending = row?.count ?? 0
      return pending === 0 && moves.every((move) => isTold(move, outside, users))
    }
    do await time.runUntil(time.now + 10_000)
    while (!(await isOver()) && time.now < end)
    for (const each of processes) each.owner.alive = false
    const broken = await check({ database, time, outside, users, moves, excused, pending })
    return { seed, broken, faults, log }
  }
}

function isTold(move: Move, outside: Outside, users: readonly User[]): boolean {
  return users
    .filter(({ account, leftAt }) => account === move.account && leftAt === undefined)
    .every(({ channel, former }) =>
      outside.posts.some(
        (post) => [channel, former].includes(post.channel) && dealsIn(post).includes(move.deal),
      ),
    )
}

type Note = (who: string, what: string) => number

interface Process {
  owner: Owner
  backend: ReturnType<typeof createBackend>
}
const processes: Process[] = []
/** The messages that Slack has accepted, while their process has not recorded it. */
let unrecorded: Array<{ owner: Owner | undefined; at: number }> = []

function startProcess(database: SimulatedDatabase, time: Time, index: number, note: Note): void {
  const owner: Owner = { name: `process ${index}`, alive: true, frozenUntil: 0 }
  time.as(owner, () => {
    const backend = createBackend({
      database: database.of(owner),
      encryptionKeys: [key],
      addresses,
      dashboard: undefined,
      alone: false,
      log: (event, fields) => {
        note(owner.name, `${event} ${JSON.stringify(fields ?? {})}`)
        if (event !== 'delivery sent') return
        const recorded = unrecorded.find((each) => each.owner === owner)
        unrecorded = unrecorded.filter((each) => each !== recorded)
      },
      times: { ...relayTimes, pollMs: 15_000 },
    })
    processes[index] = { owner, backend }
    void backend.relay.start()
    backend.catchUp.start()
  })
}

async function kill(database: SimulatedDatabase, { owner }: Process): Promise<void> {
  owner.alive = false
  await database.endOf(owner)
}

async function createUsers(database: SimulatedDatabase, time: Time): Promise<User[]> {
  const vault = createVault([key])
  // The set-up is no part of the play: it takes no time.
  const setUp: Owner = { name: 'set-up', alive: true, frozenUntil: 0 }
  const sealed = database.of(setUp)
  const users: User[] = []
  const count = 1 + Math.floor(time.random() * 4)
  const creating = time.as(setUp, async () => {
    for (let n = 1; n <= count; n++) {
      const [row] = await database.ask<{ id: string }>(
        `insert into users default values returning id`,
      )
      if (row === undefined) throw new Error('No user was made.')
      const { id } = row
      const user = {
        id,
        account: 1,
        channel: `C${1 + Math.floor(time.random() * 2)}`,
        cookie: `cookie-${n}`,
      }
      users.push(user)
      const at = new Date(time.now - 10 * minute)
      await storeConnection(
        sealed,
        vault,
        { userId: id, provider: 'hubspot' },
        {
          secrets: {
            accessToken: `hubspot-access-secret-${user.account}-1-1`,
            refreshToken: `r-${n}`,
          },
          accessExpiresAt: new Date(time.now + 25 * minute),
          accountId: String(user.account),
          accountName: 'acme.example',
          accountUserId: null,
          grantId: `${user.account}:${id}`,
          channelId: null,
          channelName: null,
          standIn: false,
        },
        at,
      )
      await connectSlack(sealed, user, at)
      await database.ask(
        `insert into rules (user_id, rule_ids, saved_at) values ($1, '["deal-stage-changed"]', now())`,
        [id],
      )
      await database.ask(
        `insert into sessions (token_hash, user_id, created_at, expires_at)
         values ($1, $2, now(), now() + interval '1 day')`,
        [sha256(user.cookie), id],
      )
    }
  })
  let isDone = false
  void creating.then(() => {
    isDone = true
  })
  await time.runUntil(time.now + minute, () => isDone)
  await creating
  return users
}

async function connectSlack(database: Parameters<typeof storeConnection>[0], user: User, at: Date) {
  await storeConnection(
    database,
    createVault([key]),
    { userId: user.id, provider: 'slack' },
    {
      secrets: { accessToken: 'xoxb-secret-T1' },
      accessExpiresAt: null,
      accountId: 'T1',
      accountName: 'Workspace T1',
      accountUserId: null,
      grantId: 'T1',
      channelId: user.channel,
      channelName: `#${user.channel}`,
      standIn: false,
    },
    at,
  )
}

function scheduleMoves(time: Time, outside: Outside, note: Note): Move[] {
  const count = 3 + Math.floor(time.random() * 30)
  // Some runs are a burst, so that digests are written.
  const spreadMs = time.oneOf([1_000, 10_000, minute, 3 * minute])
  const beginMs = time.between(1_000, 30_000)
  const moves: Move[] = []
  for (let deal = 1; deal <= count; deal++) {
    const move: Move = { deal, account: 1, atMs: 0 }
    moves.push(move)
    const inMs = beginMs + time.random() * spreadMs
    const isLost = time.chance(0.08)
    const isRepeated = time.chance(0.15)
    const delayMs = time.chance(0.1) ? time.between(1_000, 60_000) : time.between(50, 1_500)
    time.after(inMs, undefined, () => {
      move.atMs = Math.floor(time.now)
      outside.deals.set(String(deal), {
        history: [
          { value: 'next', timestamp: new Date(move.atMs).toISOString() },
          { value: 'start', timestamp: '2020-01-01T00:00:00Z' },
        ],
      })
      note(
        'HubSpot',
        `deal ${deal} of account ${move.account} moves${isLost ? '; its webhook is lost' : ''}`,
      )
      if (isLost) return
      const item = stageChange(deal, { portal: move.account, at: move.atMs })
      time.after(delayMs, undefined, () => tell(time, [item], [move], 0))
      if (isRepeated)
        time.after(delayMs + time.random() * 30_000, undefined, () => tell(time, [item], [move], 0))
    })
  }
  return moves
}

/** HubSpot repeats a webhook that is not acknowledged within five seconds. */
function tell(time: Time, items: unknown[], moves: Move[], tries: number): void {
  const { owner, backend } = time.oneOf(processes as [Process, ...Process[]])
  let isOver = false
  const again = () => {
    if (isOver) return
    isOver = true
    time.after(Math.min(2 ** tries * 5_000, minute), undefined, () =>
      tell(time, items, moves, tries + 1),
    )
  }
  if (!owner.alive) {
    again()
    return
  }
  time.after(5_000, undefined, again)
  const arrive = () => {
    // A process that died meanwhile answers nothing.
    void time.as(owner, async () => {
      const answer = await backend.app.request('/webhooks/hubspot', signedWebhook(items))
      if (answer.status !== 204) return again()
      isOver = true
      for (const move of moves) move.acknowledgedAt ??= time.now
    })
  }
  time.after(time.between(1, longestWayMs), owner, arrive)
}

function scheduleUsers(database: SimulatedDatabase, time: Time, users: User[], note: Note): void {
  const setUp: Owner = { name: 'somebody', alive: true, frozenUntil: 0 }
  for (const user of users) {
    const what = time.random()
    const atMs = time.between(20_000, faultsEndMs - minute)
    if (what < 0.15) {
      time.after(atMs, setUp, () => {
        user.former = user.channel
        user.channel = `D${user.channel}`
        note('user', `chooses ${user.channel} instead of ${user.former}`)
        void connectSlack(database.of(setUp), user, new Date(time.now)).catch(() => {
          user.channel = user.former ?? user.channel
        })
      })
    } else if (what < 0.3) {
      const leave = () => {
        const { owner, backend } = time.oneOf(processes as [Process, ...Process[]])
        if (!owner.alive) {
          time.after(3_000, undefined, leave)
          return
        }
        let isAnswered = false
        time.after(20_000, undefined, () => {
          if (!isAnswered && user.leftAt === undefined) leave()
        })
        time.after(1, owner, () => {
          void time.as(owner, async () => {
            const answer = await backend.app.request('/api/slack/disconnect', {
              method: 'DELETE',
              headers: {
                Cookie: `__Host-dealbell=${user.cookie}`,
                Origin: appUrl,
                'Sec-Fetch-Site': 'same-origin',
              },
            })
            if (answer.status !== 204) return
            isAnswered = true
            user.leftAt = time.now
            note('user', `has disconnected ${user.channel}`)
          })
        })
      }
      time.after(atMs, undefined, leave)
    }
  }
}

function drawFaults(time: Time): Fault[] {
  const faults: Fault[] = []
  const count = Math.floor(time.random() * 8)
  for (let n = 0; n < count; n++) {
    const atMs = time.between(1_000, faultsEndMs - 30_000)
    const process = Math.floor(time.random() * 2)
    const what = time.random()
    if (what < 0.3) faults.push({ kind: 'kill', atMs, process, downMs: time.between(500, 20_000) })
    else if (what < 0.5)
      faults.push({ kind: 'freeze', atMs, process, forMs: time.between(500, 40_000) })
    else if (what < 0.6)
      faults.push({ kind: 'database away', atMs, forMs: time.between(2_000, minute) })
    else if (what < 0.7) {
      const share = time.between(0.05, 0.5)
      faults.push({
        kind: 'answers of the database are lost',
        atMs,
        forMs: time.between(1_000, 20_000),
        share,
      })
    } else {
      faults.push({
        kind: 'provider',
        atMs,
        forMs: time.between(1_000, minute),
        provider: time.chance(0.4) ? 'hubspot' : 'slack',
        how: time.oneOf(hows),
        share: time.between(0.2, 1),
      })
    }
  }
  return faults.sort((a, b) => a.atMs - b.atMs)
}

function scheduleFaults(
  database: SimulatedDatabase,
  time: Time,
  faults: readonly Fault[],
  excused: Set<number>,
  note: Note,
): void {
  /** A message that Slack has accepted may come again, if its process cannot record that. */
  const excuse = (owner: Owner | undefined) => {
    for (const each of unrecorded) if (each.owner === owner) excused.add(each.at)
  }
  for (const fault of faults) {
    time.after(time.startMs + fault.atMs - time.now, undefined, () => {
      note('fault', JSON.stringify(fault))
      switch (fault.kind) {
        case 'kill': {
          const running = processes[fault.process]
          if (running === undefined || !running.owner.alive) return
          excuse(running.owner)
          void kill(database, running)
          time.after(fault.downMs, undefined, () => {
            startProcess(database, time, fault.process, note)
          })
          return
        }
        case 'freeze': {
          const running = processes[fault.process]
          excuse(running?.owner)
          if (running !== undefined) running.owner.frozenUntil = time.now + fault.forMs
          return
        }
        case 'database away':
          database.awayUntil = time.now + fault.forMs
          return
        case 'answers of the database are lost':
          database.lostAnswers = fault.share
          time.after(fault.forMs, undefined, () => {
            database.lostAnswers = 0
          })
          return
        default:
      }
    })
  }
}

/** The network between the processes and the providers. */
function fetchFrom(
  time: Time,
  { outside, answer: answerAs }: ReturnType<typeof createOutside>,
  faults: readonly Fault[],
  excused: Set<number>,
  note: Note,
): typeof fetch {
  /** The answer of the outside world to a request. */
  async function answerOf(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url)
    const body = Buffer.from(await request.arrayBuffer())
    return await new Promise((resolve, reject) => {
      let head: ResponseInit = {}
      const response: OutsideResponse = {
        writeHead(status, headers = {}) {
          const pairs = Object.entries(headers).map(([name, value]) => [name, String(value)])
          head = { status, headers: Object.fromEntries(pairs) }
          return response
        },
        end: (text) => resolve(new Response(head.status === 204 ? null : text, head)),
      }
      const incoming = {
        url: pathname + search,
        method: request.method,
        headers: Object.fromEntries(request.headers),
        async *[Symbol.asyncIterator]() {
          yield body
        },
      }
      answerAs(incoming, response).catch(reject)
    })
  }
  return (input, init) =>
    new Promise((resolve, reject) => {
      const request = new Request(input, init)
      const owner = time.current()
      const { pathname } = new URL(request.url)
      const provider = pathname.startsWith('/slack') ? 'slack' : 'hubspot'
      const sinceMs = time.now - time.startMs
      const fault = faults.find(
        (each) =>
          each.kind === 'provider' &&
          each.provider === provider &&
          each.atMs <= sinceMs &&
          sinceMs < each.atMs + each.forMs &&
          time.chance(each.share),
      )
      const how = fault?.kind === 'provider' ? fault.how : undefined
      request.signal.addEventListener('abort', () => reject(request.signal.reason))
      const wayMs = how === 'is slow' ? time.between(1_000, 8_000) : time.between(5, longestWayMs)
      const answer = (response: Response) =>
        time.after(time.between(5, longestWayMs), owner, () => resolve(response))
      time.after(wayMs, undefined, () => {
        if (how === 'refuses') return answer(new Response('busy', { status: 503 }))
        if (how === 'asks for a pause') {
          return answer(
            new Response('{"ok":false,"error":"ratelimited"}', {
              status: 429,
              headers: { 'Retry-After': '3' },
            }),
          )
        }
        if (how === 'answers nonsense' && !pathname.endsWith('chat.postMessage')) {
          return answer(new Response('<html>Sorry', { headers: { 'Content-Type': 'text/html' } }))
        }
        if (how === 'hangs') return
        const before = outside.posts.length
        void answerOf(request).then((response) => {
          if (outside.posts.length > before) {
            const post = outside.posts[before]
            note(
              'Slack',
              `${post?.channel} gets ${post && dealsIn(post).join()} from ${owner?.name}`,
            )
            unrecorded.push({ owner, at: before })
            // The process does not learn in time that Slack has the message.
            if (
              how === 'loses the answer' ||
              how === 'is slow' ||
              owner?.alive === false ||
              (owner?.frozenUntil ?? 0) > time.now
            ) {
              excused.add(before)
            }
          }
          if (how === 'loses the answer') {
            time.after(10, owner, () => reject(new TypeError('fetch failed')))
          } else answer(response)
        })
      })
    })
}

/** What must hold. @returns what does not. */
async function check({
  database,
  time,
  outside,
  users,
  moves,
  excused,
  pending,
}: {
  database: SimulatedDatabase
  time: Time
  outside: Outside
  users: readonly User[]
  moves: readonly Move[]
  excused: ReadonlySet<number>
  pending: number
}): Promise<string[]> {
  const broken: string[] = []
  const posts = outside.posts.map((post, at) => ({ ...post, at, deals: dealsIn(post) }))
  const startMs = time.startMs
  if (pending > 0) {
    const rows = await database.ask(
      `select id, user_id, channel, state, reason, attempts, not_before, sending_until from deliveries where state = 'pending'`,
    )
    broken.push(`After half an hour, ${pending} are pending: ${JSON.stringify(rows)}`)
  }
  const dead = await database.ask<{ reason: string; channel: string; user_id: string }>(
    `select reason, channel, user_id from deliveries where state = 'dead'`,
  )
  for (const { reason, user_id } of dead) {
    if (users.find(({ id }) => id === user_id)?.leftAt === undefined)
      broken.push(`A delivery is dead: ${reason}`)
  }
  for (const move of moves) {
    for (const user of users.filter(({ account }) => account === move.account)) {
      const places = [user.channel, user.former].filter((each) => each !== undefined)
      const told = posts.filter(
        (post) => places.includes(post.channel) && post.deals.includes(move.deal),
      )
      const here = `deal ${move.deal} in ${places.join(' or ')}`
      if (told.length === 0 && user.leftAt === undefined) broken.push(`${here} is lost`)
      // Another user of the channel may have it, too, if this one came from another channel.
      const isAlone =
        users.filter(
          (other) =>
            other !== user &&
            (places.includes(other.channel) || places.includes(other.former ?? '')),
        ).length === 0
      if (told.length > 1 && (isAlone || user.former === undefined)) {
        const unexcused = told.slice(0, -1).filter(({ at }) => !excused.has(at))
        const inChannel = Map.groupBy(told, ({ channel }) => channel)
        const repeats = isAlone
          ? unexcused
          : [...inChannel.values()]
              .flatMap((some) => some.slice(0, -1))
              .filter(({ at }) => !excused.has(at))
        if (repeats.length > 0) broken.push(`${here} is told ${told.length} times`)
      }
    }
  }
  // Order, for channels with one user.
  for (const user of users) {
    if (
      users.some(
        (other) =>
          other !== user && (other.channel === user.channel || other.former === user.channel),
      )
    )
      continue
    const own = posts.filter(({ channel }) => channel === user.channel)
    const first = new Map<number, { atMs: number; index: number }>()
    for (const post of own)
      for (const [index, deal] of post.deals.entries()) {
        if (!first.has(deal)) first.set(deal, { atMs: post.atMs, index })
      }
    const told = moves.filter(({ deal }) => first.has(deal))
    for (const earlier of told)
      for (const later of told) {
        const [a, b] = [first.get(earlier.deal), first.get(later.deal)]
        if (a === undefined || b === undefined || earlier.atMs >= later.atMs) continue
        const isKnown =
          earlier.acknowledgedAt !== undefined && earlier.acknowledgedAt - startMs < b.atMs - 20_000
        if (isKnown && (a.atMs > b.atMs || (a.atMs === b.atMs && a.index > b.index))) {
          broken.push(`deal ${later.deal} comes before deal ${earlier.deal} in ${user.channel}`)
        }
      }
  }
  // Pace.
  for (const some of Map.groupBy(posts, ({ channel }) => channel).values()) {
    for (const [index, post] of some.slice(1).entries()) {
      const gapMs = post.atMs - (some[index]?.atMs ?? 0)
      if (
        gapMs < 1_000 - longestWayMs &&
        !excused.has(post.at) &&
        !excused.has(some[index]?.at ?? -1)
      ) {
        broken.push(`${post.channel} gets two messages within ${Math.round(gapMs)} ms`)
      }
    }
  }
  for (const user of users) {
    const { leftAt } = user
    if (leftAt === undefined) continue
    const stays = users.some(
      (other) =>
        other !== user && (other.channel === user.channel || other.former === user.channel),
    )
    const late = posts.find((post) => post.channel === user.channel && post.atMs > leftAt - startMs)
    if (late !== undefined && !stays)
      broken.push(`${user.channel} gets a message after the disconnect`)
  }
  return broken
}
