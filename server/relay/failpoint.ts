const armed = process.env.DEALBELL_FAILPOINT

/** Where tests may kill the process as a crash would; nothing else sets the variable. */
export function failpoint(
  name: 'verified' | 'in transaction' | 'before answer' | 'taken' | 'accepted' | 'noted',
): void {
  if (armed === name) process.kill(process.pid, 'SIGKILL')
}
