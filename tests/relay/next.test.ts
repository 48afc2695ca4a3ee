import { sql } from 'drizzle-orm'
import { expect, test } from 'vitest'
import { rowsOf } from '../../server/database/open.ts'
import { nextDelivery } from '../../server/relay/pick/next.ts'
import { backend, channel, connect, shareBackend, team, tell } from './shared.ts'

shareBackend('PGlite', { working: false })

test('the next delivery is found without a read of all that wait', async () => {
  await connect()
  await tell(Array.from({ length: 500 }, (_, n) => n + 1))
  await backend.database.transaction(async (tx) => {
    const rows = sql`(seq_tup_read + idx_tup_fetch)::int as rows from pg_stat_xact_user_tables`
    const read = () =>
      rowsOf<{ rows: number }>(tx, sql`select ${rows} where relname = 'deliveries'`)
    const [before] = await read()
    await nextDelivery(tx, `${team}/${channel}`)
    const [after] = await read()
    expect(Number(after?.rows) - Number(before?.rows)).toBeLessThan(20)
  })
})
