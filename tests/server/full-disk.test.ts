import { cp, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { databaseKinds, newDataFolder } from '../database.ts'
import { dealsIn, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, startServer } from '../relay/process.ts'
import { connect, open, shareBackend, tell } from '../relay/shared.ts'
import { canMount, mountSmallDisk } from '../small-disk.ts'
import { outputOf } from './program.ts'

vi.setConfig({ testTimeout: 300_000 })

const within = { timeout: 20_000 }

/** A disk with a data folder whose database has no rows. */
async function openDisk(sizeMiB = 256) {
  const disk = mountSmallDisk(sizeMiB)
  if (disk === undefined) throw new Error('No disk could be mounted.')
  onTestFinished(() => disk.unmount())
  const data = join(disk.folder, 'data')
  await cp(await newDataFolder(), data, { recursive: true })
  return { ...disk, data }
}

async function openServer(data: string) {
  const outside = await openOutside()
  const server = await startServer({ outside, database: { folder: data } })
  onTestFinished(async () => {
    await server.kill()
    await outside.close()
  })
  return {
    ...server,
    outside,
    logged: (event: string) => server.output.filter((line) => line.includes(event)).length,
    ready: async () => (await fetch(`${server.url}/ready`)).status,
  }
}

describe.skipIf(!canMount)('on a small disk (needs Linux and the right to mount one)', () => {
  test('a nearly full disk makes the server not ready; a full one ends it, and nothing that was confirmed is lost', async () => {
    const disk = await openDisk()
    let server = await openServer(disk.data)
    const { outside, ready, logged } = server
    await connectAccount(server, { portal: 1, channel: 'C1' })
    expect(await ready()).toBe(200)

    disk.leave(60)
    expect(await ready()).toBe(503)
    await vi.waitFor(() => expect(logged('the disk has too little room')).toBe(1), within)
    // Until the disk is full, the server works as ever.
    expect(await server.tell([stageChange(1, { portal: 1 })])).toBe(204)
    await outside.accepted((posts) => posts.length === 1)
    disk.makeRoom()
    expect(await ready()).toBe(200)
    await vi.waitFor(() => expect(logged('the disk has room again')).toBe(1), within)

    // The disk becomes full while Slack takes a message, and others arrive.
    const { promise: slackGoesOn, resolve: goOn } = Promise.withResolvers<void>()
    outside.answerPost = () => slackGoesOn.then(() => undefined)
    expect(await server.tell([stageChange(2, { portal: 1 })])).toBe(204)
    await vi.waitFor(() => expect(outside.calls).toHaveLength(2), within)
    // The log grows by 16 MiB at once.
    disk.leave(15)
    let confirmed = 2
    const changes = () =>
      Array.from({ length: 100 }, (_, index) =>
        stageChange(100 + index, { portal: 1, at: Date.now() - index }),
      )
    while ((await server.tell(changes())) === 204) confirmed += 100
    await server.exited
    goOn()
    expect(logged('could not write its log')).toBe(1)

    disk.leave(50.5)
    expect(await outputOf(['server/main.ts'], { DATA_DIR: disk.data })).toBe(
      `DATA_DIR is ${disk.data}, but its disk has 50 MiB free, and Dealbell needs 128 MiB. Make room on the disk, or set DATA_DIR to a folder on another disk.\nexit 1`,
    )
    disk.makeRoom()
    server = await openServer(disk.data)
    await outside.accepted((posts) => posts.some((post) => dealsIn(post).includes(2)))
    const { pending, sent } = await server.status()
    expect(pending + sent).toBeGreaterThanOrEqual(confirmed)
  })

  test('a start without room for a new folder says so, and leaves no files of a database', async () => {
    const disk = await openDisk()
    const fresh = join(disk.folder, 'fresh')
    for (const freeMiB of [1, 0]) {
      disk.leave(freeMiB)
      const said = await outputOf(['server/main.ts'], { DATA_DIR: fresh })
      expect(said).toMatch(/^DATA_DIR is .* disk .* Make room on the disk, .*\nexit 1$/)
    }
    const files = await readdir(fresh)
    expect(files.filter((file) => /pglite|key\./.test(file))).toEqual([])
  })
})

describe.each(databaseKinds)('a full disk of %s', (kind) => {
  shareBackend(kind, { working: false })

  test('answers 503, so that HubSpot repeats', async () => {
    await connect()
    await open.database.execute(sql`
      create function fail() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file' using errcode = 'disk_full'; end $$`)
    await open.database.execute(sql`
      create trigger fail before insert on deal_events execute function fail()`)
    expect(await tell([1])).toBe(503)
    await open.database.execute(sql`drop trigger fail on deal_events`)
    expect(await tell([1])).toBe(204)
  })
})
