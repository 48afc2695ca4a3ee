import { screen } from '@testing-library/react'
import { HttpResponse, http } from 'msw'
import { expect, onTestFinished, test, vi } from 'vitest'
import { sentItem as item } from '../msw/activity.ts'
import { server } from '../msw/server.ts'
import { both, openApp } from '../render.tsx'

const hourMs = 3_600_000
const now = Date.parse('2026-11-20T12:00:00Z')
const agoInHours = (hours: number) => new Date(now - hours * hourMs).toISOString()
const features = ['activity']

/** The browser's clock is wrong by so many hours. All answers say what time it is, some of them out of a cache. */
function setClocks(hours: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: now + hours * hourMs })
  onTestFinished(() => void vi.useRealTimers())
  const really = globalThis.fetch
  vi.spyOn(globalThis, 'fetch').mockImplementation(async (...call) => {
    const answer = await really(...call)
    const headers = new Headers(answer.headers)
    const isCached = (call[0] as Request).url.endsWith('/health')
    const date = isCached ? now - 500 * hourMs : now
    headers.set('Date', new Date(date).toUTCString())
    if (isCached) headers.set('Age', '1')
    return new Response(answer.body, { status: answer.status, headers })
  })
}

test.each([26, -26, 0])(
  'with a clock that is %i h ahead, messages have the day of the server',
  async (hours) => {
    setClocks(hours)
    const items = [
      item('1', { at: agoInHours(0) }),
      item('2', { at: agoInHours(13) }),
      item('3', { at: agoInHours(1), state: 'waiting', nextTryAt: agoInHours(-1) }),
    ]
    openApp({ features, activity: { items } }, '/activity')
    const [today, yesterday] = await screen.findAllByRole('heading', { level: 3 })
    expect([today?.textContent, yesterday?.textContent]).toEqual(['Today', 'Yesterday'])
    expect(screen.getByText('Waiting to be sent. Next try at 1:00 PM.')).toBeVisible()
  },
)

test.each([26, -26, 0])(
  'with a clock that is %i h ahead, the dashboard says how long ago by the server',
  async (hours) => {
    setClocks(hours)
    const rules = { 'deal-closed': { sent: 1, failed: 0, lastSentAt: agoInHours(2) } }
    openApp({
      connected: both(),
      features,
      rules: ['deal-closed'],
      activity: { summary: { rules } },
    })
    server.use(
      http.get('*/api/slack/status', () =>
        HttpResponse.json({ connected: false, reason: 'Gone.', since: agoInHours(3) }),
      ),
    )
    expect(await screen.findByText('2 hours ago')).toBeVisible()
    expect(await screen.findByText('today, 9:00 AM')).toBeVisible()
  },
)
