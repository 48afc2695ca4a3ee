import { describe, expect, test } from 'vitest'
import {
  headerRefusal,
  hubSpotSignature,
  signatureRefusal,
} from '../../server/providers/hubspot/signature.ts'

const secret = 'test-client-secret'
const now = 1_767_225_600_000
const url = 'https://example.test/webhooks/hubspot?a=b/c'
const text =
  '[{"eventId":1,"subscriptionType":"deal.propertyChange","propertyName":"dealstage","propertyValue":"closedwon","objectId":123,"portalId":456,"attemptNumber":0}]'
const body = Buffer.from(text)
const signature = '3dAJppn613NISrlBHlJyeCNoHeX6Pu53G/E8Nt8fcbI='
const vector = { method: 'POST', url, body, timestamp: String(now), signature }

type SignedRequest = Parameters<typeof signatureRefusal>[1]
/** Why the vector is refused if these parts of it differ. */
const refusalOf = (part: Partial<SignedRequest>) =>
  signatureRefusal([secret], { ...vector, ...part }, now)

test('the vector on which two independent implementations agree is accepted', () => {
  expect(refusalOf({})).toBeUndefined()
})

// From the tests of HubSpot's own client for Node.
test.each([
  ['1693657560000', 'K36dawei4A+QBNolUOqo7s91KQDWQ5MXZ/QufNYuk/Y='],
  ['1700000300000', 'RnbPH7+UMKVkbV32P8bz450N4M56aPmcru1+D3kSDtw='],
])('HubSpot’s own vector of %s is accepted', (timestamp, signature) => {
  const request = {
    method: 'POST',
    url: 'https://www.example.com/webhook_uri',
    body: Buffer.from("{'example_field':'example_value'}"),
    timestamp,
    signature,
  }
  const own = 'yyyyyyyy-yyyy-yyyy-yyyy-yyyyyyyyyyyy'
  expect(signatureRefusal([own], request, Number(timestamp))).toBeUndefined()
})

test('the twelve escapes are decoded in the address, in either case, and no others', () => {
  const escaped = 'https://example.test/webhooks/hubspot?a=b%2Fc'
  for (const url of [escaped, escaped.toLowerCase()]) expect(refusalOf({ url })).toBeUndefined()
  const sign = (address: string) =>
    hubSpotSignature(secret, { method: 'POST', url: address, body, timestamp: String(now) })
  expect(sign('/%3A%2F%3F%40%21%24%27%28%29%2A%2C%3B')).toBe(sign("/:/?@!$'()*,;"))
  expect(sign('/%20%26%23%25')).not.toBe(sign('/ &#%'))
})

test('text beyond ASCII is signed by its bytes', () => {
  const body = Buffer.from('[{"propertyValue":"Łódź 🎉 é"}]')
  const signature = hubSpotSignature(secret, { ...vector, body })
  expect(refusalOf({ body, signature })).toBeUndefined()
  const decomposed = Buffer.from(String(body).normalize('NFD'))
  expect(refusalOf({ body: decomposed, signature })).toBe('signature')
})

test.each<[string, Partial<SignedRequest>]>([
  ['another method', { method: 'PUT' }],
  ['the method in lower case', { method: 'post' }],
  ['http instead of https', { url: url.replace('https', 'http') }],
  ['a body with a space more', { body: Buffer.from(`${text} `) }],
  ['a body printed anew', { body: Buffer.from(JSON.stringify(JSON.parse(text), null, 1)) }],
  ['a millisecond more', { timestamp: String(now + 1) }],
])('refused: %s', (_, part) => {
  expect(refusalOf(part)).toBeDefined()
})

test('each of several secrets may have signed, and no other', () => {
  expect(signatureRefusal(['new', secret], vector, now)).toBeUndefined()
  expect(signatureRefusal([secret, 'old'], vector, now)).toBeUndefined()
  expect(signatureRefusal([`${secret}!`, 'old'], vector, now)).toBe('signature')
})

test.each([
  ['missing', { signature: '' }],
  ['missing', { signature: 'short' }],
  ['missing', { signature: `${signature}x` }],
  ['missing', { timestamp: '' }],
  ['missing', { timestamp: 'soon' }],
  ['time', { timestamp: String(now - 300_001) }],
  ['signature', { body: Buffer.from('[]') }],
] as const)('the reason of a refusal is %s with %j', (why, part) => {
  expect(refusalOf(part)).toBe(why)
  // The headers alone tell all but a wrong signature.
  expect(headerRefusal({ ...vector, ...part }, now)).toBe(why === 'signature' ? undefined : why)
})

describe('the timestamp', () => {
  const refusalAt = (timestamp: string) =>
    refusalOf({ timestamp, signature: hubSpotSignature(secret, { ...vector, timestamp }) })

  test.each([
    [300_000, undefined],
    [-300_000, undefined],
    [300_001, 'time'],
    [-300_001, 'time'],
  ])('that is signed and %i ms away is refused: %s', (offset, why) => {
    expect(refusalAt(String(now + offset))).toBe(why)
  })

  test.each(['NaN', '-1', ` ${now}`, `${now}.0`, `0x${now.toString(16)}`, `${now}\n`])(
    '%j is refused, though it is signed',
    (timestamp) => {
      expect(refusalAt(timestamp)).toBe('missing')
    },
  )
})
