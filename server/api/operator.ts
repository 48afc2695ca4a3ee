import { timingSafeEqual } from 'node:crypto'
import { Hono } from 'hono'
import { countDeliveries, replayDead } from '../activity/operator.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { fromThisMachineOnly } from '../http/origin.ts'
import { readStored, readTotals } from '../watch/stored.ts'

/**
 * What `npm run relay` asks the server. It runs on the same machine and needs the server's key.
 */
export function operatorRoutes({
  database,
  operatorToken,
  wakeRelay,
}: Pick<Context, 'database' | 'operatorToken' | 'wakeRelay'>) {
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
    .get('/status', async (c) =>
      c.json({ ...(await readStored(database)), ...(await readTotals(database)) }),
    )
    .get('/count', async (c) => c.json(await countDeliveries(database)))
    .post('/replay', async (c) => {
      const replayed = await replayDead(database)
      wakeRelay()
      return c.json({ replayed })
    })
}
