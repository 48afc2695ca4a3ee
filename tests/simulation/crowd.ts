import { sealSecrets } from '../../server/people/connections.ts'
import { sha256 } from '../../server/people/cookies.ts'
import { createVault } from '../../server/people/vault.ts'
import { makeDue } from '../../server/relay/schedule/channels.ts'
import { appUrl, dealsIn, signedWebhook, stageChange } from '../relay/hubspot-webhook.ts'
import type { SimulatedDatabase } from './database.ts'
import { type Fault, minute, second } from './faults.ts'
import type { Plan } from './plan.ts'
import { createProcesses, key, momentsOf } from './processes.ts'
import { Time } from './time.ts'
import { createUsers } from './users.ts'
import { createWorld, type Note } from './world.ts'

// A crowd waits, or fails, or floods. What it costs the others must not grow with it. Each scene is played beside a
// small crowd and beside a large one, in the virtual time of the simulation, and the figures of both are compared.

/** What a crowd costs the others: times in virtual ms, and numbers. None may grow with the crowd. */
type Figures = Readonly<Record<string, number>>

/** So much more than twice as much is chance: the dice decide how long each call takes. */
const chance = { ms: 300, rows: 2_000, other: 20 }

/** A message that comes with the others of a burst may wait for some of them. */
const inBurst = { 'ms to the last message': 2 * second }

/** Whoever the crowd must not disturb: each has an account, a workspace and a channel. */
const healthyUsers = 9
/** 2,000 rows keep PGlite busy for 60 to 70 ms. */
const rowMs = 0.03

/** It does not answer those whose token has this part. */
const hubspotHangs: Fault = {
  kind: 'crm',
  at: 0,
  forMs: 60 * minute,
  how: 'hangs',
  share: 1,
  pauseS: 0,
  only: 'away',
}

interface CrowdUser {
  account: number
  /** As the relay names it: team/channel. */
  channel: string
  ruleIds?: readonly string[]
  /** How many deliveries wait. */
  deliveries: number
  /** Part of the user's token of HubSpot, so that a fault can name it. */
  token?: string
}

/** The crowd's deliveries all wait until this time. Undefined: none waits. */
interface Waiting {
  putOffMs?: number
  /** The stage of each user's first change. The others are about 'next'. */
  firstStage?: string
}

type Stage = Awaited<ReturnType<typeof setUp>>

