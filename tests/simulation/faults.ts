import type { ChatId } from '../../server/providers/registry.ts'
import type { Dice } from './time.ts'

// What fails in a run: processes, their database, and the providers. A fault strikes at a time, or right before or
// after a statement where a fault does the most harm. Nothing here depends on what happens during the run.

export const second = 1_000
export const minute = 60 * second

/** Statements after or before which a fault is dangerous. */
export const moments = {
  claim: (sql: string) => sql.includes('for share') && sql.includes('sending_until'),
  record: (sql: string) => /update deliveries set state = 'sent'/.test(sql),
  lease: (sql: string) => sql.includes('update channels') && sql.includes('skip locked'),
  store: (sql: string) => sql.includes('insert into deal_events'),
  move: (sql: string) => /update deliveries set channel/.test(sql),
  next: (sql: string) => sql.startsWith('select') && /deliveries.*next_at/.test(sql),
  pause: (sql: string) => sql.startsWith('insert into channels (id, next_at'),
  any: () => true,
} satisfies Record<string, (sql: string) => boolean>
export type Moment = keyof typeof moments

const chatHows = [
  'is slow',
  'loses the answer',
  'hangs',
  'refuses',
  'asks for a pause',
  // Twice, so that it is drawn more often.
  'answers nonsense',
  'answers nonsense',
] as const
const crmHows = [
  ...chatHows,
  'moves the account',
  'refuses the token',
  'answers as a proxy',
] as const
export type How =
  | (typeof crmHows)[number]
  | 'refuses once'
  /** With a code that nobody knows: the messages about one deal, their richer form, the webhook, or by its server. */
  | 'refuses a deal'
  | 'refuses a rich deal'
  | 'refuses the webhook'
  | 'fails unheard'
  /** Of messages about some deals, it loses each answer. */
  | 'loses the answers of a deal'
  /** Its server fails at some deals: at messages about them, or at reads of one of them. */
  | 'fails at a deal'
  /** Its server fails at the changelogs of some deals. */
  | 'fails at a changelog'

export type Fault =
  /** A process dies or stands still, at a time or around the nth statement of a kind. */
  | { kind: 'kill' | 'freeze'; at: number | Around; process: number; forMs: number }
  | { kind: 'lose answer'; at: Around }
  /** Until then, the clock of processes and database is ahead. */
  | { kind: 'clock'; at: number; aheadMs: number }
  | { kind: 'database away'; at: number; forMs: number }
  | { kind: 'lost answers'; at: number; forMs: number; share: number }
  | {
      kind: 'chat' | 'crm'
      at: number
      forMs: number
      how: How
      share: number
      /** How long the provider asks us to wait. */
      pauseS: number
      /** A channel of the chat or a user's token of HubSpot; undefined: all. */
      only?: string
      /** What is about other deals is not concerned. */
      deals?: readonly number[]
    }
interface Around {
  moment: Moment
  nth: number
  when: 'before' | 'after'
}

/** Some runs are about one danger that seldom comes by chance. */
const themes = ['lost lease', 'stall', 'pause', 'leaving', 'bulk'] as const
export type Theme = (typeof themes)[number] | 'none'

export function themeOf(dice: Dice): Theme {
  const what = dice.random()
  if (what < 0.02) return 'bulk'
  if (what < 0.05) return 'pause'
  if (what < 0.12) return 'lost lease'
  if (what < 0.19) return 'stall'
  return what < 0.26 ? 'leaving' : 'none'
}

/** What the parts of a plan are drawn from. */
export interface Between {
  dice: Dice
  theme: Theme
  chat: ChatId
  processes: number
  users: readonly object[]
  channels: readonly [string, ...string[]]
  endMs: number
  eventsMs: number
}

export function drawFaults(between: Between): Fault[] {
  const { dice, theme, channels, eventsMs, endMs } = between
  const most = theme === 'none' || theme === 'leaving' ? 5 : 1
  const faults = Array.from({ length: dice.whole(0, most) }, () => drawFault(between))
  const atClaim = { moment: 'claim', nth: dice.whole(1, 4), when: 'after' } as const
  const provider = { share: 1, pauseS: 20 } as const
  switch (theme) {
    case 'stall':
      // It goes on while another process sends what it had claimed.
      faults.push({ kind: 'freeze', at: atClaim, process: 0, forMs: dice.between(21_000, 30_000) })
      if (dice.chance(0.7)) {
        faults.push({ kind: 'chat', at: 15_000, forMs: 45_000, how: 'is slow', ...provider })
      }
      break
    case 'lost lease': {
      // While a process works on a channel that hangs, it renews its leases.
      const [only] = channels
      faults.push({ kind: 'chat', at: 0, forMs: endMs + minute, how: 'hangs', only, ...provider })
      for (const nth of [2, dice.whole(3, 6)]) {
        faults.push({ kind: 'lose answer', at: { moment: 'lease', nth, when: 'after' } })
      }
      break
    }
    case 'pause': {
      const pauseS = dice.oneOf([20, 9_999_999_999])
      const forMs = dice.between(1, 4) * second
      const at = dice.between(0, eventsMs)
      faults.push({ kind: 'chat', at, forMs, how: 'asks for a pause', share: 1, pauseS })
      break
    }
    default:
  }
  return faults.sort((a, b) => startOf(a) - startOf(b))
}

/** Slack was down for so long on 2025-02-26. */
export const outage: Fault = {
  kind: 'chat',
  at: 2 * second,
  forMs: 9 * 60 * minute,
  how: 'refuses',
  share: 1,
  pauseS: 0,
}

