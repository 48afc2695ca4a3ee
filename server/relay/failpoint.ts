const armed = process.env.DEALBELL_FAILPOINT

type Point = 'verified' | 'in transaction' | 'before answer' | 'taken' | 'accepted' | 'noted'

/**
 * Where tests may kill the process as a crash would; nothing else sets the variable.
 * @param about a deal or a channel, for a failpoint `name@about` that leaves others alone.
 */
export function failpoint(name: Point, about?: string): void {
  if (armed === undefined) return
  if (armed === name || armed === `${name}@${about}`) process.kill(process.pid, 'SIGKILL')
}
