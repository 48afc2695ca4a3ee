import { readFileSync } from 'node:fs'

/** Processor time of a process so far; NaN where there is no /proc. */
export function cpuMs({ pid }: { pid?: number | undefined }): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    // Clock ticks of 10 ms, in user and in system mode.
    return (Number(fields[11]) + Number(fields[12])) * 10
  } catch {
    return Number.NaN
  }
}
