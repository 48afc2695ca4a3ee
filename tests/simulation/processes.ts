import { createBackend } from '../../server/backend.ts'
import { logTo } from '../../server/log.ts'
import { addressIds, mainSettingOf } from '../../server/providers/registry.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { appUrl, clientSecret } from '../relay/hubspot-webhook.ts'
import { pipedrivePath } from '../relay/pipedrive-outside.ts'
import { base } from './chats.ts'
import type { SimulatedDatabase, Step } from './database.ts'
import { type Fault, type Moment, moments } from './faults.ts'
import type { Plan } from './plan.ts'
import type { Owner, Time } from './time.ts'
import type { Note, World } from './world.ts'

// The processes of the server, and what happens to them and to their database: they die and start again,
// they stand still, statements or their answers get lost.

export const pipedriveSecret = 'pipedrive-client-secret'
export const key = Buffer.alloc(32, 7)
const addresses = parseEnv({
  HUBSPOT_CLIENT_ID: 'hubspot-client',
  HUBSPOT_CLIENT_SECRET: clientSecret,
  HUBSPOT_API_URL: `${base}/hubspot`,
  PIPEDRIVE_CLIENT_ID: 'pipedrive-client',
  PIPEDRIVE_CLIENT_SECRET: pipedriveSecret,
  PIPEDRIVE_API_URL: `${base}${pipedrivePath}`,
  SLACK_CLIENT_ID: 'slack-client',
  SLACK_CLIENT_SECRET: 'slack-client-secret',
  SLACK_API_URL: `${base}/slack/api`,
  ...Object.fromEntries(addressIds.map((id) => [mainSettingOf(id), base])),
  APP_URL: appUrl,
}).addressesAt(1)
const longestAnswerMs = 10_000
/** The most rows of one transaction that stores events (`maxRowsAtOnce` in store.ts), and those of one more event. */
const mostRows = 2_030

interface Process {
  owner: Owner
  backend: ReturnType<typeof createBackend>
}

/** A time in which a fault disturbed processes or database. */
interface Disturbance {
  from: number
  until: number
}

const known = new Map<string, ReadonlySet<Moment>>()
/** What a statement is. There are few texts, so each is looked at once. */
export function momentsOf(sql: string): ReadonlySet<Moment> {
  let own = known.get(sql)
  if (own === undefined) {
    const plain = sql.replaceAll('"', '').replace(/\s+/g, ' ')
    // The type of Object.keys does not keep the names of the keys.
    const all = Object.keys(moments) as Moment[]
    own = new Set(all.filter((moment) => moments[moment](plain)))
    known.set(sql, own)
  }
  return own
}

