import { setTimeout as delay } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type DatabaseKind, newDatabase } from '../database.ts'
import { dealsIn, stageChange } from './hubspot-webhook.ts'
import { openOutside, unexplainedRepeats } from './outside.ts'
import { connectAccount, drained, type ServerProcess, startServer } from './process.ts'

const channels = 100
/** These get half of the events, which is more than one a second. So they get digests. */
const busyChannels = 10
const events = 4_000
const chaosMs = 60_000

/** The account of an event. Each account has one channel. */
function portalOf(event: number): number {
  const pair = Math.floor(event / 2)
  return event % 2
    ? 1 + (pair % busyChannels)
    : 1 + busyChannels + (pair % (channels - busyChannels))
}

/** Kills servers for a minute. HubSpot sends events meanwhile, and repeats those that got no answer. */
export function chaosTest(kind: DatabaseKind, processes: number): void {
  test(`on ${kind}: 4,000 events over 100 channels, a kill every 200 to 800 ms for a minute, none lost`, async () => {
    const outside = await openOutside()
    const database = await newDatabase(kind)
    const start = () => startServer({ outside, database })

    const first = await start()
    for (let n = 0; n < channels; n++) {
      await connectAccount(first, { portal: n + 1, channel: `C${n}` })
    }
    await first.stop()

    const end = Date.now() + chaosMs
    const running = new Set<ServerProcess>()
    const kills: number[] = []

    async function keepKilling(): Promise<void> {
      while (Date.now() < end) {
        const server = await start()
        running.add(server)
        await delay(200 + Math.random() * 600)
        running.delete(server)
        kills.push(performance.now())
        await server.kill()
      }
    }

    async function keepTelling(): Promise<void> {
      const at = Date.now()
      for (let told = 0; told < events; told += 20) {
        const batch = Array.from({ length: 20 }, (_, n) =>
          stageChange(told + n, { portal: portalOf(told + n), at: at + told + n }),
        )
        // The events are spread over the minute. HubSpot repeats a batch that got no answer.
        while (Date.now() < at + (told / events) * (chaosMs - 5_000)) await delay(20)
        for (;;) {
          const [server] = running
          if (server !== undefined && (await server.tell(batch)) === 204) break
          await delay(20)
        }
      }
    }

    // The processes start one after the other, so their kills do not coincide.
    const killing = Array.from({ length: processes }, async (_, n) => {
      await delay(n * 300)
      await keepKilling()
    })
    const telling = keepTelling()
    await Promise.all(killing)
    const quiet = await start()
    running.add(quiet)
    await telling
    const status = await drained(quiet, 60_000)
    await quiet.stop()

    expect(kills.length).toBeGreaterThan(10)
    expect(status).toMatchObject({ sent: events, pending: 0, dead: 0, ignored: 0 })
    expect(new Set(outside.posts.flatMap(dealsIn)).size).toBe(events)
    expect(outside.posts.filter((post) => dealsIn(post).length > 1).length).toBeGreaterThan(10)
    // Many channels send at once, so one kill may explain several repeats.
    expect(unexplainedRepeats(outside.posts, kills)).toEqual([])

    for (let n = 0; n < channels; n++) {
      const posts = outside.posts.filter(({ channel }) => channel === `C${n}`)
      const deals = [...new Set(posts.flatMap(dealsIn))]
      expect(deals).toEqual(deals.toSorted((a, b) => a - b))
      const times = posts.map((post) => post.atMs)
      const gaps = times.slice(1).map((time, before) => time - (times[before] ?? 0))
      // Calls take different times to arrive, so the measured gap may be below one second.
      expect(Math.min(...gaps)).toBeGreaterThan(900)
    }
    await outside.close()
  }, 300_000)
}
