import { expect, type FrameLocator, type Page } from '@playwright/test'
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

/** Opens the built page in a state of tests/states. The backend in memory answers its calls. */
export async function showState(page: Page, state: State) {
  const { address, backend, steps } = state
  const handlers = backend()
  await page.unrouteAll()
  await page.route(/\/(health|api\/.*)$|\/api\/.*\?/, async (route) => {
    const request = route.request()
    const response = await getResponse(
      handlers,
      new Request(request.url(), {
        method: request.method(),
        headers: request.headers(),
        body: request.postData(),
      }),
    )
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
  for (const step of steps ?? []) {
    if ('press' in step) await page.getByRole('button', { name: step.press, exact: true }).click()
    else await page.getByRole('checkbox', { name: step.tick }).check()
  }
  await expectState(page, state)
}

/** Waits until the page, or the app in a frame, shows what only this state shows. */
export async function expectState(place: Page | FrameLocator, { shows }: Pick<State, 'shows'>) {
  for (const text of [shows].flat()) await expect(place.getByText(text).first()).toBeVisible()
}
