import { expect, onTestFinished, test, vi } from 'vitest'
import { newPostgresDatabase } from '../database.ts'
import { versionBefore } from '../former-release.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { connectAccount, drained, startServer } from './process.ts'

// Several programs start, one after the other.
vi.setConfig({ testTimeout: 300_000 })

const version = process.env.TEST_ALL === '1' ? await versionBefore() : undefined

test.runIf(version !== undefined)(
  'a process of the former version works beside a new one on the migrated database, and alone after it',
  async () => {
    const outside = await openOutside()
    const database = { url: await newPostgresDatabase() }
    const startFormer = () => startServer({ outside, database, version: version ?? '' })
    let former = await startFormer()
    const portals = [0, 1, 2, 3, 4, 5, 6, 7]
    const connect = async (portal: number) =>
      connectAccount(former, { portal, channel: `C${portal}` })
    const people = []
    for (const portal of portals.slice(0, 4)) people.push(await connect(portal))
    const current = await startServer({ outside, database })
    onTestFinished(async () => {
      await Promise.all([former.kill(), current.kill()])
      await outside.close()
    })
    for (const portal of portals.slice(4)) people.push(await connect(portal))
    for (const { cookie } of people) {
      const headers = { Cookie: cookie }
      const rules = await fetch(`${current.url}/api/notifications/rules`, { headers })
      expect(await rules.json(), 'whoever connected before is signed in').toEqual({
        rules: ['deal-stage-changed'],
      })
    }

    const told = portals.map((portal) =>
      (portal % 2 ? former : current).tell([stageChange(portal, { portal })]),
    )
    expect(new Set(await Promise.all(told))).toEqual(new Set([204]))
    expect(await drained(current, 20_000)).toMatchObject({ sent: 8, dead: 0, ignored: 0 })
    // As after a step back to the former version.
    await current.stop()
    await former.stop()
    former = await startFormer()
    for (const portal of portals) await former.tell([stageChange(10 + portal, { portal })])
    await vi.waitFor(() => expect(outside.posts).toHaveLength(16), { timeout: 20_000 })
    expect(outside.posts.map(dealIn).toSorted((a, b) => a - b)).toEqual([
      ...portals,
      ...portals.map((portal) => 10 + portal),
    ])
    expect(former.output.join('\n')).not.toMatch(/failed/)
  },
)
