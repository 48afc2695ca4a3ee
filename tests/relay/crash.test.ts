import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { openPostgres } from '../../server/database/open.ts'
import { endAllLeases } from '../../server/relay/schedule/channels.ts'
import { databaseKinds, newDatabase } from '../database.ts'
import { dealsIn, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'
import {
  connectAccount,
  drained,
  type ServerOptions,
  type ServerProcess,
  startServer,
} from './process.ts'

// A test starts up to four processes.
vi.setConfig({ testTimeout: 120_000 })

/** Here, HubSpot has no answer yet. */
const beforeAnswer = ['in transaction', 'before answer']

/**
 * Here, HubSpot has its answer. `times` says how often Slack may get the first message. With 40 deals, this is
 * a digest.
 */
const afterAnswer = [
  { name: 'after the answer', failpoint: undefined, deals: 1, times: [1, 2] },
  { name: 'before a digest is recorded', failpoint: 'accepted@3000', deals: 40, times: [2] },
].map((point, n) => ({ ...point, portal: beforeAnswer.length + n }))

describe.each(databaseKinds)('kill -9 on %s', (kind) => {
  let outside: Outside
  let database: ServerOptions['database']
  let server: ServerProcess

  /** Starts the next process, which dies at its failpoint. */
  async function start(failpoint?: string): Promise<void> {
    server = await startServer({ outside, database, ...(failpoint && { failpoint }) })
  }
  const said = (portal: number) =>
    outside.posts.filter(({ channel }) => channel === `C${portal}`).map(dealsIn)

  beforeAll(async () => {
    outside = await openOutside()
    database = await newDatabase(kind)
    await start(beforeAnswer[0])
    for (let portal = 0; portal < beforeAnswer.length + afterAnswer.length; portal++) {
      await connectAccount(server, { portal, channel: `C${portal}` })
    }
  })
  afterAll(async () => {
    await server.kill()
    await outside.close()
  })

  test('before the answer: HubSpot tells again, and each event is sent once', async () => {
    const events = beforeAnswer.map((_, portal) => stageChange(portal * 1_000, { portal }))
    for (const [portal, event] of events.entries()) {
      if (portal > 0) await start(beforeAnswer[portal])
      expect(await server.tell([event])).toBeUndefined()
      await server.exited
    }
    await start()
    expect(await server.tell(events.map((event) => ({ ...event, attemptNumber: 1 })))).toBe(204)
    expect(await drained(server, 60_000)).toMatchObject({ sent: 2, dead: 0, ignored: 0 })
    expect(events.map((_, portal) => said(portal))).toEqual([[[0]], [[1_000]]])
  })

  // Each test uses the process that the test before it has started.
  test.each(afterAnswer)(
    '$name: no event is lost, and only a kill repeats a message',
    async ({ portal, failpoint, times, ...point }) => {
      const deals = Array.from({ length: point.deals }, (_, n) => portal * 1_000 + n)
      const at = Date.now()
      const change = (deal: number) => stageChange(deal, { portal, at: at + deal })
      expect(await server.tell(deals.map(change))).toBe(204)
      if (failpoint === undefined) await server.kill()
      await server.exited
      // A start on PGlite ends the leases of the dead process. On PostgreSQL, they end by themselves in 20 seconds.
      if ('url' in database) {
        const open = await openPostgres(database.url, () => undefined)
        await endAllLeases(open.database)
        await open.close()
      }

      await start(afterAnswer.find((next) => next.portal === portal + 1)?.failpoint)
      // This event is between the others. Nothing may come between the parts of the digest.
      const late = deals.length > 1 ? [portal * 1_000 + 999] : []
      await server.tell(late.map((deal) => ({ ...change(deal), occurredAt: at + (deals[3] ?? 0) })))
      expect(await drained(server, 60_000)).toMatchObject({ dead: 0, ignored: 0 })
      const first = deals.slice(0, 30)
      const copies = said(portal).filter((each) => String(each) === String(first)).length
      expect(times).toContain(copies)
      const rest = said(portal).slice(copies).flat()
      expect(rest.toSorted((a, b) => a - b)).toEqual([...deals.slice(30), ...late])
    },
  )
})
