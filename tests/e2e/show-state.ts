import { expect, type FrameLocator, type Page } from '@playwright/test'
import { getResponse } from 'msw'
import { holdTime, type State } from '../states/states.ts'

/** Opens the built page in a state of tests/states: the real server's page, on the backend in memory. */
export async function showState(page: Page, state: State) {
  const { address, backend, steps } = state
  const handlers = backend()
  await page.unrouteAll()
  await page.route(/\/(health|api\/.*)$|\/api\/.*\?/, async (route) => {
    const asked = route.request()
    const response = await getResponse(
      handlers,
      new Request(asked.url(), {
        method: asked.method(),
        headers: asked.headers(),
        body: asked.postData(),
      }),
    )
    // The page may have been left meanwhile.
    await route
      .fulfill({
        status: response?.status ?? 501,
        headers: Object.fromEntries(response?.headers ?? []),
        body: (await response?.text()) ?? '',
      })
      .catch(() => {})
  })
  await page.addInitScript(holdTime)
  await page.goto(address)
  for (const step of steps ?? []) {
    if ('press' in step) await page.getByRole('button', { name: step.press, exact: true }).click()
    else await page.getByRole('checkbox', { name: step.tick }).check()
  }
  await expectState(page, state)
}

/** Waits until the page, or the app in a frame of one, shows what it shows in that state alone. */
export async function expectState(place: Page | FrameLocator, { shows }: Pick<State, 'shows'>) {
  for (const sign of [shows].flat()) {
    const found =
      typeof sign === 'string'
        ? place.getByText(sign).first()
        : place.getByRole(sign.role, { ...sign, exact: true })
    await expect(found).toBeVisible()
  }
}
