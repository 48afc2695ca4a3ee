import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type DatabaseKind, newPostgresDatabase } from '../database.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside, unexplainedRepeats } from './outside.ts'
import {
  connectAccount,
  drained,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from './process.ts'

const kills = 10

/** Where the server is killed; the first three before HubSpot has an answer. */
const points = [
  { name: 'after verify', failpoint: () => 'verified', acknowledged: false },
  { name: 'in the transaction', failpoint: () => 'in transaction', acknowledged: false },
  { name: 'before the answer', failpoint: () => 'before answer', acknowledged: false },
  { name: 'after the answer', failpoint: () => undefined, acknowledged: true },
  {
    name: 'after a worker took the job',
    failpoint: (n: number) => `taken@T1/C${n}`,
    acknowledged: true,
  },
  {
    name: 'after Slack accepted and before we noted it',
    failpoint: (n: number) => `accepted@${n}`,
    acknowledged: true,
  },
  { name: 'after that', failpoint: (n: number) => `noted@${n}`, acknowledged: true },
] as const

/** kill -9 at each point, ten times: nothing is lost, and little is said twice. */
export function crashTests(kind: DatabaseKind): void {
  let outside: Outside
  let folder: string
  let database: ServerOptions['database']
  let server: ServerProcess

  beforeAll(async () => {
    outside = await openOutside()
    folder = await mkdtemp(join(tmpdir(), 'dealbell-'))
    database = kind === 'PGlite' ? { folder } : { url: await newPostgresDatabase() }
    server = await startServer({ outside, database })
    for (let n = 0; n < points.length * kills; n++) {
      await connectAccount(server, { portal: n, channel: `C${n}` })
    }
    await server.stop()
  })
  afterAll(async () => {
    await server.kill()
    await outside.close()
    await rm(folder, { recursive: true, force: true })
  })

  describe(`kill -9 on ${kind}`, () => {
    test.each(points)('$name: none lost, at most one repeat a kill', async (point) => {
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
      // A kill at another point may catch an earlier event, which is said again at that moment, there.
      expect(unexplainedRepeats(posts, killed)).toEqual([])
      expect(posts.length - kills).toBeLessThanOrEqual(kills)
    })
  })
}
