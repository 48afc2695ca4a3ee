import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MiddlewareHandler } from 'hono'

/**
 * Starts one request in each turn of the event loop. Node accepts one connection in each turn. On PGlite, a hundred
 * calls would fill one turn, because a call takes no turn of its own. Then nobody new would get in.
 */
export function oneInEachTurn(): MiddlewareHandler {
  let last: Promise<unknown> = Promise.resolve()
  return async (_, next) => {
    last = last.then(() => nextTurn())
    await last
    await next()
  }
}
