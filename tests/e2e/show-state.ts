import { setImmediate } from 'node:timers/promises'
import { expect, type FrameLocator, type Page, type Request as PageRequest } from '@playwright/test'
import { getResponse } from 'msw'
import { holdTime, type State } from '../states/states.ts'

/** What the browser makes of a system colour such as CanvasText. Runs in the page. */
export function colourOf(name: string): string {
  const probe = document.body.appendChild(document.createElement('span'))
  probe.style.color = name
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
}

const holding = new WeakSet<Page>()

/** The calls that the state on screen leaves without an answer. */
export const unanswered = new Set<PageRequest>()

/** Resolves after all answers that come from memory. */
async function turnsOfMemory() {
  for (let turn = 0; turn < 30; turn++) await setImmediate()
}

/**
 * Opens the built page in a state of tests/states. The backend in memory answers its calls.
 * @param settle waits after each step, if the page's clock stands still.
 */
export async function showState(page: Page, state: State, settle = async () => {}) {
  const { address, backend, steps } = state
  const handlers = backend()
  await page.unrouteAll()
  unanswered.clear()
  await page.route(/\/(health|api\/.*)$|\/api\/.*\?/, async (route) => {
    const request = route.request()
    const answer = getResponse(
      handlers,
      new Request(request.url(), {
        method: request.method(),
        headers: request.headers(),
        body: request.postData(),
      }),
    )
    const isLate = await Promise.race([answer.then(() => false), turnsOfMemory().then(() => true)])
    if (isLate) unanswered.add(request)
    const response = await answer
    unanswered.delete(request)
    // The page may be gone by now.
    await route
      .fulfill({
        status: response?.status ?? 501,
        headers: Object.fromEntries(response?.headers ?? []),
        body: (await response?.text()) ?? '',
      })
      .catch(() => {})
  })
  // Each script would wrap the timers once more.
  if (!holding.has(page)) await page.addInitScript(holdTime)
  holding.add(page)
  // The same address again would be a reload, which keeps what the history knows of the state before.
  await page.goto('about:blank')
  await page.goto(address)
  await settle()
  for (const step of steps ?? []) {
    if ('press' in step) await page.getByRole('button', { name: step.press, exact: true }).click()
    else await page.getByRole('checkbox', { name: step.tick }).check()
    await settle()
  }
  await expectState(page, state)
}

/**
 * Waits until the page, or the app in a frame, shows what only this state shows.
 * @returns the first part of it.
 */
export async function expectState(place: Page | FrameLocator, { shows }: Pick<State, 'shows'>) {
  const signs = [shows]
    .flat()
    .map((sign) =>
      typeof sign === 'string'
        ? place.getByText(sign).first()
        : place.getByRole(sign.role, { ...sign, exact: true }),
    )
  for (const sign of signs) await expect(sign).toBeVisible()
  const [first] = signs
  if (first === undefined) throw new Error('Each state shows something')
  return first
}
