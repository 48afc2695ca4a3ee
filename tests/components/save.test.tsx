import { createBrowserHistory } from '@tanstack/react-router'
import { act, fireEvent, screen, waitFor } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { lookAgain, renderApp, renderAppWith, setOnline, startBackend } from '../render.tsx'
import { takeLog } from '../setup.ts'

const both = () => new Set(['hubspot', 'slack'])
const saved = '✅ Rules saved successfully!'
const failed = '❌ Failed to save rules, try again.'
const refused = '❌ Please connect both HubSpot and Slack before saving rules.'

const stageBox = () =>
  screen.findByRole('checkbox', { name: 'Notify me when a deal stage changes' })
const closedBox = () => screen.findByRole('checkbox', { name: /signed or closed/ })
const saveButton = () => screen.getByRole('button', { name: 'Save' })
const savedOr = () => [saved, failed, refused].filter((text) => screen.queryByText(text) !== null)

/** A body that starts and never ends. */
const endlessBody = () =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{'))
    },
  })

/** Holds the answer of a save until the returned function gives its status. */
function holdSaving() {
  const held = Promise.withResolvers<Response>()
  server.use(http.post('*/api/notifications/rules', () => held.promise))
  return (status = 204) => held.resolve(new HttpResponse(null, { status }))
}

