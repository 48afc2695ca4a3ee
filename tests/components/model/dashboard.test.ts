import fc from 'fast-check'
import { afterEach, expect, test, vi } from 'vitest'
import { beginnings, steps, taken } from './commands.ts'
import { Model } from './model.ts'
import { Page } from './page.ts'

/** `npm run test:model` takes its time; MODEL_RUNS says otherwise. */
const isThorough = process.env.npm_lifecycle_event === 'test:model'
const numRuns = Number(process.env.MODEL_RUNS ?? (isThorough ? 1000 : 100))
// What a failure prints; with these it is taken again, at once and step by step.
const seed = Number(process.env.MODEL_SEED ?? Date.now() % 2 ** 31)
const path = process.env.MODEL_PATH
const replayPath = process.env.MODEL_REPLAY

let page: Page | undefined
afterEach(async () => {
  await page?.end()
  vi.useRealTimers()
})

test(`the dashboard is what the model says, after each of up to 50 steps, ${numRuns} times`, async () => {
  console.log(`${numRuns} runs with MODEL_SEED=${seed}`)
  // The clock stands, so that what is fresh is the model's to say; timers run.
  vi.useFakeTimers({ toFake: ['Date'] })

  await fc.assert(
    fc.asyncProperty(
      beginnings,
      fc.commands(steps, { maxCommands: 50, size: 'max', ...(replayPath && { replayPath }) }),
      async (beginning, commands) => {
        await fc.asyncModelRun(async () => {
          await page?.end()
          const real = new Page(beginning)
          page = real
          const model = new Model(beginning)
          model.load()
          await real.load('/')
          real.expectToBe(model)
          return { model, real }
        }, commands)
      },
    ),
    { seed, numRuns, ...(path !== undefined && { path }), verbose: 0 },
  )
  // A step that is never taken promises nothing; a few runs alone may not come to a rare one.
  if (path === undefined && numRuns >= 100) {
    expect([...taken].filter(([, times]) => times === 0)).toEqual([])
  }
}, 3_600_000)
