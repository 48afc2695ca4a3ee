import { timingSafeEqual } from 'node:crypto'
import { sql } from 'drizzle-orm'
import { Hono } from 'hono'
import { pauseAccount, readAccount, resumeAccount, usersOf } from '../activity/account.ts'
import { deleteAccount } from '../activity/delete-account.ts'
import { exportAccount } from '../activity/export-account.ts'
import { countDeliveries, replayDead } from '../activity/operator.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { fromThisMachineOnly } from '../http/origin.ts'
import { errorFields } from '../log.ts'
import { createEndGrant } from '../people/end-grant.ts'
import { sendingEnded } from '../relay/send/disconnect.ts'
import { readStored, readTotals } from '../watch/stored.ts'

/** The command waits for an answer for a minute. */
const deleteMs = 20_000

/** What `npm run relay` asks the server. It runs on the same machine and needs the server's key. */
export function operatorRoutes(
  context: Pick<
    Context,
    'database' | 'operatorToken' | 'wakeRelay' | 'vault' | 'providers' | 'log'
  >,
) {
  const { database, operatorToken, wakeRelay, log } = context
  const endGrant = createEndGrant(context)

  /** Reads the next part when the client has read the last one. If one fails, the client sees that its answer is cut off. */
  function streamOf(parts: AsyncGenerator<string, void>): ReadableStream {
    return new ReadableStream({
      async pull(controller) {
        try {
          const part = await parts.next()
          if (part.done) controller.close()
          else controller.enqueue(Buffer.from(part.value))
        } catch (error) {
          log.error('export failed', errorFields(error))
          // The HTTP library prints it.
          throw new Error('An export failed.')
        }
      },
    })
  }

  /** @returns whether the account is gone. The command repeats the call until it is. */
  async function deleteSome(id: string, isAsked: AbortSignal): Promise<boolean> {
    const signal = AbortSignal.any([isAsked, AbortSignal.timeout(deleteMs)])
    try {
      await deleteAccount({ database, endGrant, sendingEnded }, id, signal)
      return true
    } catch (error) {
      if (signal.aborted) return false
      throw error
    }
  }

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
    .get('/account/:id', async (c) => c.json(await readAccount(database, c.req.param('id'))))
    .get('/account/:id/export', (c) =>
      c.body(streamOf(exportAccount(database, c.req.param('id'))), 200, {
        'Content-Type': 'application/json',
      }),
    )
    .post('/account/:id/:step{pause|resume|replay|delete}', async (c) => {
      const { id, step } = c.req.param()
      log('account changed', { account: id, step })
      if (step === 'delete')
        return c.json({ done: await deleteSome(id, c.req.raw.signal), replayed: 0 })
      if (step === 'pause') await pauseAccount(database, id)
      else if (step === 'resume') await resumeAccount(database, id)
      const replayed =
        step === 'replay' ? await replayDead(database, sql`user_id in ${usersOf(id)}`) : 0
      wakeRelay()
      return c.json({ done: true, replayed })
    })
}
