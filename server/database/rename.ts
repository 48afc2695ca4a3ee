import { rename } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'

const longestMs = 5_000

/** Renames a file or a folder. On Windows, a virus scanner may hold what was just written for some seconds. */
export async function renameWhenFree(from: string, to: string): Promise<void> {
  const end = performance.now() + longestMs
  for (;;) {
    try {
      return await rename(from, to)
    } catch (error) {
      const isHeld = ['EPERM', 'EACCES', 'EBUSY'].includes(Object(error).code)
      if (!isHeld || performance.now() > end) throw error
    }
    await delay(100)
  }
}
