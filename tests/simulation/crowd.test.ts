import { afterAll, expect, test, vi } from 'vitest'
import { playCrowd, type Scene, scenes } from './crowd.ts'
import { SimulatedDatabase } from './database.ts'

// Room for a busy machine.
vi.setConfig({ testTimeout: 600_000 })
const database = await SimulatedDatabase.open()
afterAll(() => database.close())

// The type of Object.keys does not keep the names of the keys.
const names = Object.keys(scenes) as Scene[]
const isLarge = process.env.TEST_ALL === '1'
/** The other scenes need hundreds of channels that are at work at once, so they take longer. */
const quick: readonly Scene[] = ['waiting', 'skipped', 'disconnect']

test.each(isLarge ? names : quick)(
  'what a crowd costs the others does not grow with it: %s',
  async (scene) => {
    const { broken } = await playCrowd(database, scene, { isLarge })
    expect(broken).toEqual([])
  },
)
