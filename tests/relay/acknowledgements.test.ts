import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { databaseKinds, newPostgresDatabase } from '../database.ts'
import { stageChange } from './hubspot-webhook.ts'
import { openOutside } from './outside.ts'
import { connectAccount, startServer } from './process.ts'

/**
 * How many times slower this machine is at the moment than the one of docs/performance.md at rest, by a
 * fixed piece of work; 1 for one that is faster. Neighbours on the same processor slow all alike, and
 * neither the load nor the processor's own time tells of them.
 */
function slowness(): number {
  const atRestMs = 120
  const times = Array.from({ length: 9 }, () => {
    const started = performance.now()
    const counts = new Map<number, number>()
    for (let n = 0; n < 1_000_000; n++) {
      const { length } = JSON.stringify({ n })
      counts.set(length, (counts.get(length) ?? 0) + 1)
    }
    return performance.now() - started
  }).sort((one, other) => one - other)
  return Math.max(1, (times[4] ?? 0) / atRestMs)
}

test.for(databaseKinds)(
  'on %s: while Slack hangs, batches of 100 with 50 in flight are acknowledged within 500 ms',
  { retry: 2 },
  async (kind) => {
    const outside = await openOutside()
    const folder = await mkdtemp(join(tmpdir(), 'dealbell-'))
    const database = kind === 'PGlite' ? { folder } : { url: await newPostgresDatabase() }
    const server = await startServer({ outside, database })
    for (let n = 0; n < 20; n++) await connectAccount(server, { portal: n + 1, channel: `C${n}` })
    outside.answerPost = () => 'hang'
    let next = 0
    const times: number[] = []
    async function keepTelling(until: number): Promise<void> {
      while (times.length < until) {
        const batch = Array.from({ length: 100 }, () =>
          stageChange(++next, { portal: (next % 20) + 1 }),
        )
        const started = performance.now()
        expect(await server.tell(batch)).toBe(204)
        times.push(performance.now() - started)
      }
    }
    const tell = (batches: number) =>
      Promise.all(Array.from({ length: 50 }, () => keepTelling(batches)))
    // Until the code is compiled and Slack has every channel's first call.
    await tell(200)
    expect(outside.calls.length).toBeGreaterThanOrEqual(20)
    // What others on the machine do in a moment spoils a 99th percentile, so the best of some rounds counts.
    let best = Number.POSITIVE_INFINITY
    for (let round = 0; round < 6 && best >= 500; round++) {
      times.length = 0
      await tell(400)
      times.sort((a, b) => a - b)
      best = Math.min(best, times[Math.floor(times.length * 0.99)] ?? best)
    }
    expect(best).toBeLessThan(500 * slowness())
    await server.kill()
    await outside.close()
    await rm(folder, { recursive: true, force: true })
  },
)