/** In some runs, a provider refuses one call by mistake. It breaks nothing. */
export function drawMistake(dice: Dice, { eventsMs }: Pick<Between, 'eventsMs'>): Fault[] {
  if (dice.chance(0.6)) return []
  const kind = dice.oneOf<'chat' | 'crm'>(['chat', 'crm'])
  const at = dice.between(0, eventsMs + 5 * second)
  return [{ kind, at, forMs: minute, how: 'refuses once', share: 1, pauseS: 0 }]
}

/**
 * In runs with a search, the changelogs of one or two deals cannot be read: of the first ones that it must find in an
 * account. After three, it would end.
 */
export function drawChangelogs(
  dice: Dice,
  lost: ReadonlyArray<{ deal: number; account: number; at: number }>,
): Fault[] {
  const [first, ...others] = lost.toSorted((a, b) => a.at - b.at)
  if (first === undefined) return []
  const own = [first, ...others.filter(({ account }) => account === first.account)]
  const some = own.slice(0, dice.whole(1, 2)).map(({ deal }) => deal)
  const of = { kind: 'crm', how: 'fails at a changelog', share: 1, pauseS: 0 } as const
  return [{ ...of, at: 0, forMs: 180 * minute, deals: some }]
}

/** In some runs, the chat fails with a code that nobody knows. */
export function drawUnknown(
  dice: Dice,
  {
    chat,
    moves,
    endMs,
    eventsMs,
  }: Pick<Between, 'chat' | 'endMs' | 'eventsMs'> & {
    moves: readonly { deal: number; at: number }[]
  },
): Fault[] {
  if (dice.chance(0.65)) return []
  const how = dice.oneOf<How>([
    'refuses a deal',
    'refuses a rich deal',
    // More often: only this one lasts in each chat.
    'fails at a deal',
    'fails at a deal',
    'fails at a deal',
    'fails at a deal',
    'refuses the webhook',
    'fails unheard',
  ])
  const of = { kind: 'chat', how, share: 1, pauseS: 0 } as const
  if (!how.endsWith(' deal')) {
    return [{ ...of, at: dice.between(0, eventsMs), forMs: dice.between(1, 15) * second }]
  }
  // The others of its channel are watched after all other faults.
  // A chat that cannot be asked whether it works lets others pass only one by one.
  const isAsked = !['microsoft-teams', 'google-chat'].includes(chat)
  const isMany = how === 'fails at a deal' && isAsked
  const inTime = moves.toSorted((a, b) => a.at - b.at).map(({ deal }) => deal)
  // The last ones can be sent. They would wait for those before them.
  const deals = isMany
    ? inTime.slice(0, Math.max(3, Math.min(12, moves.length - dice.whole(1, 3))))
    : [dice.oneOf(inTime as [number, ...number[]])]
  const kind = isMany && dice.chance(0.4) ? 'crm' : 'chat'
  // The relay asks for the first deal whether the CRM works.
  const others = kind === 'crm' ? deals.filter((deal) => deal !== 1) : deals
  return [{ ...of, kind, at: 0, forMs: endMs + 3 * minute, deals: others }]
}

/** In some runs, a chat that knows no ids posts each message about a deal, and its answer is lost. */
export function drawLost(
  dice: Dice,
  { moves, endMs }: Pick<Between, 'endMs'> & { moves: readonly { deal: number }[] },
): Fault[] {
  if (dice.chance(0.5)) return []
  const { deal } = dice.oneOf(moves as [{ deal: number }, ...{ deal: number }[]])
  const of = { kind: 'chat', how: 'loses the answers of a deal', share: 1, pauseS: 0 } as const
  return [{ ...of, at: 0, forMs: endMs + 3 * minute, deals: [deal] }]
}

function drawFault({ dice, processes, users, channels, eventsMs, endMs }: Between): Fault {
  const at = dice.between(0, eventsMs + 5 * second)
  const process = dice.whole(0, processes - 1)
  const around: Around = {
    moment: dice.oneOf(['any', 'claim', 'claim', 'record', 'lease', 'lease', 'store', 'move']),
    nth: dice.whole(1, 6),
    when: dice.oneOf(['before', 'after']),
  }
  if (around.moment === 'any') around.nth = dice.whole(1, 150)
  const anywhere = dice.oneOf<number | Around>([at, around, around])
  const what = dice.random()
  if (what < 0.15) {
    const forMs = dice.oneOf([200, 5 * second, 15 * second])
    return { kind: 'kill', at: anywhere, process, forMs }
  }
  if (what < 0.3) {
    const forMs = dice.oneOf([2, dice.between(8, 14), dice.between(15, 40)]) * second
    return { kind: 'freeze', at: anywhere, process, forMs }
  }
  if (what < 0.45) return { kind: 'lose answer', at: around }
  if (what < 0.52) {
    return { kind: 'database away', at, forMs: dice.oneOf([1, 8, 30, 180]) * second }
  }
  const forMs = dice.between(1, 15) * second
  if (what < 0.58) return { kind: 'lost answers', at, forMs, share: 0.3 }
  const share = dice.oneOf([0.5, 1])
  const pauseS = dice.oneOf([2, 8, 20])
  if (what < 0.75) return { kind: 'chat', at, forMs, how: dice.oneOf(chatHows), share, pauseS }
  if (what < 0.8) {
    // One channel of the chat answers slowly or never, for longer than anything else fails.
    const how = dice.oneOf<How>(['is slow', 'hangs'])
    const only = dice.oneOf(channels)
    return { kind: 'chat', at, forMs: endMs + minute, how, share: 1, pauseS, only }
  }
  const only = dice.chance(0.3) && { only: `-${dice.whole(1, users.length)}-` }
  return { kind: 'crm', at, forMs, how: dice.oneOf(crmHows), share, pauseS, ...only }
}

const startOf = ({ at }: Fault) => (typeof at === 'number' ? at : 0)
