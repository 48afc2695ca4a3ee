// The relay turns stored events into messages. It gets a database in which receive/ stores deliveries, and works until it
// is stopped: the loop (schedule/) leases a channel that is due, and calls send/work.ts for it until it must rest. Each
// delivery ends, also after a crash. docs/server/relay.md draws all stages.

import { randomUUID } from 'node:crypto'
import type { RelayParts } from './parts.ts'
import { createLoop } from './schedule/loop.ts'
import { createWork } from './send/work.ts'

export function createRelay(dependencies: Omit<RelayParts, 'processId' | 'isStopping'>) {
  const processId = randomUUID()
  const { work, reportIgnored } = createWork({
    ...dependencies,
    processId,
    isStopping: () => loop.isStopping(),
  })
  const loop = createLoop({ ...dependencies, processId, work })
  return {
    start: loop.start,
    wake: loop.wake,
    turnedAt: loop.turnedAt,
    /** Resolves after the results of all running calls are recorded. */
    async stop() {
      await loop.stop()
      reportIgnored()
    },
  }
}
