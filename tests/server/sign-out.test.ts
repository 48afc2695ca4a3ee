import { eq } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { sessions, users } from '../../server/database/schema.ts'
import { sha256 } from '../../server/people/session.ts'
import { type Harness, openBrowser, openHarness, refusal } from './harness.ts'

let harness: Harness
let browser: ReturnType<typeof openBrowser>
const start = new Date('2026-11-20T12:00:00Z')
beforeAll(async () => {
  harness = await openHarness()
})
afterAll(() => harness.close())
beforeEach(async () => {
  await harness.database.delete(users)
  browser = openBrowser(harness)
})
afterEach(() => {
  harness.clock.now = start
})

/** A browser with the cookie that another one has now. */
function thiefOf({ cookie }: ReturnType<typeof openBrowser>) {
  const thief = openBrowser(harness)
  thief.cookie = cookie
  return thief
}

const signOut = (query = '') => browser.call(`/api/session${query}`, { method: 'DELETE' })
const isSignedIn = async (one: ReturnType<typeof openBrowser>) =>
  JSON.stringify(await one.rules()) === '{"rules":["deal-closed"]}'

describe('signing out', () => {
  test('of this browser ends its session, and removes the cookie', async () => {
    await browser.keep(['deal-closed'])
    const thief = thiefOf(browser)
    const answer = await signOut()
    expect(answer.status).toBe(204)
    const [cookie] = answer.headers.getSetCookie()
    expect(cookie).toBe('dealbell=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict')
    expect(await isSignedIn(thief)).toBe(false)
    expect(await harness.database.select().from(sessions)).toEqual([])
  })

  test('of all others ends those of the same user, and no one else’s', async () => {
    const [other, stranger] = [openBrowser(harness), openBrowser(harness)]
    for (const one of [browser, other]) await one.connect('hubspot')
    await browser.keep(['deal-closed'])
    await stranger.keep(['deal-closed'])
    // A disconnect does not sign out: after connecting again elsewhere, the first browser is still in.
    await other.disconnect('hubspot')
    await browser.connect('hubspot')
    expect(await isSignedIn(other)).toBe(true)

    const answer = await signOut('?others=true')
    expect(answer.status).toBe(204)
    expect(answer.headers.getSetCookie()).toEqual([])
    expect(await isSignedIn(other)).toBe(false)
    expect(await other.connected('hubspot')).toEqual({ connected: false })
    expect(await isSignedIn(browser)).toBe(true)
    expect(await isSignedIn(stranger)).toBe(true)
  })

  test.each(['', '?others=true'])('without a session is fine: %j', async (query) => {
    const stranger = openBrowser(harness)
    await stranger.keep(['deal-closed'])
    expect((await signOut(query)).status).toBe(204)
    browser.cookie = 'dealbell=never-given'
    expect((await signOut(query)).status).toBe(204)
    expect(await isSignedIn(stranger)).toBe(true)
  })

  test.each(['', '?others=true'])('is refused to another site: %j', async (query) => {
    await browser.keep(['deal-closed'])
    for (const headers of [
      { Origin: 'https://evil.example' },
      { 'Sec-Fetch-Site': 'cross-site' },
    ]) {
      const answer = await browser.send(`/api/session${query}`, { method: 'DELETE', headers })
      expect(await refusal(answer)).toBe('403 cross_site')
    }
    expect(await isSignedIn(browser)).toBe(true)
  })
})

describe('connecting Slack', () => {
  /** An attacker planted a session in the browser, and the user connects Slack there. */
  async function planted() {
    await browser.keep(['deal-closed'])
    const attacker = thiefOf(browser)
    await browser.connect('slack')
    return attacker
  }
  const minutes = (count: number, ms = 0) => new Date(start.getTime() + count * 60_000 + ms)

  test('replaces the token: the old one ends with the first use of the new one', async () => {
    const attacker = await planted()
    expect(browser.cookie).not.toBe(attacker.cookie)
    expect(await browser.connected('slack')).toMatchObject({ connected: true })
    expect(await attacker.connected('slack')).toEqual({ connected: false })
    expect(await isSignedIn(attacker)).toBe(false)
    expect(await harness.database.select().from(sessions)).toHaveLength(1)
  })

  test('leaves a browser that never gets the answer signed in, for five minutes', async () => {
    const offline = await planted()
    expect(await offline.connected('slack')).toMatchObject({ connected: true })
    // Connecting the CRM then keeps everything.
    harness.clock.now = minutes(5, -1)
    const params = await offline.authorize('hubspot')
    expect((await offline.call(`/api/hubspot/callback?${params}`)).status).toBe(204)
    harness.clock.now = minutes(60)
    expect(await offline.connected('slack')).toMatchObject({ connected: true })
    expect(await isSignedIn(offline)).toBe(true)
  })

  test('ends the old token after five minutes, if the new one is never used', async () => {
    const attacker = await planted()
    // Its use does not extend it.
    expect(await isSignedIn(attacker)).toBe(true)
    harness.clock.now = minutes(5)
    expect(await isSignedIn(attacker)).toBe(false)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('does not end another browser of the same user', async () => {
    const other = openBrowser(harness)
    await browser.connect('hubspot')
    await other.connect('hubspot')
    await browser.keep(['deal-closed'])
    await other.connect('slack')
    expect(await isSignedIn(other)).toBe(true)
    expect(await isSignedIn(browser)).toBe(true)
    const tokenHash = sha256(browser.cookie?.split('=')[1] ?? '')
    const found = harness.database.select().from(sessions).where(eq(sessions.tokenHash, tokenHash))
    expect(await found).toHaveLength(1)
  })
})
