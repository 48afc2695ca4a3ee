import { expect } from '@playwright/test'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { sharedTest } from './fixtures.ts'
import type { Query } from './page.ts'

/** Each route, its calls, and what it shows when all calls have been answered. /connect/hubspot waits for none. */
const routes: [path: string, calls: string[], shows: Query][] = [
  ['/', dashboardCalls, { role: 'button', name: 'Save' }],
  ['/connect/hubspot', ['/api/hubspot/status'], { role: 'button', name: 'Connect HubSpot' }],
  ['/contact', [], { role: 'heading', name: 'Contact Support' }],
  ['/slack/callback?code=refused', ['/api/slack/callback'], { text: 'Slack connection failed' }],
]

for (const [path, calls, shows] of routes) {
  sharedTest(`${path} makes each call once, with cold or warm cache`, async ({ person, front }) => {
    const once = Object.fromEntries(['/health', ...calls].map((call) => [`GET ${call}`, 1]))
    for (const cache of ['cold', 'warm']) {
      front.requests = []
      await person.open(path)
      await person.see(shows)
      await expect.poll(() => front.calls(), { message: cache }).toEqual(once)
      expect(Math.max(0, ...Object.values(front.files())), cache).toBe(cache === 'cold' ? 1 : 0)
    }
  })
}
