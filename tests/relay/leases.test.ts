import { randomBytes, randomUUID } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { leaseDue, releaseLeases, renewLeases } from '../../server/relay/schedule/channels.ts'
import { pauseAccount } from '../../server/relay/schedule/pauses.ts'
import { databaseKinds } from '../database.ts'
import { startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { backend, connect, open, outside, portal, posts, shareBackend, tell } from './shared.ts'

const key = randomBytes(32)

// Each process is a backend of its own, on one database. The shared one sends no message.
describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind, { working: false, key })

  test('two processes refresh an access token once, before it ends', async () => {
    const refresh = Promise.withResolvers<undefined>()
    outside.answerRefresh = () => refresh.promise
    const process = await startBackend(open, outside, { alone: false, key })
    onTestFinished(() => process.stop())
    const userId = await connect({ accessEndsInMs: 30_000 })
    const tokens = new Set<string>()
    outside.answerRead = (_, token) => {
      tokens.add(token)
      return undefined
    }
    await tell([1, 2])
    const refreshes = () => outside.refreshes.filter((token) => token.includes(`-${portal}-`))
    await vi.waitFor(() => expect(refreshes()).toHaveLength(1), 5_000)
    const preview = () => backend.read(userId, 'notifications/preview')
    // A process that did not wait for the other would refresh before this answer.
    expect(await preview()).toMatchObject({ complete: false })
    refresh.resolve(undefined)
    await process.settled()
    expect(posts()).toHaveLength(2)
    await vi.waitFor(async () => expect(await preview()).toMatchObject({ complete: true }), 5_000)
    expect(refreshes()).toHaveLength(1)
    expect(tokens).not.toContain(`hubspot-access-secret-${portal}`)
  })

  // PGlite has one connection, so nothing waits for a lock there.
  test.runIf(kind === 'PostgreSQL')(
    'webhooks, renewals and releases of a hundred channels never wait for each other in a circle',
    async () => {
      const portals = Array.from({ length: 100 }, (_, n) => 10_000 + n)
      const held = portals.map((each) => `T1/C${each}`)
      for (const each of portals) {
        await connect({ portal: each, team: 'T1', channel: `C${each}` })
      }
      // The rows are stored in the order opposite to that of their ids.
      await open.database.execute(
        sql`insert into channels (id)
            select unnest(${sql.param(held)}::text[]) as id order by id desc`,
      )
      const owner = randomUUID()
      const releases = held.map((id) => ({ channel: id, againMs: 0 }))
      const refusals: string[] = []
      const at = (round: number) => Date.now() - (60 - round) * 10 * 60_000
      for (let round = 0; round < 60; round++) {
        await leaseDue(open.database, owner, { all: held.length, failing: 0, last: 0 }, [])
        // Half of the deals have a change that a search found. Their webhooks take another way.
        await open.database.execute(
          sql`update deal_events set found_by = 'search' where account_id::int % 2 = 0`,
        )
        const [answer, ...others] = await Promise.allSettled([
          backend.tell(portals.map((each) => stageChange(1, { portal: each, at: at(round) }))),
          renewLeases(open.database, owner, held),
          renewLeases(open.database, owner, held.toReversed()),
          releaseLeases(open.database, owner, releases),
          pauseAccount(open.database, held[0] ?? '', 1),
        ])
        expect(answer).toEqual({ status: 'fulfilled', value: 204 })
        for (const other of others) {
          if (other.status === 'rejected') refusals.push(String(other.reason.cause))
        }
      }
      expect(refusals).toEqual([])
    },
  )
})
