import { createBrowserHistory } from '@tanstack/react-router'
import { act, fireEvent, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { settle } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hold,
  lookAgain,
  renderApp,
  renderAppWith,
  startBackend,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'
import {
  button,
  closedBox,
  failed,
  holdSaving,
  messages,
  refused,
  rulesPath,
  saveButton,
  saved,
  stageBox,
  tickAndSave,
} from './dashboard.ts'

// The model (tests/components/model) has the rest: what is sent, what stays ticked and what asks, in any order.

/** A body that starts and never ends. */
const endlessBody = () =>
  new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode('{'))
    },
  })

type User = ReturnType<typeof renderApp>['user']

describe('without both connections', () => {
  test.each([[[]], [['hubspot']], [['slack']]])(
    'Save says so and makes no call: connected is %j',
    async (connected) => {
      const { calls } = startBackend({ connected: new Set(connected) })
      const { user } = renderApp('/')
      await tickAndSave(user)
      const message = screen.getByText(refused)
      expect(message).toBeVisible()
      expect(message).toHaveAttribute('role', 'status')
      expect(saveButton()).toBeEnabled()
      expect(saveButton()).toHaveFocus()
      expect(await stageBox()).toBeChecked()
      await settle()
      expect(calls('POST')).toEqual([])
    },
  )

  test('the message disappears when the selection changes or both are connected, and does not come back', async () => {
    const { state } = startBackend({ connected: new Set(['hubspot']) })
    const { user } = renderApp('/')
    const box = await stageBox()
    await user.click(saveButton())
    await user.click(box)
    expect(messages()).toEqual([])

    await user.click(saveButton())
    expect(messages()).toEqual([refused])
    state.connected.add('slack')
    lookAgain()
    await user.click(await button('Disconnect Slack'))
    await button('Connect Slack')
    expect(messages()).toEqual([])
  })

  test.each([[['hubspot', 'slack']], [['slack', 'hubspot']]])(
    'the message stays when one connection replaces the other: answers from %j',
    async (order) => {
      const { state } = startBackend({ connected: new Set(['slack']) })
      const { user } = renderApp('/')
      await stageBox()
      await user.click(saveButton())
      state.connected = new Set(['hubspot'])
      const answers = order.map((id) => hold('get', `*/api/${id}/status`))
      lookAgain()
      for (const answer of answers) {
        answer()
        await settle()
      }
      expect(await button('Disconnect HubSpot')).toBeVisible()
      expect(await button('Connect Slack')).toBeVisible()
      expect(messages()).toEqual([refused])
    },
  )
})

test('the success disappears when a connection ends, and does not come back with it', async () => {
  const { state } = startBackend({ connected: both() })
  const { user } = renderApp('/')
  await tickAndSave(user)
  await screen.findByText(saved)
  state.connected.delete('slack')
  lookAgain()
  await button('Connect Slack')
  expect(messages()).toEqual([])
  state.connected.add('slack')
  lookAgain()
  await button('Disconnect Slack')
  expect(messages()).toEqual([])
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
    expect(messages()).toEqual([])
    // A browser removes the focus from a disabled button. happy-dom does not, so do it here.
    const elsewhere = await closedBox()
    act(() => {
      elsewhere.focus()
      elsewhere.blur()
    })
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
    await tickAndSave(user)
    const other = await closedBox()
    act(() => other.focus())
    answer()
    await screen.findByText(saved)
    expect(other).toHaveFocus()
  })

  test.each([
    ['an empty 200', withStatus(200)],
    ['HTML', () => HttpResponse.html('<!doctype html><p>Saved</p>')],
    ['broken JSON', () => new HttpResponse('{"rules":', { status: 200 })],
    ['JSON', () => HttpResponse.json({ rules: [] })],
    ['201', () => new HttpResponse('made', { status: 201 })],
    ['202', withStatus(202)],
    ['a body that never ends', () => new HttpResponse(endlessBody())],
  ])('succeeds with %s, which it does not read', async (_name, answer) => {
    startBackend({ connected: both() })
    server.use(http.post(rulesPath, answer))
    const { user } = renderApp('/')
    await tickAndSave(user)
    expect(await screen.findByText(saved)).toBeVisible()
    expect(await stageBox()).toBeChecked()
  })

  test.each<[string, (form: HTMLFormElement, user: User) => unknown]>([
    [
      'Enter in a checkbox and a click',
      async (_form, user) => {
        await user.keyboard('{Enter}')
        await user.click(await button('Saving…'))
      },
    ],
    [
      'two submits in one task',
      (form) =>
        act(() => {
          form.requestSubmit()
          form.requestSubmit()
        }),
    ],
    [
      'a submit while saving',
      async (form, user) => {
        await user.click(saveButton())
        fireEvent.submit(form)
      },
    ],
  ])('sends one POST for %s', async (_name, press) => {
    const { calls } = startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    await user.click(await stageBox())
    await press(saveButton().closest('form') as HTMLFormElement, user)
    await settle()
    answer()
    expect(await screen.findByText(saved)).toBeVisible()
    expect(calls('POST')).toHaveLength(1)
    expect(await stageBox()).toBeChecked()
  })
})

