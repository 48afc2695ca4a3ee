import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MiB = 1024 * 1024

interface SmallDisk {
  folder: string
  /** Fills the disk until this many MiB are free. A second call replaces what the first one wrote. */
  leave(freeMiB: number): void
  /** Removes what `leave` wrote. */
  makeRoom(): void
  unmount(): void
}

/** A real file system of this size, in memory. @returns undefined if this user may not mount one. */
export function mountSmallDisk(sizeMiB: number): SmallDisk | undefined {
  const folder = mkdtempSync(join(tmpdir(), 'dealbell-disk-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeMiB}m`, 'tmpfs', folder], {
      stdio: 'ignore',
    })
  } catch {
    rmdirSync(folder)
    return undefined
  }
  const filler = join(folder, 'filler')
  const makeRoom = () => rmSync(filler, { force: true })
  return {
    folder,
    leave(freeMiB) {
      makeRoom()
      const { bavail, bsize } = statfsSync(folder)
      writeFileSync(filler, Buffer.alloc(Math.max(0, bavail * bsize - freeMiB * MiB)))
    },
    makeRoom,
    unmount() {
      // A process that was killed may hold a file for a moment.
      execFileSync('umount', ['--lazy', folder])
      rmdirSync(folder)
    },
  }
}

const tried = mountSmallDisk(1)
tried?.unmount()
/** Whether tests can mount a small disk. It needs Linux and root. */
export const canMount = tried !== undefined
