import { lstat, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { renameWhenFree } from '../database/rename.ts'
import { syncPath } from '../database/synced-folder.ts'

/**
 * Writes a new file that only its owner can read. Only a complete file gets the name: until then, it ends with `.part`.
 * @returns what `fill` returns.
 * @throws Error if there is something at either name, also a link. It is left alone.
 */
export async function writeNewFile<Result>(
  path: string,
  fill: (write: (text: string) => Promise<void>) => Promise<Result>,
): Promise<Result> {
  const unfinished = `${path}.part`
  for (const [name, remedy] of [
    [path, 'Choose another name.'],
    [unfinished, 'Delete it if no other command is writing it, or choose another name.'],
  ] as const) {
    const found = await lstat(name).catch(() => undefined)
    if (found !== undefined) throw new Error(`${name} exists already. ${remedy}`)
  }
  const file = await open(unfinished, 'wx', 0o600)
  try {
    const result = await fill((text) => file.appendFile(text))
    // The disk has it before anybody deletes what was written.
    await file.sync()
    await file.close()
    await renameWhenFree(unfinished, path)
    syncPath(dirname(path))
    return result
  } catch (error) {
    await file.close()
    await rm(unfinished, { force: true })
    throw error
  }
}
