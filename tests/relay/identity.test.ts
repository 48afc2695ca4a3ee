import { afterAll, beforeAll, expect, test } from 'vitest'
import { connections, rules, sessions, users } from '../../server/database/schema.ts'
import { type Harness, openBrowser, openHarness } from '../server/harness.ts'

let harness: Harness

beforeAll(async () => {
  harness = await openHarness()
})
afterAll(() => harness.close())

test('the same HubSpot user finds the rules and both connections again from another browser', async () => {
  const first = openBrowser(harness)
  await first.connect('hubspot')
  await first.connect('slack')
  await first.save(['deal-closed'])

  const other = openBrowser(harness)
  expect(await other.rules()).toEqual({ rules: [] })
  await other.connect('hubspot')
  expect(await other.rules()).toEqual({ rules: ['deal-closed'] })
  expect(await other.connected('slack')).toMatchObject({ connected: true })
  expect(await harness.database.select().from(connections)).toHaveLength(2)

  // Both browsers are the same person's from now on.
  await other.save(['deal-stage-changed'])
  expect(await first.rules()).toEqual({ rules: ['deal-stage-changed'] })
})

test('what a browser did before it showed who it is goes along, and saved rules win', async () => {
  const browser = openBrowser(harness)
  await browser.connect('slack')
  await browser.save(['deal-stage-changed-orphan'])
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

test('another HubSpot user finds nothing of this one', async () => {
  const browser = openBrowser(harness)
  await browser.connect('hubspot')
  await browser.save(['deal-closed'])
  await harness.database.update(users).set({ hubspotUserId: 'someone else' })
  const stranger = openBrowser(harness)
  await stranger.connect('hubspot')
  expect(await stranger.rules()).toEqual({ rules: [] })
  expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
})

test('two browsers of one new person at once end as one user', async () => {
  await harness.database.delete(users)
  const browsers = [openBrowser(harness), openBrowser(harness), openBrowser(harness)]
  await Promise.all(browsers.map((browser) => browser.connect('hubspot')))
  const owners = await harness.database.select({ userId: sessions.userId }).from(sessions)
  expect(new Set(owners.map(({ userId }) => userId)).size).toBe(1)
})
