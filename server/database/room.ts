import { statfsSync } from 'node:fs'

/**
 * The free bytes that PGlite's disk must have. The largest transaction of the server (`maxRowsAtOnce` of
 * the inbox) writes at most 50 MiB, and the database's log grows by 16 MiB at once. The rest is for what
 * waits behind it, and for other programs that write to the disk meanwhile.
 */
const neededBytes = 128 * 1024 * 1024

/** Returns whether the disk of a folder has room, and for this many bytes more. */
export type HasRoom = (moreBytes?: number) => boolean

/** The disk has too little room for what the database should write. */
export class NoRoom extends Error {}

export function hasRoomAt(folder: string): HasRoom {
  return (moreBytes = 0) => freeBytes(folder) >= neededBytes + moreBytes
}

/** @throws NoRoom */
export function requireRoomAt(folder: string): void {
  const free = freeBytes(folder)
  if (free >= neededBytes) return
  const inMiB = (bytes: number) => `${Math.floor(bytes / 1024 / 1024)} MiB`
  throw new NoRoom(`its disk has ${inMiB(free)} free, and Dealbell needs ${inMiB(neededBytes)}`)
}

/** Infinity if the system does not say how many bytes are free. */
function freeBytes(folder: string): number {
  try {
    const { blocks, bavail, bsize } = statfsSync(folder)
    return blocks === 0 ? Number.POSITIVE_INFINITY : bavail * bsize
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
