const armed = process.env.DEALBELL_FAILPOINT

type Point = 'in transaction' | 'before answer' | 'accepted'

/**
 * Kills the process here if a test has set DEALBELL_FAILPOINT to this name. This simulates a crash.
 * @param about a deal. If the variable is `name@about`, only this one kills the process.
 */
export function failpoint(name: Point, about?: string): void {
  if (armed === undefined) return
  if (armed === name || armed === `${name}@${about}`) process.kill(process.pid, 'SIGKILL')
}
