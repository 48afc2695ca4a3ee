import { expect, test, vi } from 'vitest'
import { createCallCounter } from '../../server/database/call-counter.ts'
import { databaseKinds, openTestDatabase } from '../database.ts'

const minute = 60_000

test.each(databaseKinds)(
  'on %s, all channels that ask at the same time cost two statements, and each limit holds',
  async (kind) => {
    const { database, close } = await openTestDatabase(kind)
    const execute = vi.spyOn(database, 'execute')
    const count = createCallCounter(database)
    const other = createCallCounter(database)
    const ask = (key: string) => count(key, 2, minute)
    const asked = [ask('A'), ...Array.from({ length: 300 }, (_, n) => ask(`${n}`))]
    expect(await Promise.all(asked)).toEqual(asked.map(() => 0))
    expect(execute).toHaveBeenCalledTimes(2)

    // There is room for one more call of each key.
    const waits = await Promise.all([ask('A'), ask('A'), ask('A'), ask('0'), other('B', 2, minute)])
    expect(waits.map((ms) => ms === 0)).toEqual([true, false, false, true, true])
    const late = await other('0', 2, minute)
    expect(late).toBeGreaterThan(minute / 2)
    expect(late).toBeLessThanOrEqual(minute)
    // What is urgent may use more of the same limit.
    expect(await other('0', 3, minute)).toBe(0)
    await close()
  },
)
