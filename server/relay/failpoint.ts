const armed = process.env.DEALBELL_FAILPOINT

type Point = 'verified' | 'in transaction' | 'before answer' | 'taken' | 'accepted' | 'noted'

/**
 * A point at which a test can kill the process, as a crash would. Only tests set the variable.
 * @param about a deal or a channel: the failpoint `name@about` kills only there.
 */
export function failpoint(name: Point, about?: string): void {
  if (armed === undefined) return
  if (armed === name || armed === `${name}@${about}`) process.kill(process.pid, 'SIGKILL')
}
