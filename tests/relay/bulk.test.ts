import { expect, test } from 'vitest'
import { databaseKinds, newDatabase } from '../database.ts'
import { runBulk } from './bulk.ts'

const everyDeal = Array.from({ length: 2_000 }, (_, n) => n + 1)

test.each(databaseKinds)(
  'on %s: 2,000 deals at once cost few calls and few messages, and hold up no other account',
  async (kind) => {
    const { calls, refused, channels, otherMs } = await runBulk(await newDatabase(kind))
    expect(refused).toBe(0)
    expect(calls).toBeLessThanOrEqual(150)
    for (const { messages } of channels) {
      // A digest groups its deals by what happened.
      const inOrder = messages.flatMap((deals) => deals.toSorted((a, b) => a - b))
      expect(inOrder).toEqual(everyDeal)
      expect(messages.length).toBeLessThanOrEqual(120)
    }
    expect(otherMs.length).toBeGreaterThan(10)
    // Compared with the bulk itself, because machines differ. bench:relay measures both.
    const bulkMs = Math.min(...channels.map(({ doneAfterMs }) => doneAfterMs))
    expect(Math.max(...otherMs)).toBeLessThan(bulkMs / 10)
  },
  400_000,
)
