import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmdirSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MiB = 1024 * 1024

interface SmallDisk {
  folder: string
  /** Makes the disk so small that this many MiB are free. */
  leave(freeMiB: number): void
  /** Gives the disk its first size again. */
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
  // The size changes, because to write a file of this length takes seconds.
  const resize = (bytes: number) =>
    execFileSync('mount', ['-o', `remount,size=${bytes}`, folder], { stdio: 'ignore' })
  return {
    folder,
    leave(freeMiB) {
      const { blocks, bfree, bsize } = statfsSync(folder)
      resize((blocks - bfree) * bsize + freeMiB * MiB)
    },
    makeRoom: () => resize(sizeMiB * MiB),
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
