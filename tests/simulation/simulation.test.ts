import { readFileSync } from 'node:fs'
import { afterAll, expect, test, vi } from 'vitest'
import { type CrmId, crmIds } from '../../server/providers/registry.ts'
import { newSeed } from '../seed.ts'
import { breaks } from './breaks.ts'
import { SimulatedDatabase } from './database.ts'
import { explain } from './explain.ts'
import { simulate } from './simulate.ts'

const runsAll = process.env.TEST_ALL === '1'
/** For each CRM. A quiet processor plays each in about a second. */
const fixedSeeds = runsAll ? 20 : 4
/** Only `npm run test:all` plays these, and others at each run. */
const newSeeds = 50
/** Seeds that have failed once. Only `npm run test:all` plays them. */
const failed: Record<CrmId, readonly number[]> = {
  hubspot: [
    341, 359, 1044, 1114, 1144, 2787, 3043, 357275833, 363985816, 410002088, 420001286, 2000998,
  ],
  pipedrive: [7112, 585664528, 5800009, 23000210, 23000549, 25000223, 700100122, 700100245],
}
// Room for a busy machine, which plays a seed in two seconds.
vi.setConfig({ testTimeout: 3_600_000 })
const database = await SimulatedDatabase.open()
afterAll(() => database.close())

/** @param crm By default, each seed draws it. */
async function play(seeds: readonly number[], crm?: CrmId): Promise<void> {
  for (const seed of seeds) {
    const run = await simulate(database, seed, { crm })
    if (run.broken.length > 0) expect.fail(await explain(database, run))
  }
}
const from = (first: number, count: number) => Array.from({ length: count }, (_, at) => first + at)

test.each(crmIds)('no promise is broken with fixed seeds: %s', async (crm) => {
  await play([...(runsAll ? failed[crm] : []), ...from(1, fixedSeeds)], crm)
})

test.runIf(runsAll)('no promise is broken with new seeds', async () => {
  await play(from(newSeed(fixedSeeds + 1), newSeeds))
})

test.runIf(runsAll)('a seed repeats exactly', async () => {
  for (const crm of crmIds) {
    const [once, again] = [
      await simulate(database, 1, { crm }),
      await simulate(database, 1, { crm }),
    ]
    expect(again.log).toEqual(once.log)
  }
})

test('each fix that `--breaks` undoes still stands in its file', () => {
  const gone = breaks.filter(
    ({ file, from }) => readFileSync(file, 'utf8').split(from).length !== 2,
  )
  expect(gone).toEqual([])
})
