import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { type Database, openPglite, openPostgres } from '../../server/database/open.ts'
import { connections, rules, users } from '../../server/database/schema.ts'
import { sealSecrets } from '../../server/people/connections.ts'
import { createVault } from '../../server/people/vault.ts'
import { type ServerOptions, serverKey } from '../relay/process.ts'

export type Target = ServerOptions['database']

export const openTarget = (target: Target) =>
  'url' in target
    ? openPostgres(target.url, () => undefined)
    : openPglite(join(target.folder, 'pglite'))

/** Runs `work` on a new database of this kind. @param postgresUrl the server that gets it, if it is PostgreSQL. */
export async function onNewDatabase(
  kind: string,
  postgresUrl: string,
  work: (database: Target) => Promise<void>,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'dealbell-bench-'))
  try {
    await work(kind === 'PGlite' ? { folder } : { url: await newDatabase(postgresUrl) })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

export async function newDatabase(postgresUrl: string): Promise<string> {
  const name = `bench_${randomUUID().replaceAll('-', '')}`
  const client = new pg.Client({ connectionString: postgresUrl })
  await client.connect()
  await client.query(`create database ${name}`)
  await client.end()
  return postgresUrl.replace(/postgres$/, name)
}

/**
 * Stores users with both services connected and a rule, each with an account of its own, from 1 on.
 */
export async function seedUsers(database: Database, count: number): Promise<void> {
  const vault = createVault([serverKey])
  const now = new Date()
  const all = Array.from({ length: count }, (_, at) => ({ userId: randomUUID(), n: at + 1 }))
  for (let first = 0; first < count; first += 1_000) {
    const some = all.slice(first, first + 1_000)
    // The clean-up deletes users without an identity, and would do so during the measurements.
    const identity = { crm: 'hubspot' as const, crmUserId: '1' }
    await database
      .insert(users)
      .values(some.map(({ userId, n }) => ({ id: userId, ...identity, crmAccountId: `${n}` })))
    const ruleIds = ['deal-stage-changed']
    await database
      .insert(rules)
      .values(some.map(({ userId }) => ({ userId, ruleIds, savedAt: now })))
    const rows = some.flatMap(({ userId, n }) => {
      const hubspot = { userId, provider: 'hubspot' } as const
      const chat = { userId, provider: 'slack' } as const
      return [
        {
          ...hubspot,
          secrets: sealSecrets(vault, hubspot, { accessToken: `t${n}`, refreshToken: `r${n}` }),
          accessExpiresAt: new Date(Date.now() + 3_600_000),
          accountId: `${n}`,
          grantId: `${n}`,
          connectedAt: now,
        },
        {
          ...chat,
          secrets: sealSecrets(vault, chat, { accessToken: `s${n}` }),
          // Slack limits the messages of a workspace, too.
          accountId: `T${n}`,
          grantId: `s${n}`,
          channelId: `C${n}`,
          connectedAt: now,
        },
      ]
    })
    await database.insert(connections).values(rows)
  }
}