export const scenes = {
  /** A data centre of HubSpot is away for an hour, and all its channels wait for their next try. */
  waiting: {
    sizes: [50, 500, 3_000],
    async play({ time, add, tellHealthy, countIn }, size) {
      await add(each(size, { deliveries: 1 }), { putOffMs: 10 * minute })
      await time.runUntil(time.now + 20 * second)
      return { ...(await countIn(minute)), ...(await tellHealthy()) }
    },
    limits: { looks: 0 },
  },
  /** The ticked rules of one user need only the first of very many changes. */
  skipped: {
    sizes: [500, 5_000, 50_000],
    async play({ time, add, tellHealthy, postedAt, end }, size) {
      const begun = time.now
      const user = { account: 1_000, channel: 'X1/C1', ruleIds: ['deal-closed'], deliveries: size }
      await add([user], { firstStage: 'w1' })
      const healthy = await tellHealthy()
      await end()
      return { ...healthy, 'ms to its own message': (postedAt(dealOf(0, 1)) ?? Infinity) - begun }
    },
  },
  /** One account of a hundred tells of very much, in very many channels. */
  flood: {
    sizes: [10, 100, 600],
    async play({ time, add, tell, tellHealthy }, size) {
      const one = { account: 1_000, deliveries: 1 }
      await add(each(size, one, (n) => ({ channel: `X1/C${n}` })))
      await add([{ account: 2_000, channel: 'X2/C1', deliveries: 0 }])
      for (let n = 0; n < size; n++) {
        const deals = Array.from({ length: 100 }, (_, at) => 1e6 + n * 100 + at)
        void tell(2_000, deals, time.now)
      }
      return await tellHealthy()
    },
    limits: { ...inBurst, 'ms to a message': second },
  },
  /** The chat refuses every message with blocks in some channels. */
  refused: {
    sizes: [10, 150, 200],
    async play({ time, world, add, tellHealthy }, size) {
      const { outside } = world
      const usual = outside.answerPost
      let digests = 0
      outside.answerPost = (post) => {
        if (!post.token.includes('-X') || post.blocks === '') return usual(post)
        if (dealsIn(post).length > 1) digests++
        return { status: 200, body: JSON.stringify({ ok: false, error: 'invalid_blocks' }) }
      }
      await add(each(size, { deliveries: 30 }))
      const healthy = await tellHealthy()
      await time.runUntil(time.now + 6 * second)
      return { ...healthy, 'digests refused in 100 channels': (100 * digests) / size }
    },
    limits: { ...inBurst, 'digests refused in 100 channels': 100 },
  },
  /** A data centre of HubSpot does not answer. The channels of its accounts are tried all the time. */
  away: {
    sizes: [50, 1_000, 1_500],
    faults: [hubspotHangs],
    async play({ time, add, tellHealthy }, size) {
      await add(each(size, { deliveries: 1, token: 'away' }))
      // The first tries of all: only what has failed is known to fail.
      await time.runUntil(time.now + 11 * second * Math.ceil(size / 500))
      return await tellHealthy()
    },
  },
  /** HubSpot does not answer one account, which has very many channels. */
  oneAway: {
    sizes: [50, 500, 1_500],
    faults: [hubspotHangs],
    async play({ add, tellHealthy }, size) {
      await add(each(size, { account: 1_000, deliveries: 1, token: 'away' }))
      return await tellHealthy()
    },
    limits: inBurst,
  },
  /** A user disconnects, for whom very much waits. */
  disconnect: {
    sizes: [500, 5_000, 50_000],
    async play({ time, add, call, tellHealthy, posts, end }, size) {
      const user = { account: 1_000, channel: 'X1/C1', deliveries: size }
      await add([user], { putOffMs: 10 * minute })
      await time.runUntil(time.now + 5 * second)
      const begun = time.now
      const answered = call(0, '/api/slack/disconnect', 'DELETE').then(() => time.now - begun)
      const healthy = await tellHealthy()
      await end()
      return {
        ...healthy,
        'ms to the answer': await answered,
        'posts to who left': posts('X1').length,
      }
    },
    limits: { 'ms to the answer': second, 'posts to who left': 0 },
  },
} satisfies Record<
  string,
  {
    /** A small crowd, a large one, and a very large one. */
    sizes: readonly [number, number, number]
    faults?: readonly Fault[]
    play: (stage: Stage, size: number) => Promise<Figures>
    /** What these figures may be beside any crowd. */
    limits?: Figures
  }
>

export type Scene = keyof typeof scenes

/** Plays a scene beside a small crowd and a large one. @returns what has grown, and all figures. */
export async function playCrowd(
  database: SimulatedDatabase,
  scene: Scene,
  { isLarge = false } = {},
): Promise<{ broken: string[]; figures: readonly [Figures, Figures] }> {
  const { sizes, limits = {} }: { sizes: readonly [number, number, number]; limits?: Figures } =
    scenes[scene]
  const [few, many, most] = sizes
  const small = await figuresOf(database, scene, few)
  const large = await figuresOf(database, scene, isLarge ? most : many)
  const broken = Object.entries(large).flatMap(([name, figure]) => {
    const before = small[name] ?? 0
    const [unit] = name.split(' ')
    const growth = 2 * before + (unit === 'ms' || unit === 'rows' ? chance[unit] : chance.other)
    if (figure <= (limits[name] ?? growth)) return []
    return [
      `${scene}: ${name}: ${Math.round(before)} beside few, ${Math.round(figure)} beside many`,
    ]
  })
  return { broken, figures: [small, large] }
}

async function figuresOf(
  database: SimulatedDatabase,
  scene: Scene,
  size: number,
): Promise<Figures> {
  const time = new Time(Date.UTC(2030, 0, 1), 1)
  const realFetch = globalThis.fetch
  const { play, ...chosen } = scenes[scene]
  time.install()
  try {
    const stage = await setUp(database, time, 'faults' in chosen ? chosen.faults : [])
    try {
      const figures = await play(stage, size)
      stage.check()
      return { ...figures, 'rows of a statement': database.mostRows }
    } finally {
      stage.processes.end()
    }
  } finally {
    time.uninstall()
    globalThis.fetch = realFetch
  }
}

