import { execFileSync } from 'node:child_process'
import { symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { newFolder, newPostgresDatabase } from '../database.ts'
import { dealIn, stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { connectAccount, drained, startServer } from './process.ts'

const root = resolve(import.meta.dirname, '../..')
const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })

/** The code before its newest migration, in a folder. Undefined if git does not know it, as in a shallow clone. */
async function formerVersion(): Promise<string | undefined> {
  const folder = await newFolder()
  try {
    const journal = 'server/database/migrations/meta/_journal.json'
    const newest = git('log', '-1', '--format=%H', '--', journal).trim()
    const archive = join(folder, 'code.tar')
    const parts = ['server', 'contract', 'stand-ins', 'package.json']
    git('archive', `--output=${archive}`, `${newest}^`, ...parts)
    execFileSync('tar', ['-xf', archive, '-C', folder])
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    return folder
  } catch {
    console.log('The former version was not tested: its code is not in this clone.')
    return undefined
  }
}

const version = process.env.TEST_ALL === '1' ? await formerVersion() : undefined

test.runIf(version !== undefined)(
  'a process of the former version works beside a new one on the migrated database, and alone after it',
  async () => {
    const outside = await openOutside()
    const database = { url: await newPostgresDatabase() }
    const former = await startServer({ outside, database, version: version ?? '' })
    const portals = [0, 1, 2, 3, 4, 5, 6, 7]
    const connect = async (portal: number) =>
      connectAccount(former, { portal, channel: `C${portal}` })
    for (const portal of portals.slice(0, 4)) await connect(portal)
    const current = await startServer({ outside, database })
    onTestFinished(async () => {
      await Promise.all([former.kill(), current.kill()])
      await outside.close()
    })
    for (const portal of portals.slice(4)) await connect(portal)

    const told = portals.map((portal) =>
      (portal % 2 ? former : current).tell([stageChange(portal, { portal })]),
    )
    expect(new Set(await Promise.all(told))).toEqual(new Set([204]))
    expect(await drained(current, 20_000)).toMatchObject({ sent: 8, dead: 0, ignored: 0 })
    // As after a step back to the former version.
    await current.stop()
    for (const portal of portals) await former.tell([stageChange(10 + portal, { portal })])
    await vi.waitFor(() => expect(outside.posts).toHaveLength(16), { timeout: 20_000 })
    expect(outside.posts.map(dealIn).toSorted((a, b) => a - b)).toEqual([
      ...portals,
      ...portals.map((portal) => 10 + portal),
    ])
    expect(former.output.join('\n')).not.toMatch(/failed/)
  },
)
