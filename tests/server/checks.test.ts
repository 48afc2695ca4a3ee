import { desc, eq } from 'drizzle-orm'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { connections, users } from '../../server/database/schema.ts'
import { type Checks, createChecks } from '../../server/people/checks.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { backend, connect, hour, open, outside, shareBackend, soon } from '../relay/shared.ts'

const ago = (ms: number) => new Date(Date.now() - ms)
const authTest = '/slack/api/auth.test'

shareBackend('PGlite', { working: false })
let checks: Checks[] = []
beforeEach(async () => {
  await open.database.delete(users)
  outside.refreshes.length = 0
  // Slack accepts every token.
  outside.answerRead = (path) =>
    path === authTest ? { status: 200, body: { ok: true } } : undefined
})
afterEach(async () => {
  await Promise.all(checks.map((each) => each.stop()))
  checks = []
})

function startChecks(): void {
  const started = createChecks(backend, 20)
  checks.push(started)
  started.start()
}

async function connectUser(checkedAt: Date): Promise<string> {
  const userId = await connect()
  await open.database.update(connections).set({ checkedAt }).where(eq(connections.userId, userId))
  return userId
}

/** Resolves when no check is due. @returns how many hours ago each connection was checked. */
async function allChecked(): Promise<number[]> {
  const { provider, checkedAt } = connections
  const hoursAgo = async () => {
    const rows = open.database.select().from(connections).orderBy(provider, desc(checkedAt))
    return (await rows).map((row) => Math.round((Date.now() - row.checkedAt.getTime()) / hour))
  }
  await vi.waitFor(async () => {
    expect(Math.max(...(await hoursAgo()))).toBeLessThan(24)
  }, soon)
  // The last check may still be under way.
  for (const each of checks) await each.stop()
  return await hoursAgo()
}

/** What the dashboard shows this user of HubSpot and Slack. */
const shown = (userId: string): Promise<unknown[]> =>
  Promise.all(['hubspot', 'slack'].map((id) => backend.read(userId, `${id}/status`)))
const connected = { connected: true }
const broken = { connected: false }

test('the dashboard shows within a day that an app was removed, without any event', async () => {
  const userId = await connectUser(ago(25 * hour))
  outside.answerRefresh = () => ({
    status: 400,
    body: { error: 'invalid_grant', status: 'BAD_REFRESH_TOKEN' },
  })
  outside.answerRead = () => ({ status: 200, body: { ok: false, error: 'account_inactive' } })
  startChecks()
  await vi.waitFor(async () => {
    expect(await shown(userId)).toMatchObject([
      { ...broken, reason: 'HubSpot says that the access was revoked.' },
      { ...broken, reason: 'Slack says that the account or the app was deactivated.' },
    ])
  }, soon)

  // A broken connection is not checked again.
  await open.database.update(connections).set({ checkedAt: ago(25 * hour) })
  const calls = outside.reads.length + outside.refreshes.length
  const other = await connectUser(ago(26 * hour))
  await vi.waitFor(async () => {
    expect(await shown(other)).toMatchObject([broken, broken])
  }, soon)
  expect(outside.reads.length + outside.refreshes.length).toBe(calls + 2)
})

test('each connection is checked once a day at its own time, and its new token is stored', async () => {
  const due = await connectUser(ago(24 * hour))
  await connectUser(ago(22 * hour))
  // Two processes share the checks.
  startChecks()
  startChecks()
  expect(await allChecked()).toEqual([0, 22, 0, 22])
  expect(outside.refreshes).toHaveLength(1)
  expect(outside.reads).toEqual([authTest])
  const [row] = await open.database
    .select()
    .from(connections)
    .where(eq(connections.userId, due))
    .orderBy(connections.provider)
  if (row === undefined) throw new Error('There is no connection.')
  expect(openSecrets(backend.vault, row).accessToken).toMatch(/^hubspot-access-secret-1-1-\d+$/)
  expect(await shown(due)).toMatchObject([connected, connected])
})

test.each([
  ['does not answer', { status: 503, body: {} }, { status: 503, body: {} }],
  [
    'refuses us, and not the connection',
    { status: 400, body: { error: 'invalid_client', status: 'BAD_CLIENT_SECRET' } },
    { status: 200, body: { ok: false, error: 'a_new_error' } },
  ],
])(
  'a provider that %s breaks no connection, and is asked again in an hour',
  async (_, refresh, test) => {
    const userId = await connectUser(ago(30 * hour))
    outside.answerRefresh = () => refresh
    outside.answerRead = () => test
    startChecks()
    expect(await allChecked()).toEqual([23, 23])
    expect(await shown(userId)).toMatchObject([connected, connected])
  },
)