describe('without both connections', () => {
  test.each([[[]], [['hubspot']], [['slack']]])(
    'Save says so and makes no call: connected is %j',
    async (connected) => {
      const { calls } = startBackend({ connected: new Set(connected) })
      const { user } = renderApp('/')
      const box = await stageBox()
      await user.click(box)
      await user.click(saveButton())
      const message = screen.getByText(refused)
      expect(message).toBeVisible()
      expect(message).toHaveAttribute('role', 'status')
      expect(saveButton()).toBeEnabled()
      expect(saveButton()).toHaveFocus()
      expect(box).toBeChecked()
      await settle()
      expect(calls('POST')).toEqual([])
    },
  )

  test('the message disappears when the selection changes or both are connected, and does not come back', async () => {
    const { state, calls } = startBackend({ connected: new Set(['hubspot']) })
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(saveButton())
    expect(screen.getByText(refused)).toBeVisible()
    await user.click(box)
    expect(savedOr()).toEqual([])

    await user.click(saveButton())
    expect(screen.getByText(refused)).toBeVisible()
    state.connected.add('slack')
    lookAgain()
    const disconnect = await screen.findByRole('button', { name: 'Disconnect Slack' })
    expect(savedOr()).toEqual([])
    await user.click(disconnect)
    await screen.findByRole('button', { name: 'Connect Slack' })
    expect(savedOr()).toEqual([])
    expect(calls('POST')).toEqual([])
  })

  test.each([
    ['HubSpot, Slack', ['hubspot', 'slack']],
    ['Slack, HubSpot', ['slack', 'hubspot']],
  ])(
    'the message stays when one connection replaces the other: answers from %s',
    async (_name, order) => {
      const { state } = startBackend({ connected: new Set(['slack']) })
      const { user } = renderApp('/')
      await stageBox()
      await user.click(saveButton())
      state.connected = new Set(['hubspot'])
      const answers = order.map((id) => {
        const { promise, resolve } = Promise.withResolvers<void>()
        server.use(
          http.get(`*/api/${id}/status`, async () => {
            await promise
            return undefined
          }),
        )
        return resolve
      })
      lookAgain()
      for (const answer of answers) {
        answer()
        await settle()
      }
      expect(screen.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
      expect(screen.getByRole('button', { name: 'Connect Slack' })).toBeVisible()
      expect(savedOr()).toEqual([refused])
    },
  )

  test('Save after a disconnect replaces the earlier success by this message', async () => {
    const { calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await screen.findByText(saved)
    await user.click(screen.getByRole('button', { name: 'Disconnect HubSpot' }))
    await screen.findByRole('button', { name: 'Connect HubSpot' })
    expect(savedOr()).toEqual([])
    await user.click(saveButton())
    expect(savedOr()).toEqual([refused])
    expect(calls('POST')).toHaveLength(1)
  })
})

test('the success disappears when a connection ends, and does not come back with it', async () => {
  const { state } = startBackend({ connected: both() })
  const { user } = renderApp('/')
  await user.click(await stageBox())
  await user.click(saveButton())
  await screen.findByText(saved)
  state.connected.delete('slack')
  lookAgain()
  await screen.findByRole('button', { name: 'Connect Slack' })
  expect(savedOr()).toEqual([])
  state.connected.add('slack')
  lookAgain()
  await screen.findByRole('button', { name: 'Disconnect Slack' })
  expect(savedOr()).toEqual([])
})

describe('saving', () => {
  test("sends the whole selection, shows a disabled 'Saving…', then the success", async () => {
    const { requests, calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
    const answer = holdSaving()
    const fetched = vi.spyOn(globalThis, 'fetch')
    const { user } = renderApp('/')
    await user.click(await stageBox())
    const button = saveButton()
    await user.click(button)
    expect(button).toBeDisabled()
    expect(button).toHaveTextContent(/^Saving…$/)
    expect(savedOr()).toEqual([])
    // A browser removes the focus from a disabled button. happy-dom does not, so do it here.
    const elsewhere = await closedBox()
    act(() => {
      elsewhere.focus()
      elsewhere.blur()
    })
    expect(document.body).toHaveFocus()
    answer()
    const message = await screen.findByText(saved)
    expect(message).toHaveAttribute('role', 'status')
    expect(button).toBeEnabled()
    expect(button).toHaveTextContent(/^Save$/)
    // The focus is back on the button.
    expect(button).toHaveFocus()
    expect(calls('POST')).toEqual(['POST /api/notifications/rules'])
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-closed","deal-stage-changed"]}')
    const sent = fetched.mock.calls.at(-1)?.[0] as Request
    expect(sent.headers.get('content-type')).toBe('application/json')
    // The saved rules are known, so they are not fetched again.
    await settle()
    expect(calls('GET /api/notifications/rules')).toHaveLength(1)
  })

  test('leaves the focus where the user has moved it during the save', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(box)
    await user.click(saveButton())
    const other = await closedBox()
    act(() => other.focus())
    answer()
    await screen.findByText(saved)
    expect(other).toHaveFocus()
  })

  test('sends ids that this page does not offer back unchanged', async () => {
    const { requests } = startBackend({
      connected: both(),
      rules: ['a-rule-of-tomorrow', 'invoice-paid', 'deal-closed'],
    })
    const { user } = renderApp('/')
    await user.click(await closedBox())
    await user.click(await stageBox())
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(requests.at(-1)?.body).toBe(
      '{"rules":["a-rule-of-tomorrow","invoice-paid","deal-stage-changed"]}',
    )
  })

  test('works with nothing changed', async () => {
    const { requests } = startBackend({ connected: both(), rules: ['deal-closed'] })
    const { user } = renderApp('/')
    await stageBox()
    await user.click(saveButton())
    expect(await screen.findByText(saved)).toBeVisible()
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-closed"]}')
  })

  test('works repeatedly, each time with the current selection', async () => {
    const { requests } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    for (const body of ['{"rules":["deal-stage-changed"]}', '{"rules":[]}']) {
      await user.click(await stageBox())
      expect(savedOr()).toEqual([])
      await user.click(saveButton())
      await screen.findByText(saved)
      expect(requests.at(-1)?.body).toBe(body)
    }
  })

  test('sends a rule once that was ticked, unticked and ticked again', async () => {
    const { requests } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    const box = await stageBox()
    for (let times = 0; times < 3; times++) await user.click(box)
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-stage-changed"]}')
  })

  test.each([
    ['an empty 200', () => new HttpResponse(null, { status: 200 })],
    ['HTML', () => HttpResponse.html('<!doctype html><p>Saved</p>')],
    ['broken JSON', () => new HttpResponse('{"rules":', { status: 200 })],
    ['JSON', () => HttpResponse.json({ rules: [] })],
    ['201', () => new HttpResponse('made', { status: 201 })],
    ['202', () => new HttpResponse(null, { status: 202 })],
    ['204', () => new HttpResponse(null, { status: 204 })],
    ['a body that never ends', () => new HttpResponse(endlessBody())],
  ])('succeeds with %s', async (_name, answer) => {
    startBackend({ connected: both() })
    server.use(http.post('*/api/notifications/rules', answer))
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(box)
    await user.click(saveButton())
    expect(await screen.findByText(saved)).toBeVisible()
    expect(savedOr()).toEqual([saved])
    expect(box).toBeChecked()
  })
})

describe('exactly one POST is sent', () => {
  test.each<[string, (button: HTMLElement, user: ReturnType<typeof renderApp>['user']) => unknown]>(
    [
      ['a double click', (button, user) => user.dblClick(button)],
      [
        'Enter and a click',
        async (button, user) => {
          button.focus()
          await user.keyboard('{Enter}')
          await user.click(button)
        },
      ],
      [
        'two clicks in one task',
        (button) =>
          act(() => {
            button.click()
            button.click()
          }),
      ],
      [
        'two submits in one task',
        (button) => {
          const form = button.closest('form') as HTMLFormElement
          act(() => {
            form.requestSubmit()
            form.requestSubmit()
          })
        },
      ],
      [
        'a submit while saving',
        async (button, user) => {
          await user.click(button)
          fireEvent.submit(button.closest('form') as HTMLFormElement)
        },
      ],
    ],
  )('for %s', async (_name, press) => {
    const { calls } = startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await press(saveButton(), user)
    await settle()
    answer()
    expect(await screen.findByText(saved)).toBeVisible()
    await settle()
    expect(calls('POST')).toHaveLength(1)
  })

  test('for Enter in a checkbox', async () => {
    const { requests, calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(box)
    await user.keyboard('{Enter}')
    expect(await screen.findByText(saved)).toBeVisible()
    expect(calls('POST')).toHaveLength(1)
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-stage-changed"]}')
    expect(box).toBeChecked()
  })
})

test('a save in progress shows as such after leaving and coming back, and then shows no message', async () => {
  const { state, calls } = startBackend({ connected: both() })
  const answer = holdSaving()
  const { user, router } = renderApp('/')
  await stageBox()
  await user.click(saveButton())
  await act(() => router.navigate({ to: '/contact' }))
  await user.click(await screen.findByRole('link', { name: 'Dealbell' }))
  const button = await screen.findByRole('button', { name: 'Saving…' })
  expect(button).toBeDisabled()
  await user.click(await stageBox())
  answer()
  expect(await screen.findByRole('button', { name: 'Save' })).toBeEnabled()
  expect(savedOr()).toEqual([])
  server.resetHandlers(...startBackend({ connected: both() }).handlers)
  await user.click(saveButton())
  expect(await screen.findByText(saved)).toBeVisible()
  expect(calls('POST')).toHaveLength(1)
  expect(state.rules).toEqual([])
})

describe('a save that fails', () => {
  test.each([
    ['400', () => new HttpResponse(null, { status: 400 })],
    ['401 with HTML', () => HttpResponse.html('<p>Log in</p>', { status: 401 })],
    ['404', () => new HttpResponse(null, { status: 404 })],
    ['409 with JSON', () => HttpResponse.json({ error: { message: 'No' } }, { status: 409 })],
    ['413', () => new HttpResponse(null, { status: 413 })],
    [
      '429 with Retry-After',
      () => new HttpResponse(null, { status: 429, headers: { 'Retry-After': '3600' } }),
    ],
    ['500', () => new HttpResponse(null, { status: 500 })],
    [
      '503 with Retry-After',
      () => new HttpResponse(null, { status: 503, headers: { 'Retry-After': '3600' } }),
    ],
    ['500 whose body never ends', () => new HttpResponse(endlessBody(), { status: 500 })],
    ['a reset connection', () => HttpResponse.error()],
    ['a redirect to nowhere', () => new HttpResponse(null, { status: 304 })],
  ])('with %s shows one message, keeps the ticks and enables the button', async (_name, answer) => {
    const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
    server.use(http.post('*/api/notifications/rules', answer))
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    const message = await screen.findByText(failed)
    expect(message).toHaveAttribute('role', 'status')
    expect(savedOr()).toEqual([failed])
    expect(saveButton()).toBeEnabled()
    expect(saveButton()).toHaveFocus()
    expect(await stageBox()).toBeChecked()
    expect(await closedBox()).toBeChecked()
    await settle()
    expect(calls('POST')).toHaveLength(1)
    expect(takeLog()).toEqual([expect.stringMatching(/^Saving rules failed: /)])
  })

  test('without an answer fails after 10 s, and not before', async () => {
    stopClock()
    const { calls } = startBackend({ connected: both() })
    server.use(http.post('*/api/notifications/rules', () => delay('infinite')))
    renderApp('/')
    await settle()
    fireEvent.click(screen.getByRole('checkbox', { name: /deal stage changes/ }))
    fireEvent.click(saveButton())
    await settle()
    await pass(9990)
    expect(screen.getByRole('button', { name: 'Saving…' })).toBeDisabled()
    await pass(10)
    expect(screen.getByText(failed)).toBeVisible()
    expect(saveButton()).toBeEnabled()
    await pass(120_000)
    expect(calls('POST')).toHaveLength(1)
    expect(takeLog()).toEqual(['Saving rules failed: The server took too long to answer'])
  })

  test('while offline fails at once, and is not sent when the network is back', async () => {
    const { state, calls } = startBackend({ connected: both() })
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(box)
    setOnline(false)
    server.use(http.post('*/api/notifications/rules', () => HttpResponse.error(), { once: true }))
    await user.click(saveButton())
    expect(await screen.findByText(failed)).toBeVisible()
    expect(calls('POST')).toHaveLength(1)
    setOnline(true)
    lookAgain()
    await settle()
    expect(calls('POST')).toHaveLength(1)
    expect(state.rules).toEqual([])
    expect(box).toBeChecked()
    expect(screen.getByText(failed)).toBeVisible()
    takeLog()
  })

  test('can be repeated, and the success replaces the message', async () => {
    const { state } = startBackend({ connected: both() })
    server.use(http.post('*/api/notifications/rules', () => HttpResponse.error(), { once: true }))
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await screen.findByText(failed)
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(savedOr()).toEqual([saved])
    expect(state.rules).toEqual(['deal-stage-changed'])
    takeLog()
  })

  test('shows its message until the selection changes', async () => {
    startBackend({ connected: both() })
    server.use(http.post('*/api/notifications/rules', () => HttpResponse.error(), { once: true }))
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await screen.findByText(failed)
    await user.click(await closedBox())
    expect(savedOr()).toEqual([])
    takeLog()
  })
})

describe('a tick that changes during a save', () => {
  test('is kept, and the page does not claim that it is saved', async () => {
    const { state, requests } = startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await user.click(await closedBox())
    answer()
    const button = await screen.findByRole('button', { name: 'Save' })
    expect(await closedBox()).toBeChecked()
    expect(await stageBox()).toBeChecked()
    expect(savedOr()).toEqual([])
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-stage-changed"]}')

    server.resetHandlers(...startBackend({ connected: both() }).handlers)
    await user.click(button)
    expect(await screen.findByText(saved)).toBeVisible()
    expect(state.rules).toEqual([])
  })

  test('is kept when the save fails', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await user.click(await closedBox())
    answer(500)
    expect(await screen.findByText(failed)).toBeVisible()
    expect(await closedBox()).toBeChecked()
    expect(await stageBox()).toBeChecked()
    takeLog()
  })

  test('and changes back shows the success', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await user.click(await closedBox())
    await user.click(await closedBox())
    answer()
    expect(await screen.findByText(saved)).toBeVisible()
  })

  test('back to the previously stored state is unsaved, because the save has changed the store', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const confirm = vi.spyOn(window, 'confirm').mockReturnValue(false)
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(box)
    await user.click(saveButton())
    await user.click(box)
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    answer()
    await screen.findByRole('button', { name: 'Save' })
    expect(box).not.toBeChecked()
    expect(savedOr()).toEqual([])
    expect(confirm).not.toHaveBeenCalled()
  })
})

