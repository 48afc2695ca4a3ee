import { expect, test } from 'vitest'
import { type Browser, browser, openBrowser, shareHarness } from './harness.ts'

const harness = await shareHarness()

const isSignedIn = async (one: Browser) =>
  JSON.stringify(await one.rules()) === '{"rules":["deal-closed"]}'

test('signing out of all others ends those of the same user, and no one else’s', async () => {
  const [other, stranger] = [openBrowser(harness), openBrowser(harness)]
  for (const one of [browser, other]) await one.connect('hubspot')
  for (const one of [browser, stranger]) await one.keep(['deal-closed'])
  expect(await isSignedIn(other)).toBe(true)
  const answer = await browser.call('/api/session?others=true', { method: 'DELETE' })
  expect(answer.status).toBe(204)
  expect(answer.headers.getSetCookie()).toEqual([])
  expect(await isSignedIn(other)).toBe(false)
  for (const one of [browser, stranger]) expect(await isSignedIn(one)).toBe(true)
})
