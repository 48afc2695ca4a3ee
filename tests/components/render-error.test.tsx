import { act, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { afterEach, expect, test, vi } from 'vitest'
import { availableRuleIds } from '../../contract/rules.ts'
import { server } from '../msw/server.ts'
import { both, openApp, setOnline } from '../render.tsx'
import { takeLog } from '../setup.ts'

/** The beginnings of texts. Whatever shows one of them fails. */
const broken = vi.hoisted(() => new Set<string>())
vi.mock('react/jsx-dev-runtime', async (importOriginal) => {
  const original = await importOriginal<{ jsxDEV: (...args: unknown[]) => unknown }>()
  return {
    ...original,
    jsxDEV: (type: unknown, props: { children?: unknown }, ...rest: unknown[]) => {
      const text = String(props.children)
      if ([...broken].some((start) => text.startsWith(start))) throw new Error('SECRET reason')
      return original.jsxDEV(type, props, ...rest)
    },
  }
})

afterEach(() => broken.clear())

const apology = 'Something went wrong. Please try again later.'

test('an error in the frame around every screen shows the generic text with a way back, and not its reason', async () => {
  broken.add('Dealbell')
  // The router logs the error, too.
  vi.spyOn(console, 'warn').mockImplementation(() => {})
  openApp()
  expect((await screen.findByRole('alert')).textContent).toBe(apology)
  expect(screen.getByRole('heading', { level: 1 })).toHaveTextContent('Something went wrong')
  expect(document.title).toBe('Something went wrong · Dealbell')
  expect(screen.getByRole('link', { name: 'Back to the dashboard' })).toHaveAttribute('href', '/')
  expect(document.body).not.toHaveTextContent('SECRET')
  // The browser's log has the reason.
  expect(takeLog().join()).toContain('SECRET reason')
})

const features = ['activity', 'preview', 'retry-all', 'test-message', 'sessions']
const failedWhileBroken = { count: 2, more: false, providers: ['slack'] }
const cards = ['Connections', 'Notification Rules', 'AI rules (future)']

test.each<[string[], number, string, string[], boolean?]>([
  [['Connected'], 1, '/', cards],
  [['Save'], 1, '/', cards],
  // Each available rule has a note.
  [
    ['Would have sent', 'You are offline', 'the HubSpot deals', '2 messages failed'],
    availableRuleIds.size + 3,
    '/',
    cards,
    false,
  ],
  [['Send a test message', 'Send all again'], 2, '/', cards],
  [['Last 14 days', 'Messages'], 2, '/activity', ['Activity']],
  [['Sign out of this browser'], 1, '/', cards],
])(
  'where %j cannot be shown, the apology stands %i times at %s, and the rest stays',
  async (texts, times, address, headings, connected = true) => {
    for (const text of texts) broken.add(text)
    const activity = { summary: { failedWhileBroken } }
    const { router } = openApp({ features, activity, connected: both() }, address)
    const health = { status: 'ok', features, standIns: { hubspot: '/sandbox/hubspot/deals' } }
    server.use(
      http.get('*/health', () => HttpResponse.json(health)),
      http.get('*/api/slack/status', () => HttpResponse.json({ connected, reason: 'Archived.' })),
    )
    for (const name of headings) await screen.findByRole('heading', { name })
    setOnline(false)
    await waitFor(() => expect(screen.getAllByText(apology)).toHaveLength(times))
    for (const name of headings) expect(screen.getByRole('heading', { name })).toBeVisible()
    const reasons = takeLog().filter((line) => line.includes('SECRET reason'))
    expect(reasons).toHaveLength(times)
    broken.clear()
    await act(() => router.navigate({ to: '/contact' }))
    await act(() => router.navigate({ href: address }))
    await waitFor(() => expect(screen.queryByText(apology)).toBeNull())
  },
)
