import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type DatabaseKind, newPostgresDatabase } from './backend.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'
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

  beforeEach(async () => {
    outside = await openOutside()
    folder = await mkdtemp(join(tmpdir(), 'dealbell-'))
    database = kind === 'PGlite' ? { folder } : { url: await newPostgresDatabase() }
  })
  afterEach(async () => {
    await server.kill()
    await outside.close()
    await rm(folder, { recursive: true, force: true })
  })

  describe(`kill -9 on ${kind}`, () => {
    test.each(points)('$name: none lost, at most one repeat a kill', async (point) => {
      server = await startServer({ outside, database })
      const numbers = Array.from({ length: kills }, (_, n) => n + 1)
      for (const n of numbers) await connectAccount(server, { portal: n, channel: `C${n}` })
      await server.stop()

      const unanswered: object[] = []
      for (const n of numbers) {
        const event = stageChange(n, { portal: n })
        const failpoint = point.failpoint(n)
        server = await startServer({ outside, database, ...(failpoint && { failpoint }) })
        const answer = await server.tell([event])
        if (failpoint === undefined) await server.kill()
        await server.exited
        expect(answer).toBe(point.acknowledged ? 204 : undefined)
        if (answer === undefined) unanswered.push({ ...event, attemptNumber: 1 })
      }

      server = await startServer({ outside, database })
      // HubSpot tells again what was not answered.
      if (unanswered.length > 0) expect(await server.tell(unanswered)).toBe(204)
      const status = await drained(server, 60_000)
      expect(status).toMatchObject({ sent: kills, dead: 0, ignored: 0 })
      await server.stop()

      const said = numbers.map((n) => outside.posts.filter((post) => dealIn(post) === n).length)
      if (point.failpoint(0)?.startsWith('accepted')) {
        for (const times of said) expect([1, 2]).toContain(times)
      } else {
        expect(said).toEqual(numbers.map(() => 1))
      }
    })
  })
}
