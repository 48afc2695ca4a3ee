import fs from 'node:fs'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openPglite, rowsOf } from '../../server/database/open.ts'
import { syncPath } from '../../server/database/synced-folder.ts'
import { newDataFolder } from '../database.ts'
import { startBackend } from '../relay/backend.ts'
import { stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'

test('a webhook is acknowledged only after the disk has it, so that a power cut loses nothing', async () => {
  const open = await openPglite(join(await newDataFolder(), 'pglite'))
  const outside = await openOutside()
  const backend = await startBackend(open, outside, { working: false })
  onTestFinished(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })
  await backend.connect({ portal: 456, channel: 'C1' })
  const synced = vi.spyOn(fs, 'fsyncSync')
  await rowsOf(open.database, sql`select 1`)
  expect(synced).not.toHaveBeenCalled()
  expect(await backend.tell([stageChange(1, { portal: 456 })])).toBe(204)
  expect(synced).toHaveBeenCalled()
})

test('a new folder is on the disk before its database is used', async () => {
  const folder = join(await newDataFolder(), 'new')
  const synced = vi.spyOn(fs, 'fsyncSync')
  const open = await openPglite(folder)
  onTestFinished(() => open.close())
  // PGlite creates about 980 files. The log holds what the migrations add, and is on the disk, too.
  expect(synced.mock.calls.length).toBeGreaterThan(950)
})

test.runIf(process.platform === 'linux')(
  'a folder that its file system cannot sync is used',
  () => {
    const sync = () => fs.fsyncSync(fs.openSync('/proc', 'r'))
    expect(sync).toThrow('EINVAL')
    syncPath('/proc')
    // A file must be on the disk.
    expect(() => syncPath('/proc/self/comm')).toThrow('EINVAL')
  },
)
