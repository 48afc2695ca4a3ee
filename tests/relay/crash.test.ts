import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { databaseKinds, newDatabase } from '../database.ts'
import { dealIn, dealsIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'
import {
  connectAccount,
  drained,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from './process.ts'

// Each test starts two processes.
vi.setConfig({ testTimeout: 120_000 })

/** Where the server is killed. At the first three, HubSpot has no answer yet. */
const points = [
  { name: 'after the signature is checked', failpoint: 'verified', answer: undefined, most: 1 },
  { name: 'in the transaction', failpoint: 'in transaction', answer: undefined, most: 1 },
  { name: 'before the answer', failpoint: 'before answer', answer: undefined, most: 1 },
  // At this moment, Slack may have accepted the message.
  { name: 'after the answer', failpoint: undefined, answer: 204, most: 2 },
  { name: 'after a channel is taken', failpoint: 'taken@T-C4/C4', answer: 204, most: 1 },
  { name: 'before it is recorded', failpoint: 'accepted@5', answer: 204, most: 2 },
  { name: 'after it is recorded', failpoint: 'noted@6', answer: 204, most: 1 },
] as const

/** Where the server is killed while it sends a digest, and how often Slack then gets the digest. */
const digestPoints = [
  { failpoint: 'accepted', portal: 7, times: 2 },
  { failpoint: 'noted', portal: 8, times: 1 },
] as const

describe.each(databaseKinds)('kill -9 on %s', (kind) => {
  let outside: Outside
  let database: ServerOptions['database']
  let server: ServerProcess

  beforeAll(async () => {
    outside = await openOutside()
    database = await newDatabase(kind)
    server = await startServer({ outside, database })
    for (let n = 0; n < points.length + digestPoints.length; n++) {
      await connectAccount(server, { portal: n, channel: `C${n}` })
    }
    await server.stop()
  })
  afterAll(async () => {
    await server.kill()
    await outside.close()
  })

  test.each(points)(
    '$name: no event is lost, and only a kill repeats a message',
    async ({ failpoint, answer, most, name }) => {
      const n = points.findIndex((point) => point.name === name)
      const event = stageChange(n, { portal: n })
      server = await startServer({ outside, database, ...(failpoint && { failpoint }) })
      expect(await server.tell([event])).toBe(answer)
      if (failpoint === undefined) await server.kill()
      await server.exited

      server = await startServer({ outside, database })
      // HubSpot tells again what was not answered.
      if (answer === undefined)
        expect(await server.tell([{ ...event, attemptNumber: 1 }])).toBe(204)
      expect(await drained(server, 60_000)).toMatchObject({ sent: n + 1, dead: 0, ignored: 0 })
      await server.stop()
      const posts = outside.posts.filter((post) => dealIn(post) === n)
      expect(posts.length).toBeGreaterThanOrEqual(failpoint === 'accepted@5' ? 2 : 1)
      expect(posts.length).toBeLessThanOrEqual(most)
    },
  )

  test.each(digestPoints)(
    "at '$failpoint' of a digest: the digest is repeated as it was, or not at all",
    async ({ failpoint, portal, times }) => {
      const deals = Array.from({ length: 40 }, (_, n) => portal * 1_000 + n)
      const at = Date.now()
      server = await startServer({
        outside,
        database,
        failpoint: `${failpoint}@${portal * 1_000}`,
      })
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
      expect(said.slice(0, times)).toEqual(Array(times).fill(deals.slice(0, 30)))
      const rest = said.slice(times).flat()
      expect(rest.toSorted((a, b) => a - b)).toEqual([...deals.slice(30), late])
    },
  )
})
