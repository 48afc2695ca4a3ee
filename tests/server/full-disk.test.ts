import { cp, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'drizzle-orm'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { databaseKinds, newDataFolder } from '../database.ts'
import { appUrl, stageChange } from '../relay/hubspot-webhook.ts'
import { openOutside } from '../relay/outside.ts'
import { connectAccount, drained, startServer } from '../relay/process.ts'
import { connect, open, shareBackend, tell } from '../relay/shared.ts'
import { canMount, mountSmallDisk } from '../small-disk.ts'
import { outputOf } from './program.ts'

vi.setConfig({ testTimeout: 120_000 })

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
    async call(path: string, init: RequestInit = {}) {
      const answer = await fetch(server.url + path, { ...init, redirect: 'manual' })
      return { status: answer.status, text: await answer.text() }
    },
  }
}

describe.skipIf(!canMount)('on a small disk (needs Linux and the right to mount one)', () => {
  test('a nearly full disk stops what writes, and nothing else, until there is room; SIGTERM ends the server without any', async () => {
    const disk = await openDisk()
    let server = await openServer(disk.data)
    const { outside, call, logged } = server
    const { cookie } = await connectAccount(server, { portal: 1, channel: 'C1' })
    const headers = {
      Cookie: cookie,
      Origin: appUrl,
      'Sec-Fetch-Site': 'same-origin',
      'Content-Type': 'application/json',
    }
    const save = { method: 'POST', headers, body: '{"rules":["deal-closed"]}' }
    const changes = (...deals: number[]) => deals.map((deal) => stageChange(deal, { portal: 1 }))
    expect(await call('/health')).toMatchObject({ status: 200 })

    // Less than one file of the database's log.
    disk.leave(8)
    const many = changes(...Array(100).keys())
    for (let webhook = 0; webhook < 100; webhook++) expect(await server.tell(many)).toBe(503)
    expect(await call('/api/notifications/rules', save)).toEqual({
      status: 503,
      text: '{"error":{"code":"no_room","message":"The server has no room to store anything. Try again later."}}',
    })
    expect(await call('/api/hubspot/auth', { headers })).toMatchObject({ status: 503 })
    const disconnect = { method: 'DELETE', headers }
    expect(await call('/api/slack/disconnect', disconnect)).toMatchObject({ status: 503 })
    expect(await call('/health')).toMatchObject({ status: 503 })
    for (const path of ['/api/hubspot/status', '/api/slack/status']) {
      const answer = await call(path, { headers })
      expect(answer.status).toBe(200)
      expect(JSON.parse(answer.text)).toMatchObject({ connected: true })
    }
    expect(await call('/api/notifications/rules', { headers })).toEqual({
      status: 200,
      text: '{"rules":["deal-stage-changed"]}',
    })
    const tooLittle = 'the disk has too little room'
    await vi.waitFor(() => expect(logged(tooLittle)).toBe(1), { timeout: 20_000 })

    disk.makeRoom()
    expect(await call('/health')).toMatchObject({ status: 200 })
    expect(await call('/api/notifications/rules', save)).toMatchObject({ status: 204 })
    const back = { ...save, body: '{"rules":["deal-stage-changed"]}' }
    expect(await call('/api/notifications/rules', back)).toMatchObject({ status: 204 })
    const again = 'the disk has room again'
    await vi.waitFor(() => expect(logged(again)).toBe(1), { timeout: 20_000 })
    // The room ends again while Slack takes a message, and others wait.
    const { promise: slackGoesOn, resolve: goOn } = Promise.withResolvers<void>()
    outside.answerPost = () => slackGoesOn.then(() => undefined)
    for (const deal of [1, 2, 3]) expect(await server.tell(changes(deal))).toBe(204)
    await vi.waitFor(() => expect(outside.calls).toHaveLength(1), { timeout: 20_000 })
    expect([logged(tooLittle), logged('failed')]).toEqual([1, 0])
    disk.leave(0)
    goOn()
    await outside.accepted((posts) => posts.length === 1)
    const stoppedAt = performance.now()
    await server.stop()
    expect(performance.now() - stoppedAt).toBeLessThan(10_000)

    disk.leave(50.5)
    expect(await outputOf(['server/main.ts'], { DATA_DIR: disk.data })).toBe(
      `DATA_DIR is ${disk.data}, but its disk has 50 MiB free, and Dealbell needs 128 MiB. Make room on the disk, or set DATA_DIR to a folder on another disk.\nexit 1`,
    )
    disk.makeRoom()
    server = await openServer(disk.data)
    expect(await drained(server, 30_000)).toMatchObject({ sent: 3 })
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
