import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { openTestDatabase } from '../database.ts'
import { startBackend } from './backend.ts'
import { hubSpotHeaders, stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'

const pick = <Value>(values: readonly Value[]): Value => {
  const value = values[Math.floor(Math.random() * values.length)]
  if (value === undefined) throw new Error('There is nothing to pick from.')
  return value
}

const values: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  1e308,
  -0,
  2 ** 53,
  2 ** 63,
  '',
  ' ',
  'x'.repeat(100_000),
  '\0',
  '\ud800',
  '\u202e',
  '💥',
  '<!channel>',
  "'; drop table deliveries; --",
  '__proto__',
  [],
  [[]],
  {},
  { a: 1 },
  [null],
  '456',
  '4e2',
  'NaN',
  '2026-01-01',
  Number.MAX_SAFE_INTEGER,
]

/** A body that HubSpot might sign and should not send. */
function malformed(): Buffer {
  const event: Record<string, unknown> = stageChange(1, { portal: 456 })
  for (let n = 0; n < 1 + Math.random() * 3; n++) {
    const field = pick([...Object.keys(event), 'constructor', 'toString', 'objectTypeId'])
    if (Math.random() < 0.3) delete event[field]
    else event[field] = pick(values)
  }
  const text = JSON.stringify(
    pick([[event], event, [[event]], { events: [event] }, [event, null, 5]]),
  )
  return pick([
    () => Buffer.from(text),
    () => Buffer.from(text.slice(0, Math.random() * text.length)),
    () => Buffer.from(text.replace(/[{}[\],:"]/g, (sign) => (Math.random() < 0.1 ? '' : sign))),
    () => Buffer.concat([Buffer.from(text), randomBytes(3)]),
    () => Buffer.from(Buffer.from(text).map((byte) => (Math.random() < 0.02 ? byte ^ 0x80 : byte))),
    () => randomBytes(Math.random() * 300),
    () => Buffer.from('['.repeat(Math.random() * 5000)),
    () => Buffer.alloc(0),
    () => Buffer.from(text, 'utf16le'),
  ])()
}

test('10,000 malformed bodies: no crash, no 5xx, and the next event is said', async () => {
  const rejections: unknown[] = []
  const note = (reason: unknown) => rejections.push(reason)
  process.on('unhandledRejection', note)
  const outside = await openOutside()
  const open = await openTestDatabase('PGlite')
  const backend = await startBackend(open, outside)
  await backend.connect({ portal: 456, channel: 'C1', ruleIds: ['deal-closed'] })

  const statuses = new Map<number, number>()
  async function send(count: number): Promise<void> {
    for (let n = 0; n < count; n++) {
      const body = malformed()
      const headers = hubSpotHeaders(body)
      const answer = await backend.app.request('/webhooks/hubspot', {
        method: 'POST',
        headers,
        body: new Uint8Array(body),
      })
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
    }
  }
  await Promise.all(Array.from({ length: 20 }, () => send(500)))
  expect([...statuses.keys()].sort()).toEqual([204, 400])
  expect(statuses.get(204)).toBeGreaterThan(100)
  expect(statuses.get(400)).toBeGreaterThan(1000)

  expect(await backend.tell([stageChange(2, { portal: 456, stage: 'w1' })])).toBe(204)
  await outside.accepted((posts) => posts.some(({ text }) => text.includes('Deal 2 was won')))
  await backend.settled()
  expect(rejections).toEqual([])
  process.off('unhandledRejection', note)
  await backend.stop()
  await open.close()
  await outside.close()
})
