import { getRequestListener } from '@hono/node-server'
import { expect } from '@playwright/test'
import { Hono } from 'hono'
import { cors } from 'hono/cors'
import { http } from 'msw'
import { createBackend } from '../msw/handlers.ts'
import { type State, stateOf, states } from '../states/states.ts'
import { dashboardCalls } from './dashboard-calls.ts'
import { sharedTest as test } from './server.ts'
import { showState } from './show-state.ts'
import { serve, serveBuild } from './site.ts'
import { frame, holdCall, visit, watchShifts } from './watch.ts'

/** What a page loads, each part in its own time, and the words that it shows before. */
const loads = {
  '/': {
    before: 'Loading dashboard...',
    calls: { statuses: '*/api/:provider/status', rules: '*/api/notifications/rules' },
  },
  '/activity': {
    before: 'Loading messages…',
    calls: { summary: '*/api/notifications/summary', messages: '*/api/notifications/activity' },
  },
} as const

const pageOf = (address: string) => new URL(address, 'http://localhost').pathname

/** The states of these pages that loading alone leads to, new ones too. */
const loadedStates: State[] = [
  ...states.filter(
    ({ name, address, steps }) =>
      pageOf(address) in loads &&
      steps === undefined &&
      !/^Health|^Service|loading$|^The rules/.test(name),
  ),
  {
    name: 'Both connected, no rules',
    address: '/',
    backend: () => createBackend({ connected: new Set(['hubspot', 'slack']) }).handlers,
    shows: 'No notification rules defined',
  },
]

/**
 * What these show comes late, and moves the rest: this is rare, users must see it, and room for its three lines
 * on a phone would be a hole for all others.
 */
const movesTheRest = ['Messages failed while Slack was disconnected']

// Only what is in the window counts. In a short one, the bar with Save sticks to its lower end.
for (const [width, height] of [
  [320, 640],
  [1280, 2200],
] as const) {
  test.describe(`at ${width} × ${height}`, () => {
    test.use({ viewport: { width, height }, hasTouch: width === 320 })

    for (const [start, { before, calls }] of Object.entries(loads)) {
      test(`nothing moves between loading and loaded, in any state of ${start}`, {
        tag: '@all',
      }, async ({ page }) => {
        test.setTimeout(240_000)
        const shifts = await watchShifts(page)
        const paths = Object.entries(calls)
        for (const state of loadedStates.filter(({ address }) => pageOf(address) === start)) {
          for (const order of [paths, paths.toReversed()]) {
            const held = order.map(([name, path]) => ({
              name,
              path,
              ...Promise.withResolvers<undefined>(),
            }))
            const backend = () => [
              ...held.map(({ path, promise }) => http.get(path, () => promise)),
              ...state.backend(),
            ]
            const shown = showState(page, { ...state, backend })
            await expect(page.getByText(before)).toBeVisible()
            for (const { name, resolve } of held) {
              await frame(page)
              resolve(undefined)
              if (name === 'statuses')
                await expect(page.getByText('Connections', { exact: true })).toBeVisible()
            }
            // What goes beyond section 7 comes later, and moves nothing either.
            await shown
            await frame(page)
            const told = `${state.name}, ${held.map(({ name }) => name)}`
            if (movesTheRest.includes(state.name)) expect.soft(await shifts(), told).not.toEqual([])
            else expect.soft(await shifts(), told).toEqual([])
          }
        }
      })
    }

    test('nothing moves while the backend is slow or away, nor on the other screens', {
      tag: '@all',
    }, async ({ page }) => {
      const shifts = await watchShifts(page)
      const text = (words: string) => page.getByText(words)
      const save = page.getByRole('button', { name: 'Save' })
      const retry = page.getByRole('button', { name: 'Try again' })
      const form = page.frameLocator('iframe').getByRole('button', { name: 'Send' })
      const handling = text('Handling HubSpot OAuth Callback...')
      const refused = text('HubSpot connection failed')
      const open = (address: string) => () => page.goto(address, { waitUntil: 'commit' })
      const health = '**/health'
      for (const [start, call, answer, before, after] of [
        [open('/'), health, 'passes', text('Loading…'), save],
        [open('/'), health, 'fails', text('Loading…'), text('Service Unavailable')],
        [() => retry.click(), health, 'passes', text('Trying…'), save],
        [open('/hubspot/callback?code=1'), '**/api/hubspot/callback*', 'fails', handling, refused],
        [open('/contact'), '**/sandbox/contact-form', 'passes', text('Fill out the form'), form],
      ] as const) {
        const letCall = await holdCall(page, call, answer)
        await start()
        await expect(before).toBeVisible()
        await frame(page)
        letCall()
        await expect(after).toBeVisible()
        await frame(page)
        expect.soft(await shifts(), `${call} ${answer}`).toEqual([])
        await page.unroute(call)
      }

      // The observer reports a real shift.
      await page.evaluate(() => document.body.prepend('Pushed'))
      await expect.poll(shifts).toEqual([expect.stringMatching(/^0\.\d+: .* from \d+ to \d+/)])
    })
  })
}

