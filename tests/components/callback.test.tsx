import { act, cleanup, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test, vi } from 'vitest'
import { personHeader } from '../../contract/endpoints.ts'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  hold,
  lookAgain,
  openApp,
  openInBrowser,
  recordTexts,
  renderApp,
  setOnline,
  startBackend,
} from '../render.tsx'
import { takeLog } from '../setup.ts'

const services = [
  { id: 'hubspot', name: 'HubSpot', onward: '/connect/hubspot' },
  { id: 'slack', name: 'Slack', onward: '/' },
]

const secret = 'SECRET-c0de'
const isCallback = (line: string) => line.includes('/callback')

describe.each(services)('the return from $name', ({ id, name, onward }) => {
  const working = `Handling ${name} OAuth Callback...`

  test('shows that it is working, and leads to a dashboard that never shows the service as not connected', async () => {
    const { calls, history, router } = openApp({ codes: new Set(['abc']) })
    const answer = hold('get', `*/api/${id}/callback`)
    await screen.findByRole('button', { name: `Connect ${name}` })
    void router.navigate({ href: `/${id}/callback?code=abc` })
    expect(await screen.findByText(working)).toHaveAttribute('role', 'status')
    // The code leaves the address at once, and Back does not find it.
    expect(history.location.href).toBe(`/${id}/callback`)
    const { length } = history
    const texts = recordTexts()
    answer()
    expect(await screen.findByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
    expect(texts.join()).not.toContain(`${name}Not connected`)
    expect(history.location.href).toBe('/')
    expect(history.length).toBe(length)
    expect(calls(`GET /api/${id}/callback`)).toEqual([`GET /api/${id}/callback?code=abc`])
  })

  test.each(['', '?code=&state=abc', `?error=access_denied&code=${secret}`, '?Code=abc'])(
    'with %j shows that the code is missing, and makes no call',
    async (query) => {
      const { calls } = openApp({}, `/${id}/callback${query}`)
      const message = await screen.findByRole('alert')
      expect(message.textContent).toBe(`${name} connection failed: Missing ${name} code`)
      expect(screen.queryByText(working)).not.toBeInTheDocument()
      await settle()
      expect(calls().filter(isCallback)).toEqual([])
      expect(takeLog()).toEqual([`Connecting ${name} failed: Missing ${name} code`])
    },
  )

  test.each(['access_denied', 'user_denied'])(
    'after %s says that nothing was changed, and the next screen says no word of it',
    async (error) => {
      stopClock()
      openApp({}, `/${id}/callback?error=${error}`)
      await settle()
      const words = /^You did not allow access. Nothing was changed./
      expect(screen.getByText(words)).toBeVisible()
      takeLog()
      await pass(3000)
      await settle()
      expect(screen.getByRole('button', { name: `Connect ${name}` })).toBeVisible()
      expect(screen.queryByText(/connection failed|has not succeeded/)).not.toBeInTheDocument()
    },
  )

  test('after a reload while the code is exchanged, asks for the status, and finds the service connected', async () => {
    stopClock()
    const { calls, state } = startBackend()
    hold('get', `*/api/${id}/callback`)
    openInBrowser(`/${id}/callback?code=abc`)
    await settle()
    expect(window.location.search).toBe('')
    cleanup()
    openInBrowser()
    await settle()
    for (let second = 1; second <= 5; second++) {
      expect(screen.getByText(working)).toBeVisible()
      if (second === 5) state.connected.add(id)
      await pass(1000)
    }
    expect(calls().filter(isCallback)).toHaveLength(1)
    expect(screen.getByRole('button', { name: `Disconnect ${name}` })).toBeVisible()
  })

  test.each<[string, () => Response | undefined]>([
    ['an error', () => undefined],
    [
      'the provider’s reason',
      () => {
        const error = { code: 'exchange_refused', message: `${name} refused it: switch it off.` }
        return HttpResponse.json({ error }, { status: 502 })
      },
    ],
  ])(
    'that was refused with %s says the same after a reload, and asks nobody',
    async (_, answer) => {
      const { calls } = startBackend({ person: 'ann' })
      server.use(http.get(`*/api/${id}/callback`, answer))
      openInBrowser(`/${id}/callback?code=${secret}`)
      const words = (await screen.findByRole('alert')).textContent
      cleanup()
      const before = calls().length
      openInBrowser()
      expect((await screen.findByRole('alert')).textContent).toBe(words)
      expect(calls().slice(before)).toEqual(['GET /health'])
      expect(JSON.stringify(window.history.state)).not.toContain(secret)
      takeLog()
    },
  )

  test('that got no answer says so again after a reload, once the service has not become connected', async () => {
    stopClock()
    const { calls } = startBackend()
    server.use(http.get(`*/api/${id}/callback`, () => HttpResponse.error()))
    openInBrowser(`/${id}/callback?code=abc`)
    await settle()
    const words = screen.getByRole('alert').textContent
    cleanup()
    openInBrowser()
    await settle()
    expect(screen.getByText(working)).toBeVisible()
    for (let second = 1; second <= 10; second++) await pass(1000)
    expect(screen.getByRole('alert').textContent).toBe(words)
    expect(calls().filter(isCallback)).toHaveLength(1)
    takeLog()
  })

  test('that gets no answer is no longer said to have failed once the service is connected all the same', async () => {
    stopClock()
    const { state } = openApp({ features: ['activity'] }, `/${id}/callback?code=abc`)
    server.use(http.get(`*/api/${id}/callback`, () => HttpResponse.error()))
    await settle()
    for (const ms of [3000, 10, 10]) await pass(ms)
    const failure = screen.getByText(/connection failed: The server could not be reached/)
    expect(failure).toBeVisible()
    state.connected.add(id)
    await pass(10_000)
    expect(failure).not.toBeInTheDocument()
    if (onward !== '/') expect(screen.getByText(`${name} is connected.`)).toBeVisible()
    takeLog()
  })

  test.each<[string, () => Response]>([
    [
      'answered with an error (400)',
      () => HttpResponse.json({ error: { message: `Bad code ${secret}` } }, { status: 400 }),
    ],
    ['could not be reached', () => HttpResponse.error()],
  ])(
    'that fails shows and logs once that the server %s, without the code',
    async (reason, answer) => {
      const texts = recordTexts()
      const address = `/${id}/callback?code=${secret}&state=SECRET-state`
      const { calls, history } = openApp({}, address)
      server.use(http.get(`*/api/${id}/callback`, answer))
      const message = await screen.findByRole('alert')
      expect(message).toHaveTextContent(`${name} connection failed: The server ${reason}`)
      await settle()
      expect(calls().filter(isCallback)).toHaveLength(1)
      const log = takeLog()
      expect(log).toEqual([
        expect.stringContaining(`Connecting ${name} failed: The server ${reason}`),
      ])
      const everything = [...texts, ...log, document.title, history.location.href]
      expect(everything.join('\n')).not.toContain('SECRET')
      expect(document.documentElement.outerHTML).not.toContain('SECRET')
    },
  )

  test.each([
    ['nobody’s', 'nobody', true, true],
    ['a person’s', 'p', true, false],
    ['nobody’s, in a browser that keeps nothing', undefined, false, true],
  ])(
    'that is refused says whether cookies are missing: %s',
    async (_, person, mayStore, isSaid) => {
      if (!mayStore) {
        vi.spyOn(window, 'localStorage', 'get').mockImplementation(() => {
          throw new DOMException('Access is denied.', 'SecurityError')
        })
      }
      openApp({ person }, `/${id}/callback?code=abc`)
      const reason = isSaid
        ? 'The browser kept no cookie for this page. Allow cookies, and connect again'
        : 'The server answered with an error (400)'
      const message = await screen.findByRole('alert')
      expect(message.textContent).toBe(`${name} connection failed: ${reason}`)
      takeLog()
    },
  )

  test.each([
    ['exchange_refused', 502, `${name} refused it: switch it off.`],
    // Nobody is signed in after an installation from the CRM's marketplace. That says nothing about cookies.
    ['exchange_refused', 400, `${name} refused it: switch it off.`],
    // Whatever else a backend answers may contain the code.
    ['another_code', 502, 'The server answered with an error (502)'],
  ])('that is refused says why: %s, %i', async (code, status, reason) => {
    openApp({ person: 'nobody' }, `/${id}/callback?code=abc`)
    server.use(
      http.get(`*/api/${id}/callback`, () =>
        HttpResponse.json(
          { error: { code, message: `${name} refused it: switch it off.` } },
          { status, headers: { [personHeader]: 'nobody' } },
        ),
      ),
    )
    const message = await screen.findByRole('alert')
    expect(message.textContent).toBe(`${name} connection failed: ${reason}`)
    takeLog()
  })

  test('that throws something other than an error shows that it failed unexpectedly', async () => {
    const really = globalThis.fetch
    vi.spyOn(globalThis, 'fetch').mockImplementation((input, init) =>
      isCallback((input as Request).url) ? Promise.reject(secret) : really(input, init),
    )
    openApp({}, `/${id}/callback?code=${secret}`)
    const message = await screen.findByRole('alert')
    expect(message.textContent).toBe(`${name} connection failed: ${name} OAuth failed unexpectedly`)
    expect(takeLog()).toEqual([`Connecting ${name} failed: The reason is unknown`])
  })

  test.each([
    ['a refused code', '?code=abc'],
    ['a missing code', ''],
  ])(`leads to ${onward} 3000 ms after %s, and not before`, async (_name, query) => {
    stopClock()
    const { history } = openApp({}, `/${id}/callback${query}`)
    await settle()
    expect(screen.getByRole('alert')).toBeVisible()
    const length = history.length
    await pass(2999)
    expect(history.location.pathname).toBe(`/${id}/callback`)
    await pass(1)
    expect(history.location.href).toBe(onward)
    expect(screen.queryByRole('alert')).not.toBeInTheDocument()
    expect(screen.getByRole('heading', { level: 1 })).toHaveFocus()
    // The history entry is replaced, so Back does not lead to the callback.
    expect(history.length).toBe(length)
    takeLog()
  })

  test('does not navigate after the user has left its page', async () => {
    stopClock()
    const { history, router } = openApp({}, `/${id}/callback`)
    await settle()
    expect(screen.getByRole('alert')).toBeVisible()
    await pass(2000)
    await act(() => router.navigate({ to: '/contact' }))
    await settle()
    await pass(10_000)
    expect(history.location.pathname).toBe('/contact')
    takeLog()
  })

  test('uses its code once, also after focus, reconnect and Back', async () => {
    const { calls } = startBackend()
    server.use(http.get(`*/api/${id}/callback`, () => HttpResponse.error()))
    const { router, history } = renderApp('/contact', `/${id}/callback?code=abc`)
    await screen.findByRole('alert')
    lookAgain()
    setOnline(false)
    setOnline(true)
    await settle()
    await act(() => router.navigate({ to: '/contact' }))
    await screen.findByRole('heading', { name: 'Contact Support' })
    act(() => history.back())
    await screen.findByRole('heading', { name: `Connecting ${name}` })
    act(() => history.forward())
    await screen.findByRole('heading', { name: 'Contact Support' })
    // The same address again, as from a bookmark.
    await act(() => router.navigate({ href: `/${id}/callback?code=abc` }))
    await screen.findByRole('alert')
    await settle()
    expect(calls().filter(isCallback)).toHaveLength(1)
    // Another code is another call.
    await act(() => router.navigate({ to: '/contact' }))
    await act(() => router.navigate({ href: `/${id}/callback?code=def` }))
    await waitFor(() => expect(calls().filter(isCallback)).toHaveLength(2))
    takeLog()
  })
})

test('each response that comes to one page is sent once, and to its own provider', async () => {
  const { calls, router, history } = openApp({}, '/hubspot/callback?code=a')
  hold('get', '*/callback')
  const sent = ['GET /api/hubspot/callback?code=a']
  await waitFor(() => expect(calls().filter(isCallback)).toEqual(sent))
  for (const response of ['slack/callback?code=b', 'slack/callback?code=c&state=s']) {
    await act(() => router.navigate({ href: `/${response}` }))
    sent.push(`GET /api/${response}`)
    await waitFor(() => expect(calls().filter(isCallback)).toEqual(sent))
    expect(history.location.href).toBe('/slack/callback')
  }
  act(() => history.go(-2))
  await screen.findByText('Handling HubSpot OAuth Callback...')
  await waitFor(() => expect(calls().at(-1)).toBe('GET /api/hubspot/status'))
  expect(calls().filter(isCallback)).toEqual(sent)
})
