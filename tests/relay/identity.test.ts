import { eq } from 'drizzle-orm'
import { describe, expect, test } from 'vitest'
import { connections, rules, sessions } from '../../server/database/schema.ts'
import { type Browser, browser, openBrowser, shareHarness, signIn } from '../server/harness.ts'

const harness = await shareHarness()

/** Whom HubSpot names from now on: which account, and which of its users. */
function atHubspot(hub_id: number, user_id: number): void {
  const tokens = { access_token: 'access', refresh_token: 'refresh', expires_in: 1800 }
  harness.faults.current = (request) =>
    request.url.endsWith('/oauth/2026-03/token')
      ? Response.json({ ...tokens, hub_id, user_id })
      : undefined
}

/** A browser connects HubSpot as this user of this account. */
async function connectAs(
  account: number,
  user: number,
  browser = openBrowser(harness),
): Promise<Browser> {
  atHubspot(account, user)
  await browser.connect('hubspot')
  return browser
}

test('the same HubSpot user finds the rules and both connections again from another browser', async () => {
  await signIn(browser)
  const other = openBrowser(harness)
  expect(await other.rules()).toEqual({ rules: [] })
  await other.connect('hubspot')
  expect(await other.rules()).toEqual({ rules: ['deal-closed'] })
  expect(await other.connected('slack')).toMatchObject({ connected: true })
  expect(await harness.database.select().from(connections)).toHaveLength(2)

  // Both browsers are the same person's from now on.
  await other.save(['deal-stage-changed'])
  expect(await browser.rules()).toEqual({ rules: ['deal-stage-changed'] })
})

test('what a browser did before it showed who it is goes along, and saved rules win', async () => {
  const known = openBrowser(harness)
  await known.connect('hubspot')
  await known.keep(['deal-stage-changed'])
  await browser.connect('slack')
  await browser.keep(['deal-stage-changed-orphan'])
  await browser.connect('hubspot')
  expect(await browser.rules()).toEqual({ rules: ['deal-stage-changed'] })
  expect(await browser.connected('slack')).toMatchObject({ connected: true })
  expect(await browser.connected('hubspot')).toMatchObject({ connected: true })
  // Its token opens under its new owner: the revocation reaches Slack.
  harness.calls.length = 0
  await browser.disconnect('slack')
  expect(harness.calls).toEqual(['POST /sandbox/slack/api/auth.revoke'])
  expect(harness.logged.join()).not.toContain('revoke failed')
  expect(await harness.database.select().from(rules)).toHaveLength(1)
})

describe('a stranger who leaves Slack connected in a shared browser', () => {
  /** A stranger connects Slack and ticks a rule, and then Ann connects HubSpot in the same browser. */
  async function annFollows(ann: Browser): Promise<void> {
    const shared = openBrowser(harness)
    await shared.connect('slack')
    await shared.keep(['deal-stage-changed-orphan'])
    const stranger = harness.database
      .select({ userId: sessions.userId })
      .from(sessions)
      .where(eq(sessions.tokenHash, shared.tokenHash()))
    await harness.database
      .update(connections)
      .set({ accountName: 'Stranger', channelName: '#stranger', grantId: 'stranger' })
      .where(eq(connections.userId, stranger))
    await shared.connect('hubspot')
    ann.cookie = shared.cookie
  }

  test('does not replace the Slack of a known user', async () => {
    const ann = await signIn(browser)
    const before = await ann.connected('slack')
    harness.calls.length = 0
    await annFollows(ann)
    expect(await ann.connected('slack')).toEqual(before)
    expect(await ann.rules()).toEqual({ rules: ['deal-closed'] })
    // The stranger's connection is gone. Its token is not revoked: it may be of another's workspace.
    const left = await harness.database.select().from(connections)
    expect(left.filter(({ grantId }) => grantId === 'stranger')).toEqual([])
    expect(harness.calls).not.toContain('POST /sandbox/slack/api/auth.revoke')
  })

  test('gives it to a known user who has none', async () => {
    const ann = await connectAs(8, 1)
    await annFollows(ann)
    expect(await ann.connected('slack')).toMatchObject({ account: 'Stranger' })
  })
})

describe('another HubSpot identity in the same browser', () => {
  test.each([
    ['account', 2, 1],
    ['person', 1, 2],
  ])(
    'of a second %s starts afresh, and the first one’s things are found again by authorizing as that one',
    async (_, account, user) => {
      atHubspot(1, 1)
      const shared = await connectAs(account, user, await signIn(browser))
      expect(await shared.rules()).toEqual({ rules: [] })
      expect(await shared.connected('slack')).toEqual({ connected: false })
      expect(await shared.connected('hubspot')).toMatchObject({ connected: true })
      await shared.keep(['deal-stage-changed'])
      await shared.disconnect('slack')

      for (const one of [openBrowser(harness), shared]) {
        await connectAs(1, 1, one)
        expect(await one.rules()).toEqual({ rules: ['deal-closed'] })
        expect(await one.connected('slack')).toMatchObject({ connected: true })
      }
    },
  )
})

test('the cookie is worth nothing at once when the browser becomes another person’s', async () => {
  atHubspot(9, 1)
  const shared = await signIn(browser)
  const former = openBrowser(harness)
  former.cookie = shared.cookie
  expect(await former.rules()).toEqual({ rules: ['deal-closed'] })
  await connectAs(9, 2, shared)
  expect(await former.rules()).toEqual({ rules: [] })
})