describe('unsaved ticks', () => {
  /** Renders the app on the browser's history. Only that one handles unloading. */
  function renderInBrowser() {
    window.history.replaceState(null, '', '/contact')
    window.history.pushState(null, '', '/')
    const history = createBrowserHistory()
    onTestFinished(() => history.destroy())
    return renderAppWith(history)
  }

  const unload = () => {
    const event = new Event('beforeunload', { cancelable: true })
    window.dispatchEvent(event)
    return event.defaultPrevented ? 'asked' : 'left'
  }

  test('make the browser ask before it leaves the page, unless they are undone or saved', async () => {
    startBackend({ connected: both() })
    const { user } = renderInBrowser()
    const box = await stageBox()
    expect(unload()).toBe('left')
    await user.click(box)
    expect(unload()).toBe('asked')
    await user.click(box)
    expect(unload()).toBe('left')
    await user.click(box)
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(unload()).toBe('left')
  })

  test('make the browser ask during a save and after it failed', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderInBrowser()
    const box = await stageBox()
    await user.click(box)
    await user.click(saveButton())
    expect(unload()).toBe('asked')
    // During the save, what the server holds is unknown, so even the old selection counts as unsaved.
    await user.click(box)
    expect(unload()).toBe('asked')
    answer(500)
    await screen.findByText(failed)
    expect(unload()).toBe('left')
    await user.click(box)
    expect(unload()).toBe('asked')
    takeLog()
  })

  test('make the browser ask when Connect leaves the page', async () => {
    startBackend()
    // Dispatch beforeunload as a browser does before it leaves.
    const went: string[] = []
    vi.spyOn(window.location, 'assign').mockImplementation((address) => {
      went.push(`${unload()} ${address}`)
    })
    const { user } = renderInBrowser()
    await user.click(await stageBox())
    await user.click(screen.getByRole('button', { name: 'Connect HubSpot' }))
    expect(went).toEqual(['asked /api/hubspot/auth'])
  })

  test('make the page ask before another screen opens, and staying keeps them', async () => {
    startBackend()
    const confirm = vi.spyOn(window, 'confirm').mockReturnValue(false)
    const { user, router } = renderApp('/')
    await user.click(await stageBox())
    void router.navigate({ to: '/contact' })
    await waitFor(() => expect(confirm).toHaveBeenCalledOnce())
    expect(confirm.mock.calls[0]?.[0]).toMatch(/not saved/)
    await settle()
    expect(router.state.location.pathname).toBe('/')
    expect(await stageBox()).toBeChecked()
  })

  test('are discarded when the user leaves all the same', async () => {
    startBackend({ rules: ['deal-closed'] })
    const confirm = vi.spyOn(window, 'confirm').mockReturnValue(true)
    const { user, router } = renderApp('/')
    await user.click(await stageBox())
    void router.navigate({ to: '/contact' })
    expect(await screen.findByRole('heading', { name: 'Contact Support' })).toBeVisible()
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    expect(await stageBox()).not.toBeChecked()
    expect(await closedBox()).toBeChecked()
    expect(confirm).toHaveBeenCalledOnce()
  })

  test('make the page ask when the user goes back', async () => {
    startBackend()
    const confirm = vi.spyOn(window, 'confirm').mockReturnValue(false)
    const { user, router } = renderInBrowser()
    await user.click(await stageBox())
    act(() => window.history.back())
    await waitFor(() => expect(confirm).toHaveBeenCalledOnce())
    await settle()
    expect(router.state.location.pathname).toBe('/')
    expect(await stageBox()).toBeChecked()
  })

  test('do not make the page ask on a navigation to the dashboard itself', async () => {
    startBackend()
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    await settle()
    expect(await stageBox()).toBeChecked()
  })

  test('do not make the page ask once they are undone', async () => {
    startBackend()
    const { user, router } = renderApp('/')
    const box = await stageBox()
    await user.click(box)
    await user.click(box)
    void router.navigate({ to: '/contact' })
    expect(await screen.findByRole('heading', { name: 'Contact Support' })).toBeVisible()
  })

  test('that are being saved do not make the page ask, and are still there if the save fails', async () => {
    startBackend({ connected: both() })
    for (const status of [204, 500]) {
      const answer = holdSaving()
      // An unexpected question fails the test.
      const { user, router, unmount } = renderApp('/')
      await user.click(await stageBox())
      await user.click(saveButton())
      void router.navigate({ to: '/contact' })
      await screen.findByRole('heading', { name: 'Contact Support' })
      answer(status)
      await settle()
      await user.click(screen.getByRole('link', { name: 'Dealbell' }))
      expect(await stageBox()).toBeChecked()
      const unsaved = screen.queryByText('Unsaved changes')
      expect(unsaved === null).toBe(status === 204)
      unmount()
      takeLog()
    }
  })

  test('made during a save make the page ask', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const confirm = vi.spyOn(window, 'confirm').mockReturnValue(true)
    const { user, router } = renderApp('/')
    await user.click(await stageBox())
    await user.click(saveButton())
    await user.click(await closedBox())
    void router.navigate({ to: '/contact' })
    await screen.findByRole('heading', { name: 'Contact Support' })
    expect(confirm).toHaveBeenCalledOnce()
    answer()
    await settle()
    await user.click(screen.getByRole('link', { name: 'Dealbell' }))
    expect(await stageBox()).toBeChecked()
    expect(await closedBox()).not.toBeChecked()
  })
})
