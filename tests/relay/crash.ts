import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DatabaseKind, newDatabase } from '../database.ts'
import { dealIn, dealsIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside, unexplainedRepeats } from './outside.ts'
import {
  connectAccount,
  drained,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from './process.ts'

/** How often each point is tried. */
const kills = process.env.TEST_ALL === '1' ? 10 : 1

/** Each kill of a digest waits until the dead claim ends, so there are fewer. */
const digestKills = process.env.TEST_ALL === '1' ? 2 : 1

/** Where the server is killed. At the first three, HubSpot has no answer yet. */
const points = [
  { name: 'after the signature is checked', failpoint: () => 'verified', acknowledged: false },
  { name: 'in the transaction', failpoint: () => 'in transaction', acknowledged: false },
  { name: 'before the answer', failpoint: () => 'before answer', acknowledged: false },
  { name: 'after the answer', failpoint: () => undefined, acknowledged: true },
  {
    name: 'after a channel is taken',
    failpoint: (n: number) => `taken@T-C${n}/C${n}`,
    acknowledged: true,
  },
  {
    name: 'after Slack accepted, before it is recorded',
    failpoint: (n: number) => `accepted@${n}`,
    acknowledged: true,
  },
  { name: 'after it is recorded', failpoint: (n: number) => `noted@${n}`, acknowledged: true },
] as const

/** Where the server is killed while it sends a digest, and how often Slack then gets the digest. */
const digestPoints = [
  { failpoint: 'accepted', times: 2 },
  { failpoint: 'noted', times: 1 },
] as const

/** kill -9 at each point: no message is lost, and at most one is repeated for each kill. */
export function crashTests(kind: DatabaseKind): void {
  let outside: Outside
  let database: ServerOptions['database']
  let server: ServerProcess

  beforeAll(async () => {
    outside = await openOutside()
    database = await newDatabase(kind)
    server = await startServer({ outside, database })
    for (let n = 0; n < (points.length + digestPoints.length) * kills; n++) {
      await connectAccount(server, { portal: n, channel: `C${n}` })
    }
    await server.stop()
  }, 120_000)
  afterAll(async () => {
    await server.kill()
    await outside.close()
  })

  describe(`kill -9 on ${kind}`, () => {
    test.each(points)(
      'killed $name: no event is lost, and only a kill repeats a message',
      async (point) => {
        const first = points.indexOf(point) * kills
        const numbers = Array.from({ length: kills }, (_, n) => first + n)
        const unanswered: object[] = []
        const killed: number[] = []
        for (const n of numbers) {
          const event = stageChange(n, { portal: n })
          const failpoint = point.failpoint(n)
          server = await startServer({ outside, database, ...(failpoint && { failpoint }) })
          const answer = await server.tell([event])
          if (failpoint === undefined) await server.kill()
          await server.exited
          killed.push(performance.now())
          expect(answer).toBe(point.acknowledged ? 204 : undefined)
          if (answer === undefined) unanswered.push({ ...event, attemptNumber: 1 })
        }

        server = await startServer({ outside, database })
        // HubSpot tells again what was not answered.
        if (unanswered.length > 0) expect(await server.tell(unanswered)).toBe(204)
        const status = await drained(server, 60_000)
        expect(status).toMatchObject({ sent: first + kills, dead: 0, ignored: 0 })
        await server.stop()

        const posts = outside.posts.filter((post) => numbers.includes(dealIn(post)))
        expect(new Set(posts.map(dealIn)).size).toBe(kills)
        // Each channel has one event here. A kill may catch several channels at the moment in which a
        // repeat is allowed.
        expect(unexplainedRepeats(posts, killed)).toEqual([])
      },
      300_000,
    )

    test.each(digestPoints)(
      "killed at '$failpoint' of a digest: the digest is repeated as it was, or not at all",
      async (point) => {
        const firstPortal = (points.length + digestPoints.indexOf(point)) * kills
        for (let portal = firstPortal; portal < firstPortal + digestKills; portal++) {
          const deals = Array.from({ length: 40 }, (_, n) => portal * 1_000 + n)
          const at = Date.now()
          const failpoint = `${point.failpoint}@${portal * 1_000}`
          server = await startServer({ outside, database, failpoint })
          const events = deals.map((deal) => stageChange(deal, { portal, at: at + deal }))
          expect(await server.tell(events)).toBe(204)
          await server.exited

          server = await startServer({ outside, database })
          // This event is between the others. Nothing may come between the parts of the digest.
          const late = portal * 1_000 + 999
          await server.tell([stageChange(late, { portal, at: at + portal * 1_000 + 3 })])
          expect(await drained(server, 60_000)).toMatchObject({ dead: 0, ignored: 0 })
          await server.stop()

          const said = outside.posts.filter(({ channel }) => channel === `C${portal}`).map(dealsIn)
          const digest = deals.slice(0, 30)
          expect(said.slice(0, point.times)).toEqual(Array(point.times).fill(digest))
          const rest = said.slice(point.times).flat()
          expect(rest.toSorted((a, b) => a - b)).toEqual([...deals.slice(30), late])
        }
      },
      300_000,
    )
  })
}
