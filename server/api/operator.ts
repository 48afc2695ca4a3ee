import { timingSafeEqual } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from 'drizzle-orm'
import { Hono } from 'hono'
import type { Context } from '../context.ts'
import { rowsOf } from '../database/open.ts'
import { readStored } from '../database/stored.ts'
import { ApiError } from '../http/errors.ts'
import { fromThisMachineOnly } from '../http/origin.ts'
import { countDeliveries, replayDead } from '../relay/show/operator.ts'
import type { Watch } from '../watch/watch.ts'

/**
 * What `npm run relay`, `npm run data` and `npm run doctor` ask a server that holds the data folder. They run on the
 * same machine and need the server's key.
 */
export function operatorRoutes({
  database,
  copyFolder,
  operatorToken,
  wakeRelay,
  watch,
}: Pick<Context, 'database' | 'copyFolder' | 'operatorToken' | 'wakeRelay'> & {
  watch: Pick<Watch, 'inWords'>
}) {
  const copyOf = copyFolder && oneAtATime(copyFolder)
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
    .get('/status', async (c) => c.json({ lines: await watch.inWords() }))
    .get('/count', async (c) => c.json(await countDeliveries(database)))
    .post('/replay', async (c) => {
      const replayed = await replayDead(database)
      wakeRelay()
      return c.json({ replayed })
    })
    .post('/copy/:name{[0-9a-f-]{36}}', async (c) =>
      copyOf === undefined ? c.notFound() : c.json(await copyOf(c.req.param('name'))),
    )
    .get('/doctor', async (c) =>
      c.json(await readStored((statement) => rowsOf(database, sql.raw(statement)))),
    )
}

const answerWithinMs = 2_000
/** A command that has not asked for so long was ended. */
const abandonedAfterMs = 30_000

/**
 * Begins the copy of this name, or waits for it. The command repeats its call until the copy is complete, because a
 * copy may take longer than an answer. Two copies at a time would write to one place.
 */
function oneAtATime(copyFolder: NonNullable<Context['copyFolder']>) {
  let last: { name: string; copying: ReturnType<typeof copyFolder>; abort: () => void } | undefined
  let isRunning = false
  let abandoned: NodeJS.Timeout | undefined

  return async (name: string) => {
    if (last?.name !== name) {
      if (isRunning) throw new ApiError(409, 'copy_runs', 'Another copy runs.')
      const controller = new AbortController()
      isRunning = true
      const copying = copyFolder(name, controller.signal).finally(() => {
        isRunning = false
      })
      // The next call reports it.
      copying.catch(() => undefined)
      last = { name, copying, abort: () => controller.abort() }
    }
    const { copying, abort } = last
    clearTimeout(abandoned)
    const copied = await Promise.race([copying, delay(answerWithinMs)])
    clearTimeout(abandoned)
    if (isRunning) abandoned = setTimeout(abort, abandonedAfterMs).unref()
    return copied ?? { running: true as const }
  }
}
