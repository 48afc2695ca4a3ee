import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { UnusableFolder } from '../../server/database/lock.ts'
import { openPglite } from '../../server/database/open.ts'
import { users } from '../../server/database/schema.ts'
import { newDataFolder } from '../database.ts'
import { canMount, mountSmallDisk } from '../small-disk.ts'

vi.setConfig({ testTimeout: 300_000 })

/** @returns how many users a start finds, or why there is none. */
async function open(folder: string): Promise<number | string> {
  const opened = await openPglite(join(folder, 'pglite')).catch((error: unknown) => {
    if (error instanceof UnusableFolder) return error.message
    throw error
  })
  if (typeof opened === 'string') return opened
  const { database, close } = opened
  return await database.$count(users).finally(close)
}

test.runIf(canMount)('an empty disk that is mounted for the database is used', async () => {
  const disk = mountSmallDisk(512)
  if (disk === undefined) throw new Error('The disk cannot be mounted.')
  onTestFinished(() => disk.unmount())
  const folder = await newDataFolder()
  rmSync(join(folder, 'pglite'), { recursive: true })
  await mkdir(join(folder, 'pglite'))
  execFileSync('mount', ['--bind', disk.folder, join(folder, 'pglite')])
  onTestFinished(() => {
    execFileSync('umount', ['--lazy', join(folder, 'pglite')])
  })
  expect(await open(folder)).toBe(0)
})

const isOfOthers = 'the folder pglite in it has files and no PG_VERSION'
test("files of somebody else in the database's folder are refused and stay", async () => {
  const folder = join(await newDataFolder(), 'other')
  await mkdir(join(folder, 'pglite'), { recursive: true })
  await writeFile(join(folder, 'pglite', 'thesis.txt'), 'x')
  expect(await open(folder)).toBe(isOfOthers)
  expect(await readdir(join(folder, 'pglite'))).toEqual(['thesis.txt'])
})

test('a first start that was killed while it made the database begins again', async () => {
  const folder = join(await newDataFolder(), 'fresh')
  await mkdir(join(folder, 'pglite.new/base'), { recursive: true })
  await mkdir(join(folder, 'pglite'))
  expect(await open(folder)).toBe(0)
  expect(await readdir(folder)).toEqual(['pglite'])
})