test('a save in progress shows as such after leaving and coming back, and then shows no message', async () => {
  startBackend({ connected: both() })
  const answer = holdSaving()
  const { user, router } = renderApp('/')
  await stageBox()
  await user.click(saveButton())
  await act(() => router.navigate({ to: '/contact' }))
  await user.click(await screen.findByRole('link', { name: 'Dealbell' }))
  expect(await button('Saving…')).toBeDisabled()
  answer()
  expect(await button('Save')).toBeEnabled()
  expect(messages()).toEqual([])
})

describe('a save that fails', () => {
  const forAnHour = { 'Retry-After': '3600' }
  test.each([
    ['400', withStatus(400)],
    ['401 with HTML', () => HttpResponse.html('<p>Log in</p>', { status: 401 })],
    ['409 with JSON', () => HttpResponse.json({ error: { message: 'No' } }, { status: 409 })],
    ['429 for an hour', () => new HttpResponse(null, { status: 429, headers: forAnHour })],
    ['500 whose body never ends', () => new HttpResponse(endlessBody(), { status: 500 })],
    ['a reset connection', () => HttpResponse.error()],
    ['a redirect to nowhere', withStatus(304)],
  ])(
    'with %s shows one message until the selection changes, keeps the ticks and enables the button',
    async (_name, answer) => {
      const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
      server.use(http.post(rulesPath, answer))
      const { user } = renderApp('/')
      await tickAndSave(user)
      const message = await screen.findByText(failed)
      expect(message).toHaveAttribute('role', 'status')
      expect(messages()).toEqual([failed])
      expect(saveButton()).toBeEnabled()
      expect(saveButton()).toHaveFocus()
      expect(await stageBox()).toBeChecked()
      await settle()
      expect(calls('POST')).toHaveLength(1)
      expect(takeLog()).toEqual([expect.stringMatching(/^Saving rules failed: /)])
      await user.click(await closedBox())
      expect(messages()).toEqual([])
      expect(await stageBox()).toBeChecked()
    },
  )

  test('can be repeated, and the success replaces the message', async () => {
    const { state } = startBackend({ connected: both() })
    server.use(http.post(rulesPath, () => HttpResponse.error(), { once: true }))
    const { user } = renderApp('/')
    await tickAndSave(user)
    await screen.findByText(failed)
    await user.click(saveButton())
    await screen.findByText(saved)
    expect(messages()).toEqual([saved])
    expect(state.rules).toEqual(['deal-stage-changed'])
    takeLog()
  })
})

test.each([
  [1, 204, []],
  [1, 500, [failed]],
  [2, 204, [saved]],
])(
  'after %i ticks during a save that is answered with %i, the ticks stay and the page claims only what is true',
  async (ticks, status, expected) => {
    const { requests } = startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderApp('/')
    await tickAndSave(user)
    for (let tick = 0; tick < ticks; tick++) await user.click(await closedBox())
    answer(status)
    await button('Save')
    expect(messages()).toEqual(expected)
    expect(await closedBox()).toHaveProperty('checked', ticks === 1)
    expect(await stageBox()).toBeChecked()
    expect(requests.at(-1)?.body).toBe('{"rules":["deal-stage-changed"]}')
    takeLog()
  },
)

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

  test('make the browser ask before it leaves the page, until they are undone or saved', async () => {
    startBackend({ connected: both() })
    const { user } = renderInBrowser()
    const box = await stageBox()
    expect(unload()).toBe('left')
    await user.click(box)
    expect(unload()).toBe('asked')
    await user.click(box)
    expect(unload()).toBe('left')
    await tickAndSave(user)
    await screen.findByText(saved)
    expect(unload()).toBe('left')
  })

  test('make the browser ask during a save and after it failed', async () => {
    startBackend({ connected: both() })
    const answer = holdSaving()
    const { user } = renderInBrowser()
    await tickAndSave(user)
    expect(unload()).toBe('asked')
    // During the save, what the server holds is unknown, so even the old selection counts as unsaved.
    await user.click(await stageBox())
    expect(unload()).toBe('asked')
    answer(500)
    await screen.findByText(failed)
    expect(unload()).toBe('left')
    await user.click(await stageBox())
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
    await user.click(await button('Connect HubSpot'))
    expect(went).toEqual(['asked /api/hubspot/auth'])
  })

  test.each<[string, (app: ReturnType<typeof renderApp>) => void]>([
    ['another screen opens', ({ router }) => void router.navigate({ to: '/contact' })],
    ['the user goes back', () => act(() => window.history.back())],
  ])('make the page ask before %s, and staying keeps them', async (_name, leave) => {
    startBackend()
    const confirm = vi.spyOn(window, 'confirm').mockReturnValue(false)
    const app = renderInBrowser()
    await app.user.click(await stageBox())
    leave(app)
    await waitFor(() => expect(confirm).toHaveBeenCalledOnce())
    expect(confirm.mock.calls[0]?.[0]).toMatch(/not saved/)
    await settle()
    expect(app.router.state.location.pathname).toBe('/')
    expect(await stageBox()).toBeChecked()
    // The dashboard itself is no other screen.
    await app.user.click(screen.getByRole('link', { name: 'Dealbell' }))
    await settle()
    expect(confirm).toHaveBeenCalledOnce()
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

  test('that are being saved do not make the page ask, and are still there if the save fails', async () => {
    startBackend({ connected: both() })
    for (const status of [204, 500]) {
      const answer = holdSaving()
      // An unexpected question fails the test.
      const { user, router, unmount } = renderApp('/')
      await tickAndSave(user)
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
    await tickAndSave(user)
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
