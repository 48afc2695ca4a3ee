import { setTimeout as delay } from 'node:timers/promises'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, type ServerOptions, startServer } from '../relay/process.ts'

const deals = 2_000
const webhooks = deals / 100
const tellingMs = 10_000
/** HubSpot's limit, in any interval of this length, and how long it takes to answer. */
const limit = { calls: 100, intervalMs: 10_000, answerMs: 200 }
const tooManyCalls = {
  status: 429,
  body: { status: 'error', errorType: 'RATE_LIMIT', policyName: 'TEN_SECONDLY_ROLLING' },
}
/** One user for each. All deals are closed, so each of these rules applies to all of them. */
const ruleIdsOfUsers = [
  ['deal-stage-changed'],
  ['deal-closed'],
  ['deal-closed', 'deal-stage-changed'],
  ['deal-stage-changed', 'deal-stage-changed-orphan'],
  ['deal-closed'],
]
const firstDealOfOther = 1_000_000
const isOfOther = /0-3\/1\d{6}\?/

export interface BulkResult {
  /** The calls to HubSpot for the account with the bulk edit. */
  calls: number
  /** Calls that HubSpot answered with 429. */
  refused: number
  /** For each channel, what its messages say. */
  channels: Array<{ messages: number[][]; doneAfterMs: number }>
  /** From the webhook to the message, for each event of the other account. */
  otherMs: number[]
}

/**
 * 2,000 deals of one account change within ten seconds. Five users have a channel each. Meanwhile, deals
 * of another account change one by one.
 */
export async function runBulk(database: ServerOptions['database']): Promise<BulkResult> {
  const outside = await openOutside()
  const server = await startServer({ outside, database })
  try {
    for (const [n, ruleIds] of ruleIdsOfUsers.entries()) {
      const user = { portal: 1, hubspotUser: n + 1, team: 'T1', channel: `C${n}` }
      await connectAccount(server, { ...user, ruleIds })
    }
    await connectAccount(server, { portal: 2, channel: 'other' })
    for (let deal = 1; deal <= deals; deal += 10) outside.deals.set(String(deal), { linked: false })

    const calledAt: number[] = []
    let calls = 0
    let refused = 0
    outside.answerRead = async (path) => {
      const now = performance.now()
      await delay(limit.answerMs)
      if (isOfOther.test(path)) return undefined
      calls += 1
      while ((calledAt[0] ?? now) <= now - limit.intervalMs) calledAt.shift()
      if (calledAt.length >= limit.calls) {
        refused += 1
        return tooManyCalls
      }
      calledAt.push(now)
      return undefined
    }

    const at = Date.now()
    const started = performance.now()
    const postsIn = (channel: string) => outside.posts.filter((post) => post.channel === channel)
    const said = new Map<string, Set<number>>()
    let posts = 0
    /** The deals that a channel has been told of. Reads only the posts since the last call. */
    function saidIn(channel: string): Set<number> {
      for (const post of outside.posts.slice(posts)) {
        const before = said.get(post.channel) ?? []
        said.set(post.channel, new Set([...before, ...dealsIn(post)]))
      }
      posts = outside.posts.length
      return said.get(channel) ?? new Set()
    }
    const isDone = () => ruleIdsOfUsers.every((_, n) => saidIn(`C${n}`).size === deals)
    let isOver = false

    async function tellBulk(): Promise<void> {
      for (let n = 0; n < webhooks; n++) {
        await delay(Math.max(0, started + (n * tellingMs) / webhooks - performance.now()))
        const batch = Array.from({ length: 100 }, (_, m) => {
          const deal = n * 100 + m + 1
          return stageChange(deal, { portal: 1, stage: deal % 3 ? 'w1' : 'l1', at: at + deal })
        })
        if ((await server.tell(batch)) !== 204) throw new Error('A batch was not acknowledged.')
      }
    }

    async function tellOther(): Promise<number[]> {
      const times: number[] = []
      for (let deal = firstDealOfOther; !isOver; deal++) {
        const told = performance.now()
        await server.tell([stageChange(deal, { portal: 2 })])
        await outside.accepted(() => saidIn('other').has(deal), 60_000)
        times.push((postsIn('other').at(-1)?.atMs ?? Number.NaN) - told)
        await delay(2_000)
      }
      return times
    }

    const telling = tellBulk()
    const other = tellOther()
    await telling
    await outside.accepted(isDone, 300_000).finally(() => {
      isOver = true
    })
    const otherMs = await other
    return {
      calls,
      refused,
      channels: ruleIdsOfUsers.map((_, n) => ({
        messages: postsIn(`C${n}`).map(dealsIn),
        doneAfterMs: (postsIn(`C${n}`).at(-1)?.atMs ?? Number.NaN) - started,
      })),
      otherMs,
    }
  } finally {
    await server.kill()
    await outside.close()
  }
}
