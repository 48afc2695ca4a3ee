import { expect } from '@playwright/test'
import { http } from 'msw'
import { states } from '../states/states.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'
import { frame, holdCall, watchShifts } from './watch.ts'

/** What a page loads, each part in its own time, and the words that it shows before. */
const loads = {
  '/': {
    before: 'Loading dashboard...',
    calls: { statuses: '*/api/:provider/status', rules: '*/api/notifications/rules' },
  },
  '/activity': {
    before: 'Loading messages…',
    calls: { summary: '*/api/notifications/summary', messages: '*/api/notifications/activity' },
  },
} as const

const pageOf = (address: string) => new URL(address, 'http://localhost').pathname

/** The states of these pages that loading alone leads to, new ones too. */
const loadedStates = states.filter(
  ({ name, address, steps }) =>
    pageOf(address) in loads &&
    steps === undefined &&
    !/^Health|^Service|loading$|^The rules/.test(name),
)

/**
 * What these show comes late, and moves the rest: this is rare, users must see it, and room for its three lines
 * on a phone would be a hole for all others.
 */
const movesTheRest = ['Messages failed while Slack was disconnected']

// Only what is in the window counts. In a short one, the bar with Save sticks to its lower end.
for (const [width, height] of [
  [320, 640],
  [1280, 2200],
] as const) {
  test.describe(`at ${width} × ${height}`, () => {
    test.use({ viewport: { width, height }, hasTouch: width === 320 })

    for (const [start, { before, calls }] of Object.entries(loads)) {
      test(`nothing moves between loading and loaded, in any state of ${start}`, {
        tag: '@all',
      }, async ({ page }) => {
        test.setTimeout(240_000)
        const shifts = await watchShifts(page)
        const paths = Object.entries(calls)
        for (const state of loadedStates.filter(({ address }) => pageOf(address) === start)) {
          // On a phone, more stands below what comes late. One order is enough for the wide page.
          for (const order of width === 320 ? [paths, paths.toReversed()] : [paths.toReversed()]) {
            const held = order.map(([name, path]) => ({
              name,
              path,
              ...Promise.withResolvers<undefined>(),
            }))
            const backend = () => [
              ...held.map(({ path, promise }) => http.get(path, () => promise)),
              ...state.backend(),
            ]
            const shown = showState(page, { ...state, backend })
            await expect(page.getByText(before)).toBeVisible()
            for (const { name, resolve } of held) {
              await frame(page)
              resolve(undefined)
              if (name === 'statuses')
                await expect(page.getByText('Connections', { exact: true })).toBeVisible()
            }
            // What goes beyond section 7 comes later, and moves nothing either.
            await shown
            await frame(page)
            const told = `${state.name}, ${held.map(({ name }) => name)}`
            if (movesTheRest.includes(state.name)) expect.soft(await shifts(), told).not.toEqual([])
            else expect.soft(await shifts(), told).toEqual([])
          }
        }
      })
    }

    test('nothing moves while the backend is slow or away, nor on the other screens', {
      tag: '@all',
    }, async ({ page }) => {
      const shifts = await watchShifts(page)
      const text = (words: string) => page.getByText(words)
      const save = page.getByRole('button', { name: 'Save' })
      const retry = page.getByRole('button', { name: 'Try again' })
      const form = page.frameLocator('iframe').getByRole('button', { name: 'Send' })
      const handling = text('Handling HubSpot OAuth Callback...')
      const refused = text('HubSpot connection failed')
      const open = (address: string) => () => page.goto(address, { waitUntil: 'commit' })
      const health = '**/health'
      for (const [start, call, answer, before, after] of [
        [open('/'), health, 'passes', text('Loading…'), save],
        [open('/'), health, 'fails', text('Loading…'), text('Service Unavailable')],
        [() => retry.click(), health, 'passes', text('Trying…'), save],
        [open('/hubspot/callback?code=1'), '**/api/hubspot/callback*', 'fails', handling, refused],
        [open('/contact'), '**/sandbox/contact-form', 'passes', text('Fill out the form'), form],
      ] as const) {
        const letCall = await holdCall(page, call, answer)
        await start()
        await expect(before).toBeVisible()
        await frame(page)
        letCall()
        await expect(after).toBeVisible()
        await frame(page)
        expect.soft(await shifts(), `${call} ${answer}`).toEqual([])
        await page.unroute(call)
      }
    })
  })
}
