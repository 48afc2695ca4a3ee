import { expect } from '@playwright/test'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { sharedTest } from './fixtures.ts'
import type { Query } from './page.ts'

/** Each route, its calls, and what it shows when all calls have been answered. */
const routes: Array<{ path: string; calls: string[]; shows: Query; lastFile?: string }> = [
  {
    path: '/',
    calls: dashboardCalls,
    shows: { role: 'button', name: 'Save' },
    // It comes after all answers. Otherwise the second visit could be the first one that asks for it.
    lastFile: '/assets/SendAllAgain-',
  },
  { path: '/contact', calls: [], shows: { role: 'heading', name: 'Contact Support' } },
  {
    path: '/slack/callback?code=refused',
    calls: ['/api/slack/callback'],
    shows: { text: 'Slack connection failed' },
  },
]

for (const { path, calls, shows, lastFile } of routes) {
  sharedTest(
    `${path} makes each call once, with a cold and a warm cache`,
    async ({ person, front }) => {
      const once = Object.fromEntries(['/health', ...calls].map((call) => [`GET ${call}`, 1]))
      for (const cache of ['cold', 'warm']) {
        front.requests = []
        await person.open(path)
        await person.see(shows)
        if (lastFile !== undefined) {
          const hasLoaded = `return performance.getEntriesByType('resource').some(
            ({ name, responseEnd }) => name.includes('${lastFile}') && responseEnd > 0)`
          await expect.poll(() => person.run(hasLoaded)).toBe(true)
        }
        expect(front.calls(), cache).toEqual(once)
        const files = Object.values(front.files())
        expect(Math.max(0, ...files), `files, ${cache}`).toBe(cache === 'cold' ? 1 : 0)
      }
    },
  )
}
