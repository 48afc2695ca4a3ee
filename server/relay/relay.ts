// The relay turns stored events into messages. It gets a database in which receive/ stores deliveries, and works until it
// is stopped: the loop (schedule/) leases a channel that is due, and calls send/work.ts for it until it must rest. Each
// delivery ends, also after a crash. docs/server/relay.md draws all stages.

import { randomUUID } from 'node:crypto'
import type { CountCall } from '../database/call-counter.ts'
import type { Database } from '../database/open.ts'
import type { Log } from '../log.ts'
import type { Vault } from '../people/vault.ts'
import type { Providers } from '../providers/provider.ts'
import { createLoop } from './schedule/loop.ts'
import { createWork } from './send/work.ts'
import type { RelayTimes } from './times.ts'

interface RelayDependencies {
  database: Database
  vault: Vault
  providers: Providers
  log: Log
  /** True if no other process uses this database. Leases in it are then from a dead process. */
  alone: boolean
  /** Counts the messages of all processes on this database. Undefined if there is only this one. */
  countCall: CountCall | undefined
  times: RelayTimes
}

export function createRelay(dependencies: RelayDependencies) {
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
