import { eq, sql } from 'drizzle-orm'
import { expect, test, vi } from 'vitest'
import { rowsOf } from '../../server/database/open.ts'
import { deliveries } from '../../server/database/schema.ts'
import { createWithAccess } from '../../server/people/access-token.ts'
import { defaultTimeouts } from '../../server/providers/calls.ts'
import { createChangeReader } from '../../server/relay/decide/change.ts'
import { nextDelivery } from '../../server/relay/pick/next.ts'
import { createNaming } from '../../server/relay/send/names.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { backend, channel, connect, outside, shareBackend, soon, team, tell } from './shared.ts'

// The tests end the deliveries themselves, in batches as small as they need.
shareBackend('PGlite', { working: false })

test('the next delivery is found without a read of all that wait', async () => {
  await connect()
  await tell(Array.from({ length: 500 }, (_, n) => n + 1))
  await backend.database.transaction(async (tx) => {
    const rows = sql`(seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables`
    const read = () =>
      rowsOf<{ rows: number }>(tx, sql`select ${rows} where relname = 'deliveries'`)
    const [before] = await read()
    await nextDelivery(tx, backend.providers, `${team}/${channel}`)
    const [after] = await read()
    expect(Number(after?.rows) - Number(before?.rows)).toBeLessThan(20)
  })
})

/** Messages of a new user about so many deals, which failed before anything was read of them; HubSpot does not answer. */
async function backlog(deals: number) {
  const userId = await connect()
  await tell(Array.from({ length: deals }, (_, n) => n + 1))
  const next = await nextDelivery(backend.database, backend.providers, `${team}/${channel}`)
  if (next.kind !== 'delivery') throw new Error('No delivery is pending.')
  const ids = await backend.database
    .update(deliveries)
    .set({ state: 'dead', reason: 'is_archived' })
    .where(eq(deliveries.userId, userId))
    .returning({ id: deliveries.id })
  const answered = Promise.withResolvers<undefined>()
  outside.answerRead = () => answered.promise
  return {
    userId,
    delivery: next.delivery,
    ids: ids.map(({ id }) => id).sort((a, b) => a - b),
    answer: () => answered.resolve(undefined),
  }
}

function openNaming() {
  const stopping = { current: false }
  const changes = createChangeReader(backend.providers, createWithAccess(backend), relayTimes)
  const naming = createNaming({ ...backend, changes, isStopping: () => stopping.current })
  return { naming, stopping }
}

test('of a backlog that ends in many batches, the newest messages get names', async () => {
  const { userId, delivery, ids, answer } = await backlog(60)
  const { naming } = openNaming()
  for (const id of ids) naming.nameLater(delivery, [id])
  answer()
  const names = async () => (await backend.shown(userId)).map(({ dealName }) => dealName)
  await vi.waitFor(async () => expect((await names()).at(-1)).toBe('Deal 60'), soon)
  expect(await names()).not.toContain(null)
  // One call for the first, which began at once, and two for the 59 others.
  expect(outside.reads.filter((path) => !path.includes('pipelines'))).toHaveLength(3)
})

test('a stop does not wait for names that HubSpot does not tell', async () => {
  const { delivery, ids, answer } = await backlog(2)
  const { naming, stopping } = openNaming()
  // HubSpot's client does not give up before.
  vi.spyOn(defaultTimeouts, 'callMs', 'get').mockReturnValue(10 * 60_000)
  naming.nameLater(delivery, ids)
  await vi.waitFor(() => expect(outside.reads).not.toEqual([]), soon)
  stopping.current = true
  await naming.ended()
  answer()
})
