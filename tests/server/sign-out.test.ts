import { expect, test } from 'vitest'
import { sessions } from '../../server/database/schema.ts'
import { type Browser, browser, openBrowser, shareHarness } from './harness.ts'

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
  const [name] = thief.cookie?.split('=') ?? []
  expect(cookie).toBe(`${name}=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict`)
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
