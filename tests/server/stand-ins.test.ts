import { eq } from 'drizzle-orm'
import { expect, test, vi } from 'vitest'
import { connections, users } from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { forgetStandIns } from '../../server/people/stand-ins.ts'
import { browser, shareHarness, signIn } from './harness.ts'

const harness = await shareHarness()
const { providers } = harness.addresses
const log = vi.fn()
const standIn = { standIn: true, inUse: true }
const real = { standIn: false, inUse: true }
const off = { standIn: false, inUse: false }
const startWith = (hubspot: typeof real, slack: typeof real, teams = off) =>
  forgetStandIns(
    harness.database,
    { ...providers, hubspot, slack, 'microsoft-teams': teams },
    logTo((_level, ...line) => log(...line)),
  )
/** From now on, what all users have granted counts as granted by the real providers. */
const makeReal = () => harness.database.update(connections).set({ standIn: false })

test('a start with the real providers forgets what their stand-ins granted, and says so', async () => {
  await signIn(browser)
  await startWith(real, real)
  for (const table of [users, connections]) expect(await harness.database.$count(table)).toBe(0)
  for (const provider of ['hubspot', 'slack']) {
    expect(log).toHaveBeenCalledWith('stand-in forgotten', { provider, connections: 1 })
  }
  // The real providers never see the tokens.
  harness.calls.length = 0
  expect(await browser.connected('slack')).toEqual({ connected: false })
  expect(harness.calls).toEqual([])
})

test('a real Slack beside the stand-in HubSpot forgets only what the stand-in Slack granted', async () => {
  await signIn(browser)
  await startWith(standIn, real)
  expect(await browser.connected('hubspot')).toMatchObject({ connected: true })
  expect(await browser.connected('slack')).toEqual({ connected: false })
})

test.each([
  ['a stand-in', standIn],
  ['nothing', off],
])('a start with %s in the place of a real Slack is refused, in words', async (_, slack) => {
  await signIn(browser)
  await makeReal()
  await expect(startWith(real, slack)).rejects.toThrow(
    /The database has connections to Slack \(1\), .* Set SLACK_CLIENT_ID and SLACK_CLIENT_SECRET\./,
  )
  expect(await browser.connected('slack')).toMatchObject({ connected: true })
})

test('a chat by address keeps what was pasted beside its stand-in, and is not left out without words', async () => {
  await signIn(browser)
  const isReal = { provider: 'microsoft-teams', standIn: false } as const
  const ofSlack = eq(connections.provider, 'slack')
  await harness.database.update(connections).set(isReal).where(ofSlack)
  const kept = () => harness.database.$count(connections)
  for (const teams of [standIn, real]) await startWith(standIn, off, teams)
  expect(await kept()).toBe(2)
  await expect(startWith(standIn, standIn)).rejects.toThrow(
    /connections to Microsoft Teams \(1\), .* Set MICROSOFT_TEAMS_WEBHOOK_ORIGINS\. .* where provider = 'microsoft-teams'$/,
  )
  await harness.database.update(connections).set({ standIn: true })
  await startWith(standIn, off, real)
  expect(await kept()).toBe(1)
})

test('an identity of the stand-in HubSpot never equals a real one', async () => {
  await browser.connect('hubspot')
  const [user] = await harness.database.select().from(users)
  expect(user?.crmAccountId).toMatch(/^stand-in:\d+$/)
})
