import { randomUUID } from 'node:crypto'
import { eq, gt, sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { sendLastAgain } from '../../server/activity/retry-all.ts'
import { channels, connections, crmAccounts, deliveries } from '../../server/database/schema.ts'
import { createChecks } from '../../server/people/checks.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import {
  backend,
  connectedSince,
  day,
  hour,
  minute,
  moved,
  nextAccount,
  open,
  outside,
  portal,
  second,
  shareBackend,
  soon,
  startSearch,
} from './shared.ts'

const RealDate = Date
let aheadMs = 0
/** The clock of the server. PGlite takes the database's time from it, too. */
class ServerDate extends RealDate {
  constructor(...parts: []) {
    if (parts.length > 0) super(...parts)
    else super(ServerDate.now())
  }
  static override now = () => RealDate.now() + aheadMs
}
function setClock(ms: number): void {
  aheadMs = ms
  outside.hubspotAheadMs = -ms
}

beforeAll(() => void vi.stubGlobal('Date', ServerDate))
afterAll(() => void vi.unstubAllGlobals())
// As one of several processes, so that it does not end the leases of others when it starts.
shareBackend('PGlite', {
  alone: false,
  times: { ...relayTimes, lookAgainMs: 2 * second, pollMs: 50 },
})
afterEach(() => {
  setClock(0)
  outside.hubspotAheadMs = 0
})

/** A user of an account of its own, and what the user's channel is for. */
async function newUser(more: Partial<Parameters<typeof backend.connect>[0]> = {}) {
  nextAccount()
  const of = { portal, team: `T${portal}`, channel: `C${portal}` }
  const id = `${of.team}/${of.channel}`
  const accessToken = `hubspot-access-secret-${portal}-1-1`
  const userId = await backend.connect({ ...of, accessToken, ...more })
  const ofUser = eq(deliveries.userId, userId)
  return {
    ...of,
    userId,
    /** HubSpot's clock is right. */
    tell: (deal: number, stage = 'next') =>
      backend.tell([stageChange(deal, { portal: of.portal, stage, at: RealDate.now() })]),
    posts: () => outside.posts.filter((post) => post.channel === of.channel),
    delivery: async () => (await open.database.select().from(deliveries).where(ofUser))[0],
    /** Why messages wait, as the user reads it. */
    async reasons() {
      const { items } = await backend.read(userId, 'notifications/activity')
      return items.map(({ reason }: { reason: string | null }) => reason)
    },
    /** Another process has the channel, and sends. */
    async leaveToDead() {
      const lease = { leasedBy: randomUUID(), leasedUntil: sql`now() + interval '10 seconds'` }
      await open.database.insert(channels).values({ id, ...lease })
      await this.tell(1)
      const claimed = { sendingUntil: sql`now() + interval '20 seconds'` }
      await open.database.update(deliveries).set(claimed).where(ofUser)
    },
  }
}

const lengths = process.env.TEST_ALL === '1' ? [hour, day] : [hour]

test.each(lengths)('a clock that was %i ms ahead holds up nothing once it is right', async (ms) => {
  setClock(ms)
  const answers: Record<string, { status: number; headers?: Record<string, string> }> = {}
  outside.answerPost = ({ channel }) => answers[channel]

  const sent = await newUser()
  outside.deals.set('1', { name: 'Deal 1 as it was' })
  const refused = await newUser()
  answers[refused.channel] = { status: 503 }
  const paused = await newUser()
  answers[paused.channel] = { status: 429, headers: { 'Retry-After': '30' } }
  for (const user of [sent, refused, paused]) await user.tell(1)
  // Connected before the clock was wrong. No webhook tells of the change.
  const missing = await newUser({ ruleIds: [] })
  await connectedSince(missing.userId, RealDate.now() - hour)
  const checks = createChecks({ ...backend, sendLastAgain }, { pollMs: 20, askAgainMs: 50 })
  checks.start()
  let search = startSearch()
  onTestFinished(async () => void (await Promise.all([search.stop(), checks.stop()])))
  await vi.waitFor(async () => {
    expect(sent.posts()).toHaveLength(1)
    expect((await refused.delivery())?.notBefore).not.toBeNull()
    expect(await paused.reasons()).toEqual(['Slack asks for a pause'])
    const isSearched = gt(crmAccounts.searchAt, sql`now() + interval '50 minutes'`)
    const accounts = open.database.$count(crmAccounts)
    expect(await open.database.$count(crmAccounts, isSearched)).toBe(await accounts)
    expect(await accounts).toBeGreaterThan(0)
  }, soon)
  moved(3, [['next', RealDate.now() - 3 * minute]], { account: String(missing.portal) })
  await backend.tick(missing.userId, 'deal-stage-changed')
  // Another process has begun three things, and has died.
  const refreshing = await newUser({ accessEndsInMs: 0 })
  await open.database
    .update(connections)
    .set({ refreshingUntil: sql`now() + interval '15 seconds'` })
    .where(eq(connections.userId, refreshing.userId))
  await refreshing.tell(1)
  const [dead, left] = [await newUser(), await newUser()]
  for (const user of [dead, left]) await user.leaveToDead()
  // It is looked at again after two seconds.
  const unlinked = await newUser({ ruleIds: ['deal-stage-changed-orphan'] })
  outside.deals.set('2', { linked: false })
  await unlinked.tell(2)

  setClock(0)
  for (const channel of Object.keys(answers)) delete answers[channel]
  expect(await paused.reasons()).toEqual([null])
  outside.deals.set('1', { name: 'Deal 1 as it is' })
  await sent.tell(1, 'w1')
  await backend.disconnect(left.userId, 'slack')
  await vi.waitFor(async () => {
    expect(sent.posts()[1]?.text).toContain('as it is')
    for (const user of [refused, paused, refreshing, unlinked, missing]) {
      expect((await user.delivery())?.state).toBe('sent')
    }
  }, soon)
  // A lease ends only after its usual time, because its process may still be there.
  const ofDead = eq(channels.id, `${dead.team}/${dead.channel}`)
  await vi.waitFor(async () => {
    const [row] = await open.database.select().from(channels).where(ofDead)
    expect(row?.leasedUntil?.getTime() ?? 0).toBeLessThan(Date.now() + 11 * second)
  }, soon)
  await open.database.update(channels).set({ leasedUntil: sql`now()` }).where(ofDead)
  await backend.settled()
  expect(dead.posts().map(dealIn)).toEqual([1])

  // A start searches for those, too, who have connected meanwhile.
  await search.stop()
  search = startSearch()
  await vi.waitFor(async () => {
    for (const column of [connections.checkedAt, connections.connectedSince]) {
      expect(await open.database.$count(connections, gt(column, sql`now()`))).toBe(0)
    }
  }, soon)
})
