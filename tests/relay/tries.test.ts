import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { retryAfterMs } from '../../server/relay/deliver.ts'
import { relayTimes } from '../../server/relay/times.ts'
import { openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'

describe('the wait after a failed try', () => {
  const tries = Array.from({ length: 19 }, (_, n) => n + 1)
  const wait = (random: number) => (n: number) => retryAfterMs(n, 1_000, () => random)

  test('doubles with each, up to a quarter of an hour', () => {
    const seconds = tries.map(wait(1)).map((ms) => ms / 1_000)
    expect(seconds.slice(0, 10)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512])
    expect(new Set(seconds.slice(10))).toEqual(new Set([900]))
  })

  test('is half certain and half chance, so that a crowd of tries spreads out', () => {
    for (const n of tries) {
      const most = wait(1)(n)
      expect([wait(0)(n), wait(0.5)(n)]).toEqual([most / 2, (most * 3) / 4])
      const chances = Array.from({ length: 50 }, () => retryAfterMs(n, 1_000))
      expect(Math.min(...chances)).toBeGreaterThanOrEqual(most / 2)
      expect(Math.max(...chances)).toBeLessThanOrEqual(most)
      expect(new Set(chances).size).toBeGreaterThan(10)
    }
  })
})

describe('twenty failed tries', () => {
  let open: OpenDatabase
  let outside: Outside
  let backend: Backend

  beforeAll(async () => {
    open = await openTestDatabase('PGlite')
    outside = await openOutside()
    // The first wait is so short that all twenty together take half a second.
    const times = { ...relayTimes, firstRetryMs: 0.001, pollMs: 20 }
    backend = await startBackend(open, outside, { times })
  })
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })

  test('and the delivery is dead, with the last reason; the next one has its own', async () => {
    const userId = await backend.connect({ portal: 1, channel: 'C1' })
    outside.answerRead = (path) => (path.includes('0-3/1?') ? { status: 502 } : undefined)
    const at = Date.now() - 10_000
    await backend.tell([
      stageChange(1, { portal: 1, at }),
      stageChange(2, { portal: 1, at: at + 1 }),
    ])
    await backend.settled()
    expect(outside.reads.filter((path) => path.includes('0-3/1?'))).toHaveLength(20)
    expect(await backend.outcomes(userId)).toEqual([
      ['dead', 'hubspot_status_502'],
      ['sent', null],
    ])
    const waits = backend.lines
      .map((line) => JSON.parse(line))
      .filter(({ event }) => event === 'delivery put off')
    expect(waits.map(({ tries }) => tries)).toEqual(Array.from({ length: 19 }, (_, n) => n + 1))
    expect(waits.at(-1).afterMs).toBeGreaterThan(100)
  })
})
