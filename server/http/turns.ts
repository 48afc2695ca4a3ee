import { setImmediate as nextTurn } from 'node:timers/promises'
import type { MiddlewareHandler } from 'hono'

/**
 * Starts one request in each turn of the event loop. Node accepts one connection in a turn, and with PGlite a call
 * takes no turn of its own. So without this, a hundred calls at once are one long turn, and nobody new gets in.
 */
export function oneInEachTurn(): MiddlewareHandler {
  let last: Promise<unknown> = Promise.resolve()
  return async (_, next) => {
    last = last.then(() => nextTurn())
    await last
    await next()
  }
}
