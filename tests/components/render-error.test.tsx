import { act, screen, waitFor } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { afterEach, expect, test, vi } from 'vitest'
import { availableRuleIds } from '../../contract/rules.ts'
import { server } from '../msw/server.ts'
import { both, openApp } from '../render.tsx'
import { takeLog } from '../setup.ts'

/** The names of the components that fail. */
const broken = vi.hoisted(() => new Set<string>())
vi.mock('react/jsx-dev-runtime', async (importOriginal) => {
  const original = await importOriginal<{ jsxDEV: (...args: unknown[]) => unknown }>()
  const Failing = () => {
    throw new Error('SECRET reason')
  }
  return {
    ...original,
    jsxDEV: (type: unknown, ...rest: unknown[]) => {
      const isBroken = typeof type === 'function' && broken.has(type.name)
      return original.jsxDEV(isBroken ? Failing : type, ...rest)
    },
  }
})
afterEach(() => broken.clear())

const apology = 'Something went wrong. Please try again later.'

test('an error in the frame around every screen shows the generic text with a way back, and not its reason', async () => {
  broken.add('Header')
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

const features = ['activity', 'preview', 'test-message', 'sessions']
const cards = ['Connections', 'Notification Rules', 'AI rules (future)']

test.each<[string[], number, string, string[], boolean?]>([
  [['Connection'], 1, '/', cards],
  [['RuleSettings'], 1, '/', cards],
  // Each available rule has a note.
  [
    ['RuleNote', 'PageNotice', 'StandInLink', 'UnsentMessages'],
    availableRuleIds.size + 3,
    '/',
    cards,
    false,
  ],
  [['TestMessage', 'FailedMessages'], 2, '/', cards],
  [['ActivityChart', 'ActivityList'], 2, '/activity', ['Activity']],
  [['AccountMenu'], 1, '/', cards],
])(
  'where %j fail, the text stands %i times at %s, and the rest stays',
  async (names, times, address, headings, connected = true) => {
    for (const name of names) broken.add(name)
    const { router } = openApp({ features, connected: both() }, address)
    const health = { status: 'ok', features, standIns: { hubspot: '/sandbox/hubspot/deals' } }
    server.use(
      http.get('*/health', () => HttpResponse.json(health)),
      http.get('*/api/slack/status', () => HttpResponse.json({ connected, reason: 'Archived.' })),
    )
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
