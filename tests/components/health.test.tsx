import { screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { describe, expect, test } from 'vitest'
import { pass, settle, stopClock } from '../clock.ts'
import { server } from '../msw/server.ts'
import { both, endlessBody, hold, openApp, recordTexts, withStatus } from '../render.tsx'
import { takeLog } from '../setup.ts'

test.each(['/', '/hubspot/callback?code=abc', '/contact'])(
  '%s shows only Loading… before the first health answer, and nothing of the app while the backend is not healthy; it uses no code',
  async (address) => {
    const { calls, history } = openApp({ codes: new Set(['abc']) }, address)
    const answer = hold('get', '*/health')
    expect(await screen.findByRole('status')).toHaveTextContent(/^Loading…$/)
    await settle()
    expect(document.body).toHaveTextContent(/^Loading…$/)
    answer(500)
    expect(await screen.findByRole('alert')).toHaveTextContent(/^Backend service is unavailable\.$/)
    expect(document.title).toBe('Service Unavailable · Dealbell')
    await settle()
    expect(screen.queryByRole('contentinfo')).not.toBeInTheDocument()
    expect(calls().filter((line) => line.includes('callback'))).toEqual([])
    // The code stays in the address until the backend is back.
    expect(history.location.href).toBe(address)
    takeLog()
  },
)

describe('a backend that is not healthy', () => {
  // tests/contract/answers.test.ts has more such answers, and tests/api/use-health.test.tsx an error.
  test('is unavailable after 10 s when it begins an answer late that never ends', async () => {
    stopClock()
    const { calls } = openApp({}, '/contact')
    const begin = hold('get', '*/health', () => new HttpResponse(endlessBody()))
    await settle()
    await pass(6000)
    begin()
    await pass(3990)
    expect(document.body).toHaveTextContent(/^Loading…$/)
    await pass(10)
    expect(screen.getByText('Backend service is unavailable.')).toBeVisible()
    expect(calls()).toEqual(['GET /health'])
    expect(takeLog()).toEqual(['Checking the backend failed: The server took too long to answer'])
  })

  test('is checked again by the button, which shows it, and the app appears once it is back', async () => {
    const { calls, user } = openApp({}, '/contact')
    const answer = hold('get', '*/health')
    server.use(http.get('*/health', withStatus(500), { once: true }))
    await user.click(await screen.findByRole('button', { name: 'Try again' }))
    // A second click makes no second call.
    await user.click(await screen.findByRole('button', { name: 'Trying…' }))
    expect(screen.getByText('Backend service is unavailable.')).toBeVisible()
    answer()
    const heading = await screen.findByRole('heading', { name: 'Contact Support' })
    // The button with the focus is gone, so the heading has it.
    expect(heading).toHaveFocus()
    expect(calls()).toEqual(['GET /health', 'GET /health'])
    takeLog()
  })

  test('is checked every 5 s until it is back, and never after that', async () => {
    stopClock()
    const { calls, handlers } = openApp({}, '/contact')
    server.use(http.get('*/health', withStatus(403)))
    await settle()
    await pass(4900)
    expect(calls()).toHaveLength(1)
    await pass(100)
    expect(calls()).toHaveLength(2)
    server.resetHandlers(...handlers)
    await pass(5000)
    expect(screen.getByTitle('Contact form')).toBeVisible()
    await pass(60_000)
    expect(calls()).toHaveLength(3)
    takeLog()
  })

  test('has the statuses fetched again once it is back, and never shows them as not connected', async () => {
    const { calls, user } = openApp({ connected: both(), rules: ['deal-closed'] })
    let isBack = false
    server.use(http.all('*', () => (isBack ? undefined : withStatus(502)())))
    expect(await screen.findByText('Backend service is unavailable.')).toBeVisible()
    await waitFor(() => expect(takeLog()).toContainEqual(expect.stringContaining('Loading rules')))
    const before = calls().length

    isBack = true
    const shown = recordTexts()
    await user.click(screen.getByRole('button', { name: 'Try again' }))
    expect(await screen.findByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
    expect(screen.getByRole('checkbox', { name: /signed or closed/ })).toBeChecked()
    expect(shown.filter((text) => /Connections required|Not connected/.test(text))).toEqual([])
    const again = calls().slice(before)
    expect(again).toHaveLength(new Set(again).size)
    takeLog()
  })
})
