import { expect, test } from 'vitest'
import { newSeed } from '../seed.ts'
import { Dice } from '../simulation/time.ts'
import { hubSpotHeaders, stageChange } from './hubspot-webhook.ts'
import { backend, connect, outside, shareBackend } from './shared.ts'

const bodies = 10_000
const seed = Number(process.env.MALFORMED_SEED ?? newSeed(1))

const dice = new Dice(seed)
const { random } = dice
const randomBytes = (count: number) =>
  Buffer.from(Array.from({ length: count }, () => dice.whole(0, 255)))
const oddTexts = ['', ' ', 'x'.repeat(100_000), '\0', '\ud800', '💥']
const texts = [...oddTexts, '456', '4e2', '__proto__', 'NaN', '2026-01-01']
const numbers = [0, -1, 1.5, 1e308, -0, 2 ** 53, 2 ** 63]
const values = [null, true, [], [[]], {}, { a: 1 }, [null], ...numbers, ...texts] as const

/** A body that is signed, but not as HubSpot writes it. */
function malformed(): Buffer {
  const event: Record<string, unknown> = stageChange(1, { portal: 456 })
  for (let n = 0; n < 1 + random() * 3; n++) {
    const field = dice.oneOf(['constructor', 'toString', 'objectTypeId', ...Object.keys(event)])
    if (dice.chance(0.3)) delete event[field]
    else event[field] = dice.oneOf<unknown>(values)
  }
  const text = JSON.stringify(
    dice.oneOf<unknown>([[event], event, [[event]], { events: [event] }, [event, null, 5]]),
  )
  return dice.oneOf([
    () => Buffer.from(text),
    () => Buffer.from(text.slice(0, random() * text.length)),
    () => Buffer.from(text.replace(/[{}[\],:"]/g, (sign) => (dice.chance(0.1) ? '' : sign))),
    () => Buffer.concat([Buffer.from(text), randomBytes(3)]),
    () => Buffer.from(Buffer.from(text).map((byte) => (dice.chance(0.02) ? byte ^ 0x80 : byte))),
    () => randomBytes(dice.whole(0, 300)),
    () => Buffer.from('['.repeat(random() * 5000)),
    () => Buffer.alloc(0),
    () => Buffer.from(text, 'utf16le'),
  ])()
}

shareBackend()

test(`malformed bodies (MALFORMED_SEED=${seed}): no crash, no 5xx, and the next event is sent`, async () => {
  const rejections: unknown[] = []
  const collect = (reason: unknown) => rejections.push(reason)
  process.on('unhandledRejection', collect)
  await connect({ portal: 456, ruleIds: ['deal-closed'] })
  const statuses = new Map<number, number>()
  async function send(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      const body = malformed()
      const request = { method: 'POST', headers: hubSpotHeaders(body), body: new Uint8Array(body) }
      const { status } = await backend.app.request('/webhooks/hubspot', request)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 20 }, () => send(bodies / 20)))
  expect([...statuses.keys()].sort()).toEqual([204, 400])
  // Both kinds of answer are common, so the bodies reach both the parser and the schema.
  expect(statuses.get(204)).toBeGreaterThan(bodies / 100)
  expect(statuses.get(400)).toBeGreaterThan(bodies / 10)

  expect(await backend.tell([stageChange(2, { portal: 456, stage: 'w1' })])).toBe(204)
  await outside.accepted((posts) => posts.some(({ text }) => text.includes('Deal 2 was won')))
  await backend.settled()
  expect(rejections).toEqual([])
  process.off('unhandledRejection', collect)
})
