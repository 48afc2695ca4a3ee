import { screen, waitFor } from '@testing-library/react'
import { delay, HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import {
  both,
  hold,
  lookAgain,
  recordTexts,
  renderApp,
  setOnline,
  startBackend,
  withStatus,
} from '../render.tsx'
import { takeLog } from '../setup.ts'

const routes: [string, ...string[]] = [
  '/',
  '/hubspot/callback?code=abc',
  '/slack/callback?code=abc',
  '/contact',
  '/connect/hubspot',
  '/no/such/page',
]

const neverEndingJson = () =>
  new HttpResponse(
    new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"status":'))
      },
    }),
    { headers: { 'content-type': 'application/json' } },
  )

describe('before the first health answer', () => {
  test.each(routes)('%s shows only Loading…, and uses no code', async (address) => {
    const { calls } = startBackend({ codes: new Set(['abc']) })
    server.use(http.get('*/health', () => delay('infinite')))
    renderApp(address)
    expect(await screen.findByRole('status')).toHaveTextContent(/^Loading…$/)
    await settle()
    expect(document.body).toHaveTextContent(/^Loading…$/)
    expect(screen.queryByRole('contentinfo')).not.toBeInTheDocument()
    expect(calls('GET /health')).toHaveLength(1)
    expect(calls().filter((line) => line.includes('callback'))).toEqual([])
  })
})

describe('a backend that is not healthy', () => {
  const answers: [string, () => Response | Promise<Response>, string][] = [
    ['500', withStatus(500), 'answered with an error (500)'],
    ['404', () => new HttpResponse('Not Found', { status: 404 }), 'answered with an error (404)'],
    ['dropped connection', () => HttpResponse.error(), 'could not be reached'],
    ['JSON without a status', () => HttpResponse.json({ ok: true }), 'could not be understood'],
    ['HTML', () => HttpResponse.html('<!doctype html><p>Hi</p>'), 'could not be understood'],
    ['empty 200', withStatus(200), 'could not be understood'],
  ]
  test.each(answers)('is unavailable at once: %s', async (_name, answer, reason) => {
    const { calls } = startBackend()
    server.use(http.get('*/health', answer))
    renderApp('/')
    expect(await screen.findByRole('alert')).toHaveTextContent(/^Backend service is unavailable\.$/)
    expect(screen.getByRole('heading', { level: 1 })).toHaveTextContent(/^Service Unavailable$/)
    expect(document.title).toBe('Service Unavailable · Dealbell')
    await settle()
    expect(calls('GET /health')).toHaveLength(1)
    expect(takeLog().filter((line) => line.startsWith('Checking'))).toEqual([
      expect.stringContaining(reason),
    ])
  })

  test.each(routes)('shows nothing of the app at %s, and uses no code', async (address) => {
    const { calls } = startBackend({ codes: new Set(['abc']) })
    server.use(http.get('*/health', withStatus(500)))
    const { history } = renderApp(address)
    expect(await screen.findByText('Backend service is unavailable.')).toBeVisible()
    await settle()
    expect(screen.queryByRole('contentinfo')).not.toBeInTheDocument()
    expect(calls().filter((line) => line.includes('callback'))).toEqual([])
    // The code stays in the address until the backend is back.
    expect(history.location.href).toBe(address)
    takeLog()
  })

  test.each([
    ['never answers', () => delay('infinite')],
    ['begins an answer that never ends', neverEndingJson],
    [
      'begins an answer late that never ends',
      async () => {
        await delay(6000)
        return neverEndingJson()
      },
    ],
  ])('is unavailable after 10 s when it %s', async (_name, answer) => {
    stopClock()
    const { calls } = startBackend()
    server.use(http.get('*/health', answer as () => Response))
    renderApp('/contact')
    await settle()
    await pass(9990)
    expect(document.body).toHaveTextContent(/^Loading…$/)
    await pass(10)
    expect(screen.getByText('Backend service is unavailable.')).toBeVisible()
    expect(calls()).toEqual(['GET /health'])
    expect(takeLog()).toEqual(['Checking the backend failed: The server took too long to answer'])
  })

  test('is checked again by the button, which shows it, and the app appears once it is back', async () => {
    const { calls } = startBackend()
    const answer = hold('get', '*/health')
    server.use(http.get('*/health', withStatus(500), { once: true }))
    const { user } = renderApp('/contact')
    await user.click(await screen.findByRole('button', { name: 'Try again' }))
    expect(await screen.findByRole('button', { name: 'Trying…' })).toBeVisible()
    expect(screen.getByText('Backend service is unavailable.')).toBeVisible()
    expect(screen.queryByText('Loading…')).not.toBeInTheDocument()
    // A second click makes no second call.
    await user.click(screen.getByRole('button', { name: 'Trying…' }))
    answer()
    const heading = await screen.findByRole('heading', { name: 'Contact Support' })
    // The button with the focus is gone, so the heading has it.
    expect(heading).toHaveFocus()
    expect(document.title).toBe('Contact Support · Dealbell')
    expect(calls()).toEqual(['GET /health', 'GET /health'])
    takeLog()
  })

  test('is checked again when the tab becomes visible or the network is back', async () => {
    const { calls } = startBackend()
    server.use(http.get('*/health', () => HttpResponse.error()))
    renderApp('/contact')
    expect(await screen.findByRole('button', { name: 'Try again' })).toBeVisible()
    lookAgain()
    await waitFor(() => expect(calls()).toHaveLength(2))
    expect(await screen.findByRole('button', { name: 'Try again' })).toBeVisible()
    server.use(http.get('*/health', () => HttpResponse.json({ status: 'ok' })))
    setOnline(false)
    setOnline(true)
    expect(await screen.findByRole('heading', { name: 'Contact Support' })).toBeVisible()
    takeLog()
  })

  test('has the statuses fetched again once it is back, and never shows them as not connected', async () => {
    const { calls } = startBackend({ connected: both(), rules: ['deal-closed'] })
    let isBack = false
    server.use(http.all('*', () => (isBack ? undefined : withStatus(502)())))
    const { user } = renderApp('/')
    expect(await screen.findByText('Backend service is unavailable.')).toBeVisible()
    await waitFor(() => expect(takeLog()).toContainEqual(expect.stringContaining('Loading rules')))
    const before = calls().length

    isBack = true
    const shown = recordTexts()
    await user.click(screen.getByRole('button', { name: 'Try again' }))
    expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
    expect(shown.filter((text) => /Connections required|Not connected/.test(text))).toEqual([])
    expect(calls().slice(before).sort()).toEqual([
      'GET /api/hubspot/status',
      'GET /api/notifications/rules',
      'GET /api/slack/status',
      'GET /health',
    ])
    takeLog()
  })
})
