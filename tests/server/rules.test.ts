import { afterAll, beforeEach, describe, expect, test } from 'vitest'
import { connections, rules, users } from '../../server/database/schema.ts'
import { openBrowser, openHarness, refusal } from './harness.ts'

const harness = await openHarness()
let browser: ReturnType<typeof openBrowser>
afterAll(() => harness.close())
beforeEach(async () => {
  await harness.database.delete(users)
  browser = openBrowser(harness)
  await browser.connect('hubspot')
  await browser.connect('slack')
})

const post = (body: BodyInit, headers: Record<string, string> = {}) =>
  browser.call('/api/notifications/rules', {
    method: 'POST',
    body,
    headers: { 'Content-Type': 'application/json', ...headers },
  })

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
  beforeEach(async () => {
    await browser.save(['deal-closed'])
  })
  const unchanged = async () => expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })

  test.each([
    ['a name from Object.prototype', '{"rules":["__proto__"]}', '400 unknown_rule'],
    ['null', 'null', '400 invalid_body'],
    ['nothing', '', '400 invalid_json'],
    ['a form', '{"rules":[]}', '415 not_json', 'multipart/form-data; boundary=x'],
    ['a type like that of JSON', '{"rules":[]}', '415 not_json', 'application/jsonp'],
    ['no type', '{"rules":[]}', '415 not_json', ''],
  ])('%s', async (_name, body, expected, type = 'application/json') => {
    expect(await refusal(await post(body, { 'Content-Type': type }))).toBe(expected)
    await unchanged()
  })

  test('a body of 64 KiB is read, one byte more is not', async () => {
    const ofBytes = (bytes: number) => {
      const frame = '{"rules":[],"pad":""}'
      return frame.replace('""', `"${'x'.repeat(bytes - frame.length)}"`)
    }
    const limit = 64 * 1024
    expect(await refusal(await post(ofBytes(limit + 1)))).toBe('413 too_large')
    await unchanged()
    expect((await post(ofBytes(limit))).status).toBe(204)
  })

  test('a large body that does not tell its length is not read to its end', async () => {
    const chunk = new Uint8Array(16 * 1024).fill(32)
    let sent = 0
    const body = new ReadableStream({
      pull(controller) {
        sent += chunk.length
        if (sent > 10 * 1024 * 1024) controller.close()
        else controller.enqueue(chunk)
      },
    })
    const answer = await browser.call('/api/notifications/rules', {
      method: 'POST',
      body,
      headers: { 'Content-Type': 'application/json' },
      ...{ duplex: 'half' },
    })
    expect(await refusal(answer)).toBe('413 too_large')
    expect(sent).toBeLessThan(256 * 1024)
    await unchanged()
  })

  test('JSON may name its charset', async () => {
    const answer = await post('{"rules":[]}', { 'Content-Type': 'application/json; charset=utf-8' })
    expect(answer.status).toBe(204)
  })
})

describe('without both connections, a save is refused and changes nothing', () => {
  test.each([[[]], [['hubspot']], [['slack']]] as const)('connected is %j', async (connected) => {
    const other = openBrowser(harness)
    // HubSpot's stand-in has one user.
    await harness.database.delete(users)
    for (const provider of connected) await other.connect(provider)
    const before = await harness.database.$count(users)
    expect(await refusal(await other.save(['deal-closed']))).toBe('409 not_connected')
    expect(await harness.database.$count(users)).toBe(before)
    expect(await harness.database.$count(rules)).toBe(0)
    if (connected.length === 0) expect(other.cookie).toBeUndefined()
  })

  test('a connection that has just broken counts, so that the choice is not lost', async () => {
    await harness.database
      .update(connections)
      .set({ brokenReason: 'token_revoked', brokenSince: new Date() })
    expect((await browser.save(['deal-closed'])).status).toBe(204)
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
  })
})
