import { describe, expect, test } from 'vitest'
import { authorizations, sessions } from '../../server/database/schema.ts'
import { sha256 } from '../../server/people/session.ts'
import {
  type Browser,
  browser,
  hold,
  openBrowser,
  refusal,
  shareHarness,
  start,
  writeOf,
  writes,
} from './harness.ts'

const harness = await shareHarness()

/** A browser with the cookie that another one has now. */
function thiefOf({ cookie }: Browser) {
  const thief = openBrowser(harness)
  thief.cookie = cookie
  return thief
}

const signOut = (query = '') => browser.call(`/api/session${query}`, { method: 'DELETE' })
const isSignedIn = async (one: Browser) =>
  JSON.stringify(await one.rules()) === '{"rules":["deal-closed"]}'

test('signing out of this browser ends its session, and removes the cookie', async () => {
  await browser.keep(['deal-closed'])
  const thief = thiefOf(browser)
  const answer = await signOut()
  expect(answer.status).toBe(204)
  const [cookie] = answer.headers.getSetCookie()
  expect(cookie).toBe('dealbell=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict')
  expect(await isSignedIn(thief)).toBe(false)
  expect(await harness.database.select().from(sessions)).toEqual([])
})

test('signing out of all others ends those of the same user, and no one else’s', async () => {
  const [other, stranger] = [openBrowser(harness), openBrowser(harness)]
  for (const one of [browser, other]) await one.connect('hubspot')
  for (const one of [browser, stranger]) await one.keep(['deal-closed'])
  expect(await isSignedIn(other)).toBe(true)
  const answer = await signOut('?others=true')
  expect(answer.status).toBe(204)
  expect(answer.headers.getSetCookie()).toEqual([])
  expect(await isSignedIn(other)).toBe(false)
  for (const one of [browser, stranger]) expect(await isSignedIn(one)).toBe(true)
})

// callback-orders.test.ts plays the orders of sign-outs, connections and disconnects.
describe('connecting Slack', () => {
  /** An attacker planted a session in the browser, and the user connects Slack there. */
  async function planted() {
    await browser.keep(['deal-closed'])
    const attacker = thiefOf(browser)
    await browser.connect('slack')
    return attacker
  }
  const minutes = (count: number, ms = 0) => new Date(start.getTime() + count * 60_000 + ms)

  // After that it connects HubSpot again, and finds everything: identity.test.ts.
  test('leaves a browser that never gets the answer able to read, for five minutes', async () => {
    const offline = await planted()
    harness.clock.now = minutes(5, -1)
    expect(await offline.connected('slack')).toMatchObject({ connected: true })
    expect(await isSignedIn(offline)).toBe(true)
    // Its use does not extend it.
    harness.clock.now = minutes(5)
    expect(await isSignedIn(offline)).toBe(false)
    expect(await isSignedIn(browser)).toBe(true)
  })

  test('leaves whoever knows the old token nothing but reading', async () => {
    await browser.connect('hubspot')
    const attacker = await planted()
    for (const [method, path] of writes) {
      const answer = await attacker.call(path, writeOf(method, {}))
      expect(await refusal(answer), path).toBe('409 replaced_session')
    }
    // What the attacker connects belongs to a new session: callback-orders.test.ts.
    expect(await isSignedIn(attacker)).toBe(true)
  })

  test('leaves no right to an authorization that began with the old token at the last moment', async () => {
    await browser.connect('hubspot')
    const attacker = await planted()
    // The call for it came before the token was replaced, and its row after that.
    await harness.database.insert(authorizations).values({
      stateHash: sha256('state'),
      sessionHash: attacker.tokenHash(),
      provider: 'slack',
      codeVerifier: 'verifier',
      expiresAt: minutes(10),
    })
    const before = harness.calls.length
    const callback = '/api/slack/callback?state=state&code=code'
    expect(await refusal(await attacker.call(callback))).toBe('400 invalid_state')
    expect(harness.calls).toHaveLength(before)
  })

  test('ends a callback with the old token, even if its authorization was not seen', async () => {
    await browser.connect('hubspot')
    const attacker = thiefOf(browser)
    const params = await attacker.authorize('slack')
    const [row] = await harness.database.select().from(authorizations)
    const exchange = hold()
    harness.faults.current = (request) => {
      if (!request.url.endsWith('oauth.v2.access')) return undefined
      harness.faults.current = undefined
      return exchange.wait().then(() => harness.standIn(request))
    }
    const callback = attacker.call(`/api/slack/callback?${params}`)
    await exchange.reached
    await browser.connect('slack')
    if (row !== undefined) await harness.database.insert(authorizations).values(row)
    exchange.release()
    expect(await refusal(await callback)).toBe('400 invalid_state')
    expect(await isSignedIn(attacker)).toBe(false)
  })
})