test('a footer does not slide to the place of the next', { tag: '@all' }, async ({ page }) => {
  const shifts = await watchShifts(page)
  const letStatuses = await holdCall(page, '**/api/*/status', 'passes')
  await page.route('**/api/hubspot/callback*', (route) => route.fulfill({ status: 204 }))
  await page.goto('/hubspot/callback?code=1')
  await expect(page.getByText('Loading dashboard...')).toBeVisible()
  letStatuses()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  await frame(page)
  expect(await shifts()).toEqual([])
})

test('what failed at a callback moves nothing when repeated', { tag: '@all' }, async ({ page }) => {
  const shifts = await watchShifts(page)
  await page.route('**/api/slack/callback*', (route) => route.fulfill({ status: 403 }))
  const letRules = await holdCall(page, '**/api/notifications/rules', 'passes')
  await page.goto('/slack/callback?code=1')
  const failed = page.getByText('Slack connection failed')
  await expect(failed).toHaveRole('alert')
  await expect(page.getByRole('heading', { name: 'Connections' })).toBeVisible()
  await frame(page)
  letRules()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  await expect(failed).toBeVisible()
  await frame(page)
  expect(await shifts()).toEqual([])
})

test('each address requests only what it needs, once, from its own origin, and preloads nothing unused', {
  tag: '@all',
}, async ({ context, server }) => {
  const addresses = ['/', '/contact', '/hubspot/callback', '/connect/hubspot', '/no/such/page']
  // Each waits for Chromium's report, so they wait together.
  await Promise.all(
    addresses.map(async (address) => {
      const page = await context.newPage()
      const { asked, complaints } = await visit(page, address)
      await expect(page.getByText('Need Help?'), address).toBeVisible()
      const own = complaints.filter((text) => !/^Connecting \w+ failed: Missing/.test(text))
      expect(own, address).toEqual([])
      expect(new Set(asked.map(({ origin }) => origin)), address).toEqual(new Set([server.url]))
      const paths = asked.map(({ pathname }) => pathname).toSorted()
      expect(paths, address).toEqual([...new Set(paths)])
      const hasForm = paths.includes('/sandbox/contact-form')
      expect(hasForm, address).toBe(address === '/contact')
      const called = paths.filter((path) => /^\/(api\/|health)/.test(path))
      const calls =
        { '/': dashboardCalls, '/connect/hubspot': ['/api/hubspot/status'] }[address] ?? []
      expect(called, address).toEqual([...calls, '/health'])
    }),
  )
})

test('what goes beyond section 7 loads last, in few requests, and only for a backend that offers it', {
  tag: '@all',
}, async ({ page }) => {
  let asked: string[] = []
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (pathname !== '/favicon.svg') asked.push(pathname)
  })
  const isLate = (path: string) => /features-|summary|preview/.test(path)
  await showState(page, stateOf('Both connected, two rules'))
  await page.waitForLoadState('networkidle')
  expect(asked.filter(isLate)).toEqual([])
  // The icon is the tenth.
  expect(asked.length).toBeLessThan(10)

  asked = []
  await showState(page, stateOf('What each rule has sent or would have sent'))
  await page.waitForLoadState('networkidle')
  expect(
    asked.slice(asked.findIndex(isLate)).map((path) => path.replace(/^.*\/|-.*$/g, '')),
  ).toEqual([
    'features',
    expect.stringMatching(/summary|preview/),
    expect.stringMatching(/summary|preview/),
  ])
  expect(asked.length).toBeLessThan(15)
})

test('a backend on another origin gets each call once, with cookies and without a preflight', {
  tag: '@all',
}, async ({ page, context }) => {
  const calls: string[] = []
  let pageOrigin = ''
  const app = new Hono()
    .use(cors({ origin: () => pageOrigin, credentials: true }))
    .use((c, next) => {
      calls.push(`${c.req.method} ${c.req.path} ${c.req.header('Cookie')}`)
      return next()
    })
    .get('/v1/health', (c) => c.json({ status: 'ok' }))
    .get('/v1/api/notifications/rules', (c) => c.json({ rules: [] }))
    .get('/v1/api/:provider/status', (c) => c.json({ connected: true }))
  const backend = await serve(getRequestListener(app.fetch))
  const dashboard = await serveBuild({ VITE_API_URL: `${backend.url}/v1` })
  pageOrigin = dashboard.url

  await context.addCookies([{ name: 'session', value: '1', url: backend.url }])
  await page.goto(dashboard.url)
  await expect(page.getByRole('button', { name: 'Disconnect HubSpot' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  expect(calls.toSorted()).toEqual([
    'GET /v1/api/hubspot/status session=1',
    'GET /v1/api/notifications/rules session=1',
    'GET /v1/api/slack/status session=1',
    'GET /v1/health session=1',
  ])
  backend.close()
  dashboard.close()
})
