import { timingSafeEqual } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { Hono } from 'hono'
import type { Context } from '../context.ts'
import { rowsOf } from '../database/open.ts'
import { readStored } from '../database/stored.ts'
import { ApiError } from '../http/errors.ts'
import { fromThisMachineOnly } from '../http/origin.ts'
import { countDeliveries, type RelayStatus, replayDead } from '../relay/show/operator.ts'

/**
 * What `npm run relay`, `npm run data` and `npm run doctor` ask a server that holds the data folder. They run on the
 * same machine and need the server's key.
 */
export function operatorRoutes({
  database,
  copyFolder,
  operatorToken,
  wakeRelay,
  refusedWebhooks,
}: Pick<Context, 'database' | 'copyFolder' | 'operatorToken' | 'wakeRelay' | 'refusedWebhooks'>) {
  return new Hono()
    .use(fromThisMachineOnly)
    .use(async (c, next) => {
      const given = Buffer.from(c.req.header('Authorization') ?? '')
      const expected = Buffer.from(`Bearer ${operatorToken}`)
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
        throw new ApiError(401, 'unauthorized', 'This is for the operator of the server.')
      }
      await next()
    })
    .get('/status', async (c) => {
      const deliveries = await countDeliveries(database)
      const status: RelayStatus = { ...deliveries, refusedWebhooks: refusedWebhooks.counts() }
      return c.json(status)
    })
    .post('/replay', async (c) => {
      const replayed = await replayDead(database)
      wakeRelay()
      return c.json({ replayed })
    })
    .post('/copy', async (c) =>
      copyFolder === undefined ? c.notFound() : c.json(await copyFolder()),
    )
    .get('/doctor', async (c) =>
      c.json(await readStored((statement) => rowsOf(database, sql.raw(statement)))),
    )
}
