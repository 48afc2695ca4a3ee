import { setTimeout as delay } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openPostgres } from '../../server/database/open.ts'
import type { Crm } from '../../server/providers/provider.ts'
import { newPostgresDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'

const seconds = 12

// Each process is a backend of its own, with its own pool, on one PostgreSQL.
test.runIf(process.env.TEST_ALL === '1')(
  'four processes together stay within the limits of one HubSpot account and one Slack workspace, also while processes come and go',
  async () => {
    const outside = await openOutside()
    onTestFinished(() => outside.close())
    const url = await newPostgresDatabase()
    /** When HubSpot got a call for the account. */
    const reads: number[] = []
    const searches: number[] = []
    const most = (times: number[], inMs: number) =>
      Math.max(...times.map((from) => times.filter((at) => at >= from && at < from + inMs).length))
    let refused = 0
    outside.answerRead = (path, token) => {
      if (token !== 'token') return undefined
      const at = performance.now()
      if (path.endsWith('/search')) searches.push(at)
      else reads.push(at)
      if (reads.filter((each) => each > at - 10_000).length <= 110) return undefined
      refused++
      return { status: 429, body: { status: 'error', category: 'RATE_LIMITS' } }
    }

    const key = Buffer.alloc(32, 'k')
    const running: Backend[] = []
    async function join(): Promise<Backend> {
      const open = await openPostgres(url, () => undefined)
      onTestFinished(open.close)
      const backend = await startBackend(open, outside, { alone: false, key })
      onTestFinished(backend.stop)
      running.push(backend)
      return backend
    }
    /** Makes as many calls as the limiter lets a process make, until the process is gone. */
    async function callOn({ providers }: Backend, isGone: () => boolean): Promise<void> {
      const access = { accountId: '1', accessToken: 'token', urgency: 'fresh' as const }
      const loop = async (call: (crm: Crm) => Promise<unknown>) => {
        while (!isGone()) {
          const wait = await call(providers.hubspot).then(
            () => 0,
            ({ retryAfterMs = 0 }) => retryAfterMs,
          )
          await delay(Math.min(wait, 200))
        }
      }
      const history = 'stage'
      await Promise.all([
        loop((crm) => crm.deal(access, '1', { history, links: false })),
        loop((crm) => crm.changedDeals(access, new Date())),
      ])
    }

    const [first] = await Promise.all([join(), join(), join()])
    if (first === undefined) throw new Error('No process was started.')
    for (let n = 0; n < 40; n++) await first.connect({ portal: 2, team: 'T1', channel: `C${n}` })
    const began = performance.now()
    const isOver = () => performance.now() - began > seconds * 1_000
    let hasLeft = false
    const calls = running.map((backend, n) =>
      callOn(backend, () => isOver() || (n === 2 && hasLeft)),
    )
    for (let n = 0; n < 3; n++) await first.tell([stageChange(n, { portal: 2 })])
    await delay(4_000)
    hasLeft = true
    calls.push(callOn(await join(), isOver), callOn(await join(), isOver))
    await Promise.all(calls)

    expect(refused).toBe(0)
    // HubSpot takes five a second. A busy machine may delay some, so look at three seconds.
    expect(most(searches, 3_000)).toBeLessThanOrEqual(15)
    // Nearly all of the room is used: 90 calls in ten seconds, and four searches in one and a half.
    expect(reads.length).toBeGreaterThanOrEqual(90)
    expect(searches.length).toBeGreaterThan(2 * seconds)
    for (const posts of Map.groupBy(outside.posts, ({ channel }) => channel).values()) {
      posts.forEach(({ atMs }, n) => {
        expect(atMs - (posts[n - 1]?.atMs ?? 0)).toBeGreaterThan(1_000)
      })
    }
    // The pace of one process: 20 messages in four seconds.
    const times = outside.posts.map(({ atMs }) => atMs)
    expect(times.length).toBeGreaterThan(40)
    expect(most(times, 3_000)).toBeLessThanOrEqual(20)
  },
)