/** Users of accounts and channels of their own. */
function each(
  size: number,
  user: Omit<CrowdUser, 'account' | 'channel'> & { account?: number },
  more: (n: number) => Partial<CrowdUser> = () => ({}),
): CrowdUser[] {
  return Array.from({ length: size }, (_, n) => ({
    account: 1_000 + n,
    channel: `X${n}/C1`,
    ...user,
    ...more(n),
  }))
}

/** The nth deal of a user of the crowd. */
const dealOf = (user: number, n: number) => 10_000_000 + user * 100_000 + n

async function setUp(database: SimulatedDatabase, time: Time, faults: readonly Fault[]) {
  database.countChanges()
  database.reset(time)
  const plan: Plan = {
    seed: 0,
    theme: 'none',
    crm: 'hubspot',
    webhookFaults: [],
    shortFrom: undefined,
    tellsDay: false,
    processes: 1,
    users: Array.from({ length: healthyUsers }, (_, n) => ({
      account: n + 1,
      channel: `H${n + 1}/C1`,
      ruleIds: ['deal-stage-changed'],
      tokenLastsMs: 25 * minute,
    })),
    moves: [],
    webhooks: [],
    acts: [],
    faults,
    endMs: 0,
    searchMs: undefined,
    searchesAtStart: false,
    aheadMs: 0,
    indexLagMs: 0,
    callLimit: 100,
    knowsIds: true,
    chat: 'slack',
    pace: undefined,
  }
  const broken: string[] = []
  const log: string[] = []
  const note: Note = (who, what) => log.push(`${time.now - time.startMs} ${who}: ${what}`)
  const broke = (rule: string) => broken.push(rule)
  const world = createWorld({ time, database, plan, note })
  globalThis.fetch = world.fetch(faults)
  await createUsers(database, time, plan)
  const processes = createProcesses({ time, database, plan, world, faults, note, broke })
  let looks = 0
  const known = database.onStep
  database.onStep = (step) => {
    if (step.when === 'before' && momentsOf(step.sql).has('next')) looks++
    return known(step)
  }
  processes.start(0)
  // The search at the start knows only the healthy accounts.
  await time.runUntil(time.now + 10 * second)
  if (looks > 0) throw new Error('There is something to do before there is a crowd.')
  database.slowStatements = 0
  database.rowMs = rowMs
  database.mostRows = 0

  let told = 0
  const vault = createVault([key])
  const idOf = (n: number) => `10000000-0000-4000-8000-${String(n).padStart(12, '0')}`
  let added = 0

  /** Stores users of the crowd and their deliveries, and makes all their channels due. */
  async function add(users: readonly CrowdUser[], { putOffMs, firstStage = 'next' }: Waiting = {}) {
    const rows = users.map(({ token = '', ruleIds = ['deal-stage-changed'], ...user }) => {
      const n = added++
      const userId = idOf(n)
      const [team = '', chat = ''] = user.channel.split('/')
      const seal = (provider: 'hubspot' | 'slack', accessToken: string) =>
        sealSecrets(vault, { userId, provider }, { accessToken })
      return {
        ...user,
        n,
        id: userId,
        team,
        chat,
        rules: ruleIds,
        session: sha256(`crowd-${n}`),
        crm: seal('hubspot', `hubspot-${token}-${user.account}-${n}-0`),
        slack: seal('slack', `xoxb-secret-${team}-0`),
        first: dealOf(n, 0),
      }
    })
    database.ask(
      `with crowd as materialized (
         select * from json_to_recordset($1::text::json) as crowd(
           n int, id uuid, account text, channel text, team text, chat text, rules jsonb, session text,
           crm text, slack text, deliveries int, first int)
       ), made as (
         insert into users (id, crm, crm_account_id, crm_user_id) select id, 'hubspot', account, n::text from crowd
       ), rule as (
         insert into rules (user_id, rule_ids, saved_at) select id, rules, now() from crowd
       ), session as (
         insert into sessions (token_hash, user_id, created_at, expires_at)
         select session, id, now(), now() + interval '1 day' from crowd
       ), connection as (
         insert into connections (user_id, provider, secrets, access_expires_at, account_id, grant_id, channel_id,
                                  channel_name, connected_at, connected_since)
         select id, provider, secrets, case provider when 'hubspot' then now() + interval '1 day' end, of,
                provider || n, chosen, chosen, now() - interval '1 hour', now() - interval '1 hour'
         from crowd cross join lateral (values ('hubspot', crm, account, null), ('slack', slack, team, chat))
           as each(provider, secrets, of, chosen)
       ), change as (
         insert into deal_events (key, crm, account_id, deal_id, property, value, occurred_at)
         select id || ' ' || at, 'hubspot', account, first + at, 'stage', case at when 1 then $2 else 'next' end,
                now() - interval '5 minutes' + make_interval(secs => at / 1000.0)
         from crowd cross join lateral generate_series(1, deliveries) as at
         returning id, key, occurred_at
       ), delivery as (
         insert into deliveries (event_id, user_id, channel, occurred_at, attempts, not_before)
         select change.id, crowd.id, channel, occurred_at, case when $3::float8 is null then 0 else 3 end,
                now() + make_interval(secs => $3::float8)
         from change join crowd on split_part(key, ' ', 1) = crowd.id::text order by change.id
       )
       select from crowd`,
      [JSON.stringify(rows), firstStage, putOffMs === undefined ? null : putOffMs / second],
    )
    await makeDue(database.direct(), [...new Set(users.map(({ channel }) => channel))])
    database.ask('select sim.forget_changes()')
    database.ask('analyze')
  }

  function tell(account: number, deals: readonly number[], at: number) {
    const items = deals.map((deal) => stageChange(deal, { portal: account, at: Math.floor(at) }))
    return processes.request(0, '/webhooks/hubspot', signedWebhook(items, time.now), minute)
  }

  const postOf = (deal: number) =>
    world.posts.find(({ moves }) => moves.some((move) => move.startsWith(`${deal}:`)))

  /** Tells one change of each healthy user, one after the other. @returns how long the messages need. */
  async function tellHealthy(): Promise<Figures> {
    const begun: Array<{ deal: number; at: number }> = []
    for (let account = 1; account <= healthyUsers; account++) {
      const deal = ++told
      begun.push({ deal, at: time.now })
      void tell(account, [deal], time.now)
      await time.runUntil(time.now + 150)
    }
    const until = time.now + 2 * minute
    while (time.now < until && begun.some(({ deal }) => postOf(deal) === undefined)) {
      await time.runUntil(time.now + 500)
    }
    const times = begun.map(({ deal, at }) => Math.round((postOf(deal)?.at ?? until) - at))
    times.sort((a, b) => a - b)
    return {
      'ms to a message': times[healthyUsers >> 1] ?? 0,
      'ms to the last message': times.at(-1) ?? 0,
    }
  }

  return {
    time,
    world,
    processes,
    add,
    tell,
    tellHealthy,
    postedAt: (deal: number) => postOf(deal)?.at,
    posts: (team: string) => world.posts.filter(({ channel }) => channel.startsWith(`${team}/`)),
    /** The looks and the statements of the time that follows. */
    async countIn(forMs: number): Promise<Figures> {
      const [looksBefore, statements] = [looks, database.statements]
      await time.runUntil(time.now + forMs)
      return { looks: looks - looksBefore, statements: database.statements - statements }
    },
    /** A call of the browser of the nth user of the crowd. */
    async call(n: number, path: string, method: string): Promise<void> {
      const headers = {
        Cookie: `__Host-dealbell-0123abcd=crowd-${n}`,
        Origin: appUrl,
        'Sec-Fetch-Site': 'same-origin',
      }
      const answer = await processes.request(0, path, { method, headers }, minute)
      if (answer?.status !== 204) throw new Error(`${path} answers ${answer?.status}.`)
    },
    /** Resolves when nothing is pending. */
    async end(): Promise<void> {
      for (let n = 0; n < 600; n++) {
        const [pending] = database.ask(`select from deliveries where state = 'pending' limit 1`)
        if (pending === undefined) return
        await time.runUntil(time.now + second)
      }
      throw new Error('The crowd does not end.')
    },
    /** No deal is told twice, and nothing of the server has failed. */
    check(): void {
      const moves = world.posts.flatMap((post) => post.moves)
      if (new Set(moves).size < moves.length) broken.push('a deal is told twice')
      if (looks === 0) broken.push("the simulation no longer knows the statement 'next'")
      if (broken.length > 0) throw new Error(broken.join('\n'))
    },
  }
}
