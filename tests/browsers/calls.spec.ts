import { expect } from '@playwright/test'
import { dashboardCalls } from '../e2e/dashboard-calls.ts'
import { sharedTest } from './fixtures.ts'
import type { Query } from './page.ts'

/** Each route, its calls, and what it shows when all calls have been answered. */
const routes: Array<{ path: string; calls: string[]; shows: Query; loadsLateParts: boolean }> = [
  {
    path: '/',
    calls: dashboardCalls,
    shows: { role: 'button', name: 'Save' },
    loadsLateParts: true,
  },
  {
    path: '/contact',
    calls: [],
    shows: { role: 'heading', name: 'Contact Support' },
    loadsLateParts: false,
  },
  {
    path: '/slack/callback?code=refused',
    calls: ['/api/slack/callback'],
    shows: { text: 'Slack connection failed' },
    loadsLateParts: true,
  },
]

/** Without it, the second visit could be the first one that asks for a late file. */
const haveLatePartsLoaded = `return document.querySelector('link[rel=late]') === null &&
  [...document.querySelectorAll('link[rel=modulepreload], link[rel=stylesheet]')].every(({ href }) =>
    performance.getEntriesByName(href).some(({ responseEnd }) => responseEnd > 0))`

for (const { path, calls, shows, loadsLateParts } of routes) {
  sharedTest(
    `${path} makes each call once, with a cold and a warm cache`,
    async ({ person, front }) => {
      const once = Object.fromEntries(['/health', ...calls].map((call) => [`GET ${call}`, 1]))
      for (const cache of ['cold', 'warm']) {
        front.requests = []
        await person.open(path)
        await person.see(shows)
        if (loadsLateParts) await expect.poll(() => person.run(haveLatePartsLoaded)).toBe(true)
        expect(front.calls(), cache).toEqual(once)
        const files = Object.values(front.files())
        expect(Math.max(0, ...files), `files, ${cache}`).toBe(cache === 'cold' ? 1 : 0)
      }
    },
  )
}
