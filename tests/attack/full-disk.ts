import { mountSmallDisk } from '../small-disk.ts'
import { startServer } from './server.ts'

interface FullDisk {
  /** The answers of 500 calls that store something, such as '503: 500'. */
  answers: string
  /** The slowest of the health checks in between. */
  slowestHealthMs: number
  healthWithoutRoom: number
  healthWithRoom: number
  stopMs: number
}

/**
 * Fills the disk of a server on PGlite and calls what stores something.
 * @returns undefined if this user may not mount a small disk.
 */
export async function attackFullDisk(): Promise<FullDisk | undefined> {
  const disk = mountSmallDisk(320)
  if (disk === undefined) return undefined
  try {
    const server = await startServer(disk.folder)
    const health = async () => {
      const answer = await fetch(`${server.url}/health`, { signal: AbortSignal.timeout(10_000) })
      await answer.arrayBuffer()
      return answer.status
    }
    try {
      // Less than one file of the database's log.
      disk.leave(8)
      const counts = new Map<number, number>()
      let slowestHealthMs = 0
      for (let call = 0; call < 500; call++) {
        const answer = await fetch(`${server.url}/api/hubspot/auth`, {
          redirect: 'manual',
          signal: AbortSignal.timeout(10_000),
        })
        await answer.arrayBuffer()
        counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1)
        const askedAt = performance.now()
        await health()
        slowestHealthMs = Math.max(slowestHealthMs, performance.now() - askedAt)
      }
      const healthWithoutRoom = await health()
      disk.makeRoom()
      const healthWithRoom = await health()
      disk.leave(0)
      const stop = await server.stop(20_000)
      const answers = [...counts].map(([status, count]) => `${status}: ${count}`).join(', ')
      return {
        answers,
        slowestHealthMs,
        healthWithoutRoom,
        healthWithRoom,
        stopMs: stop.durationMs,
      }
    } finally {
      await server.stop(0)
    }
  } finally {
    disk.unmount()
  }
}
