import type { MiddlewareHandler } from 'hono'

/** How long the calls that start in one turn may take together, in milliseconds. One call may take longer. */
const turnMs = 10
const mostInTurn = 50

/**
 * Spreads calls over turns of the event loop. Node accepts one connection in a turn, and with PGlite a call takes no
 * turn of its own. So without this, a hundred calls at once are one long turn, and nobody new gets in meanwhile.
 */
export function inShortTurns(): MiddlewareHandler {
  const waiting: Array<() => void> = []
  let endsAt = 0

  /** In the next turn, starts the calls that wait, until the turn is over. */
  function startSoon(): void {
    // Node runs these one after the other, each with the work that it starts.
    const count = Math.min(waiting.length, mostInTurn)
    for (let n = 0; n < count; n++) {
      setImmediate(() => {
        if (n === 0) endsAt = performance.now() + turnMs
        if (performance.now() < endsAt) waiting.shift()?.()
        if (n === count - 1 && waiting.length > 0) startSoon()
      })
    }
  }

  return async (_, next) => {
    await new Promise<void>((start) => {
      if (waiting.push(start) === 1) startSoon()
    })
    await next()
  }
}
