import { desc, eq } from 'drizzle-orm'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sendLastAgain } from '../../server/activity/retry-all.ts'
import { connections, users } from '../../server/database/schema.ts'
import { type Checks, createChecks } from '../../server/people/checks.ts'
import { openSecrets, sealSecrets } from '../../server/people/connections.ts'
import type { CatchUp } from '../../server/relay/search/schedule.ts'
import {
  answerPosts,
  backend,
  connect,
  hour,
  minute,
  open,
  outside,
  portal,
  posts,
  range,
  refusePosts,
  shareBackend,
  soon,
  tell,
} from '../relay/shared.ts'

const ago = (ms: number) => new Date(Date.now() - ms)
const authTest = '/slack/api/auth.test'

shareBackend()
let checks: Checks[] = []
let search: CatchUp | undefined
beforeEach(async () => {
  await open.database.delete(users)
  outside.refreshes.length = 0
  outside.reads.length = 0
  outside.names = { account: 'acme.example' }
})
afterEach(async () => {
  await Promise.all([...checks, search].map((each) => each?.stop()))
  checks = []
  search = undefined
})

function startChecks(): void {
  const times = { pollMs: 20, askAgainMs: 50 }
  const started = createChecks({ ...backend, sendLastAgain }, times)
  checks.push(started)
  started.start()
}

async function connectUser(checkedAt: Date): Promise<string> {
  const userId = await connect()
  await checked(userId, checkedAt)
  return userId
}

/** As if a user's connections had been checked then. */
const checked = (userId: string, at: Date) =>
  open.database
    .update(connections)
    .set({ checkAt: new Date(at.getTime() + 24 * hour), checkAsked: false })
    .where(eq(connections.userId, userId))

/** Resolves when no check is due. @returns in how many hours each connection is checked. */
async function allChecked(): Promise<number[]> {
  const { provider, checkAt } = connections
  const hoursUntil = async () => {
    const rows = open.database.select().from(connections).orderBy(provider, desc(checkAt))
    return (await rows).map((row) => Math.round((row.checkAt.getTime() - Date.now()) / hour))
  }
  await vi.waitFor(async () => {
    expect(Math.min(...(await hoursUntil()))).toBeGreaterThan(0)
  }, soon)
  // The last check may still be under way.
  for (const each of checks) await each.stop()
  return await hoursUntil()
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

  // And within a day that it is there again.
  outside.answerRefresh = () => undefined
  outside.answerRead = () => undefined
  await checked(userId, ago(25 * hour))
  await vi.waitFor(async () => {
    expect(await shown(userId)).toMatchObject([connected, connected])
  }, soon)
})

test('a connection that an archived channel has broken works again when its user looks at it', async () => {
  const userId = await connectUser(new Date())
  refusePosts('is_archived')
  await tell([1])
  await backend.settled()
  expect(await shown(userId)).toMatchObject([connected, broken])
  answerPosts(() => undefined)
  await checked(userId, ago(minute))
  startChecks()
  await shown(userId)
  await vi.waitFor(async () => {
    expect(await shown(userId)).toMatchObject([connected, connected])
  }, soon)
  expect(posts()).toHaveLength(1)
})

test('each connection is checked once a day at its own time, and its new token is stored', async () => {
  const due = await connectUser(ago(24 * hour))
  await connectUser(ago(22 * hour))
  // Two processes share the checks.
  startChecks()
  startChecks()
  expect(await allChecked()).toEqual([24, 2, 24, 2])
  expect(outside.refreshes).toHaveLength(1)
  expect(outside.reads).toEqual([authTest])
  const [row] = await open.database
    .select()
    .from(connections)
    .where(eq(connections.userId, due))
    .orderBy(connections.provider)
  if (row === undefined) throw new Error('There is no connection.')
  expect(openSecrets(backend.vault, row).accessToken).toMatch(
    new RegExp(`^hubspot-access-secret-${portal}-1-\\d+$`),
  )
  expect(await shown(due)).toMatchObject([connected, connected])
})

test('the daily check tells new names; of a channel that it may not read, the status says how old the name is', async () => {
  const userId = await connectUser(ago(25 * hour))
  const ofUser = eq(connections.userId, userId)
  const names = async () => {
    const [hubspot, slack] = await Promise.all(
      ['hubspot', 'slack'].map((id) => backend.read(userId, `${id}/status`)),
    )
    const { account: workspace, channel, channelAsOf } = slack
    return { account: hubspot.account, workspace, channel, channelAsOf }
  }
  const connectedAt = ago(50 * hour)
  await open.database.update(connections).set({ connectedAt }).where(ofUser)
  const old = await names()
  const unread = { channel: old.channel, channelAsOf: connectedAt.toISOString() }
  expect(old).toMatchObject(unread)

  outside.names = { account: 'new\u202E.example', workspace: '\u0000New\u009B', channel: 'new' }
  startChecks()
  const renamed = { account: 'new.example', workspace: 'New' }
  await vi.waitFor(async () => expect(await names()).toEqual({ ...renamed, ...unread }), soon)
})

test('a refused connection is asked again in time beside a thousand overdue checks that get no answer', async () => {
  const userId = await connect()
  const people = await open.database
    .insert(users)
    .values(range(0, 1_000).map(() => ({})))
    .returning()
  const provider = 'hubspot' as const
  const secrets = { accessToken: 'access', refreshToken: 'of the crowd' }
  await open.database.insert(connections).values(
    people.map(({ id }) => ({
      userId: id,
      provider,
      secrets: sealSecrets(backend.vault, { userId: id, provider }, secrets),
      accountId: 'crowd',
      grantId: id,
      connectedAt: ago(50 * hour),
      checkAt: ago(6 * hour),
    })),
  )
  const { promise: never, resolve: answer } = Promise.withResolvers<undefined>()
  const refusal = { status: 400, body: { status: 'BAD_REFRESH_TOKEN' } }
  outside.answerRefresh = (token) => (token === secrets.refreshToken ? never : refusal)
  startChecks()
  await vi.waitFor(async () => {
    expect(outside.refreshes).toContain(secrets.refreshToken)
    expect((await shown(userId))[0]).toMatchObject(broken)
  }, soon)
  answer(undefined)
})
