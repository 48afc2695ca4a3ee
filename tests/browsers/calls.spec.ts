import { expect } from '@playwright/test'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { sharedTest } from './fixtures.ts'
import type { Query } from './page.ts'

/** Each route, its calls, and what it shows when all calls have been answered. */
const routes: [path: string, calls: string[], shows: Query][] = [
  ['/', dashboardCalls, { role: 'button', name: 'Save' }],
  ['/contact', [], { role: 'heading', name: 'Contact Support' }],
  ['/slack/callback?code=refused', ['/api/slack/callback'], { text: 'Slack connection failed' }],
]

/** Without it, the second visit could be the first one that asks for a late file. */
const haveLatePartsLoaded = `return document.querySelector('link[rel=late]') === null &&
  [...document.querySelectorAll('link[rel=modulepreload], link[rel=stylesheet]')].every(({ href }) =>
    performance.getEntriesByName(href).some(({ responseEnd }) => responseEnd > 0))`

for (const [path, calls, shows] of routes) {
  sharedTest(`${path} makes each call once, with cold or warm cache`, async ({ person, front }) => {
    const once = Object.fromEntries(['/health', ...calls].map((call) => [`GET ${call}`, 1]))
    for (const cache of ['cold', 'warm']) {
      front.requests = []
      await person.open(path)
      await person.see(shows)
      if (path !== '/contact') await person.gives(haveLatePartsLoaded, true)
      expect(front.calls(), cache).toEqual(once)
      expect(Math.max(0, ...Object.values(front.files())), cache).toBe(cache === 'cold' ? 1 : 0)
    }
  })
}
