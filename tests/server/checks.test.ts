import { and, desc, eq, isNotNull, lt, or } from 'drizzle-orm'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { sendLastAgain } from '../../server/activity/retry-all.ts'
import { connections, users } from '../../server/database/schema.ts'
import { type Checks, createChecks } from '../../server/people/checks.ts'
import { openSecrets } from '../../server/people/connections.ts'
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
  searchedUntil,
  shareBackend,
  soon,
  startSearch,
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
const checked = (userId: string, checkedAt: Date) =>
  open.database.update(connections).set({ checkedAt }).where(eq(connections.userId, userId))

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

  // And within a day that it is there again.
  outside.answerRefresh = () => undefined
  outside.answerRead = () => undefined
  await checked(userId, ago(25 * hour))
  await vi.waitFor(async () => {
    expect(await shown(userId)).toMatchObject([connected, connected])
  }, soon)
})

// Everything that meets a refusal which may break a connection.
const tokenRefused = { status: 400, body: { error: 'invalid_grant', status: 'BAD_REFRESH_TOKEN' } }
const slackSays = (error: string) => ({ status: 200, body: { ok: false, error } })
/** The first three are of different kinds. */
const isEverything = process.env.TEST_ALL === '1'
type Says = () => boolean
interface Refused {
  name: 'HubSpot' | 'Slack'
  /** The provider refuses as long as `says` returns true. */
  refuse: (says: Says) => void
  /** Makes the call that is refused, the nth time. */
  meet: (userId: string, n: number) => Promise<unknown>
  isMessage?: boolean
}
const message = { meet: (_: string, n: number) => tell([n]), isMessage: true }
const check = { meet: (userId: string) => checked(userId, ago(25 * hour)) }
const postsRefused = (error: string): Refused => ({
  name: 'Slack',
  ...message,
  refuse: (says) =>
    answerPosts(() => {
      return says() ? { status: 200, body: JSON.stringify({ ok: false, error }) } : undefined
    }),
})
const refreshRefused: Pick<Refused, 'name' | 'refuse'> = {
  name: 'HubSpot',
  refuse: (says) => {
    outside.answerRefresh = () => (says() ? tokenRefused : undefined)
  },
}
const readsRefused = (category: string): Refused => ({
  name: 'HubSpot',
  ...message,
  refuse: (says) => {
    const answer = { status: 403, body: { status: 'error', category } }
    outside.answerRead = (path) => (/0-3.\d+\?/.test(path) && says() ? answer : undefined)
  },
})
const refusals: Array<[string, Refused]> = [
  ['the channel', postsRefused('is_archived')],
  ['a refresh, at a check', { ...refreshRefused, ...check }],
  ['a read', readsRefused('MISSING_SCOPES')],
  ['a read, with an unknown code', readsRefused('NO_LONGER_ALLOWED')],
  ['the token, for a message', postsRefused('invalid_auth')],
  [
    'the token, at a check',
    {
      name: 'Slack',
      ...check,
      refuse: (says) => {
        outside.answerRead = (path) =>
          path === authTest && says() ? slackSays('invalid_auth') : undefined
      },
    },
  ],
  ['a refresh, for a message', { ...refreshRefused, ...message }],
  [
    'a refresh, for a preview',
    {
      ...refreshRefused,
      meet: (userId) => backend.call(userId, '/api/notifications/preview'),
    },
  ],
  [
    'a refresh, for a search',
    {
      ...refreshRefused,
      async meet() {
        await search?.stop()
        await searchedUntil(Date.now() - hour)
        search = startSearch()
      },
    },
  ],
]

/** Resolves when no check is due or under way, and no connection is doubted. */
async function checksEnded(): Promise<void> {
  const { askAgainAt, checkedAt } = connections
  await vi.waitFor(async () => {
    const unsettled = or(isNotNull(askAgainAt), lt(checkedAt, ago(24 * hour)))
    expect(await open.database.$count(connections, unsettled)).toBe(0)
  }, soon)
  await Promise.all(checks.map((each) => each.stop()))
  startChecks()
}

test.each(isEverything ? refusals : refusals.slice(0, 3))(
  'one refusal of %s breaks nothing and loses nothing; if it goes on, the connection is broken until it is accepted again',
  async (_, { name, refuse, meet, isMessage = false }) => {
    const userId = await connectUser(new Date())
    startChecks()
    const status = () => backend.read(userId, `${name.toLowerCase()}/status`)
    const expireAndMeet = async (n: number) => {
      await open.database.update(connections).set({ accessExpiresAt: new Date(0) })
      await meet(userId, n)
    }
    let asked = 0
    refuse(() => ++asked === 1)
    await expireAndMeet(1)
    await vi.waitFor(() => expect(asked).toBeGreaterThan(1), soon)
    // The next refusal is a first one again.
    await checksEnded()
    expect(await shown(userId)).toMatchObject([connected, connected])
    expect(posts()).toHaveLength(Number(isMessage))

    let isRefused = true
    refuse(() => isRefused && ++asked > 0)
    await expireAndMeet(2)
    const isBroken = { connected: false, reason: expect.stringContaining(`${name} says that`) }
    await vi.waitFor(async () => expect(await status()).toMatchObject(isBroken), soon)
    // What is still under way would be an answer to the user's look.
    await checksEnded()
    await search?.stop()
    await backend.settled()
    const first = await status()

    // The user looks at it.
    const calls = asked
    await checked(userId, ago(minute))
    await status()
    await vi.waitFor(() => expect(asked).toBeGreaterThan(calls), soon)
    await checksEnded()
    await backend.settled()
    expect(await status()).toEqual(first)

    isRefused = false
    await checked(userId, ago(minute))
    await status()
    await vi.waitFor(async () => expect(await status()).toMatchObject(connected), soon)
    // Only a message shows that Slack takes messages. What else was missed waits for the user.
    expect(posts()).toHaveLength(isMessage ? (name === 'Slack' ? 2 : 1) : 0)
  },
)

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

  outside.names = { account: 'new.example', workspace: 'New', channel: 'new' }
  startChecks()
  const renamed = { account: 'new.example', workspace: 'New' }
  await vi.waitFor(async () => expect(await names()).toEqual({ ...renamed, ...unread }), soon)
  // Tokens of older installations have this scope.
  outside.slackScopes = 'incoming-webhook,chat:write,channels:read'
  await checked(userId, ago(25 * hour))
  await vi.waitFor(async () => expect(await names()).toEqual({ ...renamed, channel: '#new' }), soon)
  // What is not told stays.
  outside.names = {}
  await checked(userId, ago(25 * hour))
  await vi.waitFor(async () => {
    const due = lt(connections.checkedAt, ago(hour))
    expect(await open.database.$count(connections, and(ofUser, due))).toBe(0)
  }, soon)
  expect(await names()).toEqual({ ...renamed, channel: '#new' })
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