export function createProcesses({
  time,
  database,
  plan,
  world,
  faults,
  note,
  broke,
}: {
  time: Time
  database: SimulatedDatabase
  plan: Plan
  world: World
  faults: readonly Fault[]
  note: Note
  broke: (rule: string) => void
}) {
  const processes: Process[] = []
  const disturbances: Disturbance[] = []
  const times = { ...relayTimes, pollMs: 1_000 }
  /** The kinds of moments that have come. */
  const seen = new Set<Moment>()

  let starts = 0
  function start(index: number): void {
    starts++
    const owner: Owner = { name: `process ${index}`, alive: true, frozenUntil: 0 }
    time.as(owner, () => {
      const backend = createBackend({
        database: database.of(owner),
        encryptionKeys: [key],
        addresses,
        dashboard: undefined,
        alone: false,
        log: logTo((_level, event, fields) => {
          note(owner.name, `${event} ${JSON.stringify(fields ?? {})}`)
          // Only what a simulated failure of the database causes may fail. All else is a bug of ours.
          const { error, code } = { ...fields }
          if (error !== undefined && code !== 'ECONNRESET')
            broke(`${owner.name} meets ${error}: ${event}`)
        }),
        times,
      })
      const chat = backend.providers[plan.chat]
      Object.assign(chat, { pace: { ...chat.pace, ...plan.pace } })
      processes[index] = { owner, backend }
      void backend.relay.start()
      backend.catchUp.start()
      backend.checks.start()
    })
  }

  function disturb(forMs: number): void {
    disturbances.push({ from: time.now, until: time.now + forMs })
  }

  function kill(index: number, downMs: number): void {
    const owner = processes[index]?.owner
    if (owner === undefined || !owner.alive) return
    note('fault', `${owner.name} dies`)
    world.excuse((post) => post.owner === owner)
    owner.alive = false
    database.endOf(owner)
    disturb(downMs)
    time.after(downMs, undefined, () => {
      start(index)
      note('fault', `${owner.name} starts again`)
    })
  }

  function freeze(index: number, forMs: number): void {
    const owner = processes[index]?.owner
    if (owner === undefined || !owner.alive) return
    note('fault', `${owner.name} stands still for ${forMs} ms`)
    world.excuse((post) => post.owner === owner)
    owner.frozenUntil = Math.max(owner.frozenUntil, time.now + forMs)
    disturb(forMs)
  }

  const left = new Map<Fault, number>()
  for (const fault of faults) {
    if (typeof fault.at !== 'number') {
      left.set(fault, fault.at.nth)
      continue
    }
    time.after(fault.at, undefined, () => {
      if (fault.kind === 'kill') kill(fault.process, fault.forMs)
      else if (fault.kind === 'freeze') freeze(fault.process, fault.forMs)
      else {
        note('fault', JSON.stringify(fault))
        if (fault.kind === 'clock') {
          world.setClock(0)
          time.clockRightAt = time.now
          disturb(0)
        }
        if ('forMs' in fault && !('only' in fault || 'deals' in fault)) disturb(fault.forMs)
        if (fault.kind === 'database away') {
          database.awayUntil = time.now + fault.forMs
          time.after(fault.forMs, undefined, () => {
            // Nobody could record it while the claim lasted.
            world.excuse(({ at }) => time.now - at > 8_000)
          })
        }
        if (fault.kind === 'lost answers') {
          database.lostAnswers = fault.share
          time.after(fault.forMs, undefined, () => {
            database.lostAnswers = 0
          })
        }
      }
    })
  }

  let rowsBefore = 0
  const rows = () =>
    database.ask<{ count: number }>('select count(*)::int as count from deliveries')[0]?.count ?? 0

  database.onStep = ({ owner, sql, parameters, when, rows: found }: Step) => {
    const is = momentsOf(sql)
    if (when === 'after') {
      for (const moment of is) seen.add(moment)
      for (const moment of ['next', 'claim'] as const) {
        if (!is.has(moment)) continue
        const channel = parameters.find((each) =>
          /^(T\d|[a-z-]+:[\w.-]+)\/[\w-]+$/.test(String(each)),
        )
        world.step(owner, moment, String(channel))
      }
      if (is.has('pause')) {
        for (const pause of world.pauses) {
          if (pause.owner === owner) pause.storedAt ??= time.now
        }
      }
    }
    if (is.has('store') && plan.users.length > 20) {
      if (when === 'before') rowsBefore = rows()
      else if (rows() - rowsBefore > mostRows)
        broke(`one transaction adds ${rows() - rowsBefore} rows`)
    }
    if (time.now - time.startMs > plan.endMs) return
    for (const [fault, nth] of left) {
      if (typeof fault.at === 'number' || fault.at.when !== when) continue
      if (!is.has(fault.at.moment)) continue
      // Most looks for channels that are due find none.
      if (fault.at.moment === 'lease' && found === 0) continue
      left.set(fault, nth - 1)
      if (nth !== 1) continue
      note('fault', `${when} a statement '${fault.at.moment}' of ${owner.name}: ${fault.kind}`)
      const index = processes.findIndex((each) => each.owner === owner)
      if (fault.kind === 'kill') kill(index, fault.forMs)
      if (fault.kind === 'freeze') freeze(index, fault.forMs)
      if (fault.kind === 'lose answer') {
        disturb(0)
        return 'lose'
      }
    }
    return
  }

  /** Makes a request to a process. @returns undefined if no answer comes. */
  function request(
    index: number,
    path: string,
    init: RequestInit,
    withinMs = longestAnswerMs,
  ): Promise<Response | undefined> {
    const way = () => time.dice.between(1, 40)
    return new Promise((resolve) => {
      time.after(withinMs, undefined, () => resolve(undefined))
      time.after(way(), undefined, () => {
        const process = processes[index]
        if (process === undefined || !process.owner.alive) return resolve(undefined)
        const { owner, backend } = process
        time.after(0, owner, async () => {
          const answer = await backend.app.request(path, init)
          time.after(way(), owner, () => resolve(answer))
        })
      })
    })
  }

  return {
    times,
    disturbances,
    seen,
    /** How many processes have been started. */
    started: () => starts,
    start,
    kill,
    request,
    end() {
      for (const { owner } of processes) owner.alive = false
    },
  }
}

export type Processes = ReturnType<typeof createProcesses>
