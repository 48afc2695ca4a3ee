import type { CountCall } from '../database/call-counter.ts'
import type { Log } from '../log.ts'
import type { AccessDependencies } from '../people/access-token.ts'
import type { RelayTimes } from './times.ts'

/** What the stages of the relay share. */
export interface RelayParts extends AccessDependencies {
  log: Log
  times: RelayTimes
  /** True if no other process uses this database. Leases in it are then from a dead process. */
  alone: boolean
  /** Counts the messages of all processes on this database. Undefined if there is only this one. */
  countCall: CountCall | undefined
  /** The id of this process, which holds the leases. */
  processId: string
  isStopping: () => boolean
}
