import { beforeEach, describe, expect, test } from 'vitest'
import { connections, rules, users } from '../../server/database/schema.ts'
import { browser, openBrowser, refusal, shareHarness, signIn } from './harness.ts'

const harness = await shareHarness()
beforeEach(() => signIn(browser))

const post = (body: BodyInit, type = 'application/json') => {
  const init = { method: 'POST', body, headers: { 'Content-Type': type }, duplex: 'half' }
  return browser.call('/api/notifications/rules', init)
}

test('an id that is stored already is kept, though it is not offered, and cannot be added', async () => {
  const kept = ['from-a-newer-version', 'invoice-paid']
  await browser.keep(['deal-closed', ...kept])
  expect((await browser.save(kept)).status).toBe(204)
  expect(await browser.rules()).toEqual({ rules: kept })
  await browser.keep([])
  expect(await refusal(await browser.save(kept))).toBe('400 unknown_rule')
})

// tests/contract/contract.test.ts has more of them.
describe('a body that is not right changes nothing', () => {
  const unchanged = async () => expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })

  test.each([
    ['a name from Object.prototype', '{"rules":["__proto__"]}', '400 unknown_rule'],
    ['null', 'null', '400 invalid_body'],
    ['a type like that of JSON', '{"rules":[]}', '415 not_json', 'application/jsonp'],
    ['no type', '{"rules":[]}', '415 not_json', ''],
  ])('%s', async (_name, body, expected, type = undefined) => {
    expect(await refusal(await post(body, type))).toBe(expected)
    await unchanged()
  })

  test('a body of 64 KiB is read, one byte more is not', async () => {
    const ofBytes = (bytes: number) => `${'{"rules":[],"pad":"'.padEnd(bytes - 2, 'x')}"}`
    const limit = 64 * 1024
    expect(await refusal(await post(ofBytes(limit + 1)))).toBe('413 too_large')
    await unchanged()
    expect((await post(ofBytes(limit))).status).toBe(204)
  })
})

test.each([[[]], [['hubspot']], [['slack']]] as const)(
  'with only %j connected, a save is refused and changes nothing',
  async (connected) => {
    const other = openBrowser(harness)
    // HubSpot's stand-in has one user.
    await harness.database.delete(users)
    for (const provider of connected) await other.connect(provider)
    const before = await harness.database.$count(users)
    expect(await refusal(await other.save(['deal-closed']))).toBe('409 not_connected')
    expect(await harness.database.$count(users)).toBe(before)
    expect(await harness.database.$count(rules)).toBe(0)
    if (connected.length === 0) expect(other.cookie).toBeUndefined()
  },
)

test('a connection that has just broken counts, so that the choice is not lost', async () => {
  const broken = { brokenReason: 'token_revoked', brokenSince: new Date() }
  await harness.database.update(connections).set(broken)
  expect((await browser.save(['deal-stage-changed'])).status).toBe(204)
  expect(await browser.rules()).toEqual({ rules: ['deal-stage-changed'] })
})
