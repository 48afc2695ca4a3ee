import fc from 'fast-check'
import { afterEach, beforeEach, test, vi } from 'vitest'
import { newSeed } from '../../seed.ts'
import { beginnings, rare, regressions, steps } from './commands.ts'
import { Model } from './model.ts'
import { Page } from './page.ts'

// `npm test` makes the same few runs each time, and `npm run test:all` new ones.
const runsAll = process.env.TEST_ALL === '1'
const numRuns = Number(process.env.MODEL_RUNS ?? (runsAll ? 100 : 15))
const seed = Number(process.env.MODEL_SEED ?? (runsAll ? newSeed(3) : 3))
// A failure prints both. With them, the failing run is repeated alone.
const path = process.env.MODEL_PATH
const replayPath = process.env.MODEL_REPLAY

let page: Page | undefined
beforeEach(() => {
  // The date stands still, so the model decides what is fresh. Timers run, but nothing is loaded again by itself.
  vi.useFakeTimers({ toFake: ['Date', 'setInterval', 'clearInterval'] })
})
afterEach(async () => {
  await page?.end()
  page = undefined
  vi.useRealTimers()
})

type Beginning = ConstructorParameters<typeof Model>[0]

/** Opens a new page, and a model of it. */
async function begin(beginning: Beginning) {
  await page?.end()
  const real = new Page(beginning)
  page = real
  const model = new Model(beginning)
  model.load()
  await real.load('/')
  real.expectToBe(model)
  return { model, real }
}

// A name in an array is not shortened.
const stories = [...regressions, ...rare].map(({ name, ...story }) => [name, story] as const)
test.each(stories)('%s', async (_name, { beginning, commands }) => {
  await fc.asyncModelRun(() => begin(beginning), commands)
})

test(`the dashboard equals its model after each of up to 50 steps, ${numRuns} times`, async () => {
  console.log(`${numRuns} runs with MODEL_SEED=${seed}`)
  await fc.assert(
    fc.asyncProperty(
      beginnings,
      // With its bias, most runs would be short.
      fc.noBias(
        fc.commands(steps, { maxCommands: 50, size: 'max', ...(replayPath && { replayPath }) }),
      ),
      async (beginning, commands) => {
        await fc.asyncModelRun(() => begin(beginning), commands)
      },
    ),
    { seed, numRuns, ...(path !== undefined && { path }), verbose: 0 },
  )
}, 3_600_000)
