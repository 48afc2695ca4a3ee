import { getRequestListener } from '@hono/node-server'
import type { Page } from '@playwright/test'
import { expect } from '@playwright/test'
import { Hono } from 'hono'
import { cors } from 'hono/cors'
import { holdTime } from '../states/states.ts'
import { dashboardCalls } from './dashboard-calls.ts'
import { sharedTest as test } from './server.ts'
import { serve, serveBuild } from './site.ts'

/** An answer in JSON, or a refusal, which the page does not retry. */
type Answer = object | 'fails'

/** Holds the answer of a call back until the returned function is called. */
async function holdCall(page: Page, path: string, answer: Answer) {
  const { promise, resolve } = Promise.withResolvers<void>()
  await page.route(path, async (route) => {
    await promise
    await (answer === 'fails' ? route.fulfill({ status: 403 }) : route.fulfill({ json: answer }))
  })
  return resolve
}

/** What the backend answers. Each answer waits until the test releases it. */
interface Backend {
  crm?: Answer
  chat?: Answer
  rules?: string[] | 'fails'
}

const on = { connected: true }
const off = { connected: false }

async function hold(page: Page, { crm = on, chat = on, rules = [] }: Backend) {
  const letCrm = await holdCall(page, '**/api/hubspot/status', crm)
  const letChat = await holdCall(page, '**/api/slack/status', chat)
  const answer = rules === 'fails' ? rules : { rules }
  await page.route('**/api/notifications/{summary,preview}?*', (route) =>
    route.fulfill({
      json: route.request().url().includes('summary')
        ? { days: 14, rules: {}, daily: [], waiting: 2, failedSinceBroken: 3 }
        : {
            days: 7,
            rules: { 'deal-closed': 31 },
            samples: { 'deal-closed': 'Won' },
            complete: true,
          },
    }),
  )
  return {
    statuses: () => {
      letCrm()
      letChat()
    },
    rules: await holdCall(page, '**/api/notifications/rules', answer),
  }
}

/** Holds the contact form back until the returned function is called. */
async function holdForm(page: Page) {
  const { promise, resolve } = Promise.withResolvers<void>()
  await page.route('**/sandbox/contact-form', async (route) => {
    await promise
    await route.continue()
  })
  return resolve
}

/** Records every layout shift from the first frame on. */
async function watchShifts(page: Page) {
  await page.addInitScript(() => {
    const shifts: string[] = []
    Object.assign(window, { shifts })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as (PerformanceEntry & {
        value: number
        sources: { node: Node | null; previousRect: DOMRect; currentRect: DOMRect }[]
      })[]) {
        const moved = entry.sources.map(
          ({ node, previousRect, currentRect }) =>
            `${node?.nodeName} '${node?.textContent?.slice(0, 30)}' from ${previousRect.top} to ${currentRect.top}`,
        )
        shifts.push(`${entry.value.toFixed(4)}: ${moved.join(', ')}`)
      }
    }).observe({ type: 'layout-shift', buffered: true })
  })
  return () => page.evaluate(() => (window as unknown as { shifts: string[] }).shifts)
}

/** Waits for a frame and the next 50 ms, in which a late shift would come. */
const frame = (page: Page) =>
  page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 50))),
  )

const some = ['deal-stage-changed']
const states: [what: string, backend: Backend][] = [
  ['both connected, rules ticked', { rules: some }],
  ['both connected, no rules', {}],
  ['one connected, rules ticked', { chat: off, rules: some }],
  ['one connected, no rules', { crm: off }],
  ['none connected, rules ticked', { crm: off, chat: off, rules: some }],
  ['none connected, no rules', { crm: off, chat: off }],
  [
    'both connected, with their names',
    {
      crm: { ...on, account: 'A portal with quite a long name' },
      chat: { ...on, account: 'A workspace of many words', channel: '#sales-north-and-south' },
      rules: some,
    },
  ],
  [
    'one that broke, and the names of the other',
    {
      crm: {
        ...off,
        reason: 'HubSpot no longer accepts the connection.',
        since: '2026-01-02T03:04:05.000Z',
      },
      chat: { ...on, account: 'A workspace of many words', channel: '#sales-north-and-south' },
    },
  ],
  ['a status that fails', { crm: 'fails', rules: some }],
  ['both statuses fail', { crm: 'fails', chat: 'fails' }],
  ['rules that fail', { rules: 'fails' }],
  ['everything fails', { crm: 'fails', chat: 'fails', rules: 'fails' }],
]

/** What the dashboard shows after everything else. */
function later({ crm = on, chat = on, rules = [] }: Backend): string[] {
  return [
    ...(rules.length > 0 && rules !== 'fails' ? ['No messages sent in 14 days'] : []),
    ...(crm === on || (crm !== 'fails' && 'account' in crm) ? ['Would have sent'] : []),
    ...([crm, chat].every((one) => one !== 'fails' && one !== off && !('reason' in one))
      ? ['Send a test message']
      : []),
    ...([crm, chat].some((one) => one !== 'fails' && 'reason' in one)
      ? ['2 messages are waiting']
      : []),
  ]
}

for (const [width, height] of [
  [320, 640],
  [1280, 720],
  [1280, 2200],
] as const) {
  test.describe(`at ${width} × ${height}`, () => {
    test.use({ viewport: { width, height } })

    test('nothing moves between loading and loaded, in any state', { tag: '@all' }, async ({
      page,
    }) => {
      test.setTimeout(120_000)
      const shifts = await watchShifts(page)
      for (const [what, backend] of states) {
        for (const order of [
          ['rules', 'statuses'],
          ['statuses', 'rules'],
        ] as const) {
          await page.unrouteAll()
          const answers = await hold(page, backend)
          await page.goto('/')
          await expect(page.getByText('Loading dashboard...')).toBeVisible()
          for (const name of order) {
            await frame(page)
            answers[name]()
            if (name === 'statuses')
              await expect(page.getByText('Connections', { exact: true })).toBeVisible()
          }
          await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
          // What goes beyond section 7 comes later, and moves nothing either.
          for (const text of later(backend)) {
            await expect(page.getByText(text).first()).toBeVisible()
          }
          await frame(page)
          expect.soft(await shifts(), `${what}, ${order}`).toEqual([])
        }
      }
    })

    test('nothing moves while the backend is slow or away, nor on the other screens', {
      tag: '@all',
    }, async ({ page }) => {
      const shifts = await watchShifts(page)
      const answers = await hold(page, { rules: some })
      answers.statuses()
      answers.rules()
      for (const first of [{ status: 'ok' }, 'fails'] as const) {
        await page.unroute('**/health')
        const letHealth = await holdCall(page, '**/health', first)
        await page.goto('/')
        await expect(page.getByText('Loading…')).toBeVisible()
        await frame(page)
        letHealth()
        if (first === 'fails') {
          await expect(page.getByText('Service Unavailable')).toBeVisible()
          await frame(page)
          await page.unroute('**/health')
          const letBack = await holdCall(page, '**/health', { status: 'ok' })
          await page.getByRole('button', { name: 'Try again' }).click()
          await expect(page.getByText('Trying…')).toBeVisible()
          await frame(page)
          letBack()
        }
        await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
        await frame(page)
        expect.soft(await shifts(), `health: ${JSON.stringify(first)}`).toEqual([])
      }

      const letCallback = await holdCall(page, '**/api/hubspot/callback*', 'fails')
      await page.goto('/hubspot/callback?code=1')
      await expect(page.getByText('Handling HubSpot OAuth Callback...')).toBeVisible()
      await frame(page)
      letCallback()
      await expect(page.getByText('HubSpot connection failed')).toBeVisible()
      await frame(page)
      expect.soft(await shifts(), 'an authorization that fails').toEqual([])

      const letForm = await holdForm(page)
      await page.goto('/contact', { waitUntil: 'commit' })
      await expect(page.getByRole('heading', { name: 'Contact Support' })).toBeVisible()
      await frame(page)
      letForm()
      await expect(page.frameLocator('iframe').getByRole('button', { name: 'Send' })).toBeVisible()
      await frame(page)
      expect.soft(await shifts(), 'the contact form').toEqual([])

      // The observer reports a real shift.
      await page.evaluate(() => document.body.prepend('Pushed'))
      await expect.poll(shifts).toEqual([expect.stringMatching(/^0\.\d+: .* from \d+ to \d+/)])
    })
  })
}

test('the footer of one screen does not slide to that of the next', { tag: '@all' }, async ({
  page,
}) => {
  const shifts = await watchShifts(page)
  const answers = await hold(page, {})
  await page.route('**/api/hubspot/callback*', (route) => route.fulfill({ status: 204 }))
  await page.goto('/hubspot/callback?code=1')
  await expect(page.getByText('Loading dashboard...')).toBeVisible()
  answers.statuses()
  answers.rules()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  await frame(page)
  expect(await shifts()).toEqual([])
})

test('a tick is on screen within 50 ms on a processor slowed four times', {
  tag: ['@alone', '@all'],
}, async ({ page }) => {
  await page.goto('/')
  const box = page.getByLabel('Notify me when a deal stage changes')
  await expect(box).toBeVisible()
  const devtools = await page.context().newCDPSession(page)
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: 4 })
  await page.evaluate(() => {
    const durations: number[] = []
    Object.assign(window, { durations })
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as PerformanceEventTiming[]) {
        if (entry.name === 'click' && entry.interactionId !== 0) durations.push(entry.duration)
      }
    }).observe({ type: 'event', durationThreshold: 16 } as PerformanceObserverInit)
  })
  const listed = () => page.evaluate(() => (window as unknown as { durations: number[] }).durations)
  const { x, y, width, height } = (await box.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 }
  const ticks = 9
  for (let tick = 1; tick <= ticks; tick += 1) {
    await page.mouse.click(x + width / 2, y + height / 2)
    await expect(box).toBeChecked({ checked: tick % 2 === 1 })
    await frame(page)
  }
  // A slow click proves that clicks are measured. Its entry comes after the entries of the ticks.
  await page.evaluate(() => {
    const work = () => {
      const end = performance.now() + 500
      while (performance.now() < end);
    }
    addEventListener('click', work, { once: true })
  })
  await page.mouse.click(x + width / 2, y + height / 2)
  await expect.poll(async () => (await listed()).at(-1)).toBeGreaterThanOrEqual(500)

  // Clicks faster than the threshold have no entry. Take the median, although INP takes the slowest click:
  // the slowest one (40 to 64 ms at rest) depends more on the machine than on the page.
  const slow = (await listed()).slice(0, -1)
  const durations = [...Array(ticks - slow.length).fill(0), ...slow].sort((a, b) => a - b)
  expect(durations[Math.floor(ticks / 2)]).toBeLessThanOrEqual(50)
})

/** Opens an address. Returns its requests, and the browser's complaints once it has made them. */
async function visit(page: Page, address: string) {
  const asked: URL[] = []
  const complaints: string[] = []
  // Some seconds after the load event, Chromium reports all unused preloads at once. Add one unused
  // preload: its report tells when this has happened.
  const inVain = '/favicon.svg?in-vain'
  page.on('request', (request) => {
    if (!request.url().endsWith(inVain)) asked.push(new URL(request.url()))
  })
  page.on('console', (message) => {
    if (['warning', 'error'].includes(message.type())) complaints.push(message.text())
  })
  // Keep a failed chat callback on screen. It would lead to the dashboard after 3 s.
  await page.addInitScript(holdTime)
  await page.addInitScript((href) => {
    if (window !== top) return
    addEventListener('DOMContentLoaded', () => {
      const link = document.createElement('link')
      document.head.append(Object.assign(link, { rel: 'preload', as: 'image', href }))
    })
  }, inVain)
  const told = page.waitForEvent('console', (message) => message.text().includes(inVain))
  await page.goto(address)
  await told
  // This answer arrives after all reports of the same batch.
  await page.evaluate(() => {})
  return {
    asked,
    complaints: complaints.filter((text) => !text.includes(inVain)),
    paths: asked.map(({ pathname }) => pathname),
  }
}

test('the dashboard requests everything once, from its own origin, and preloads nothing unused', {
  tag: '@all',
}, async ({ page, server }) => {
  const { asked, complaints, paths } = await visit(page, '/')
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  expect(complaints).toEqual([])
  expect(new Set(asked.map(({ origin }) => origin))).toEqual(new Set([server.url]))
  expect(paths.toSorted()).toEqual([...new Set(paths)].toSorted())
  expect(paths.filter((path) => !path.startsWith('/assets/')).toSorted()).toEqual(
    ['/', '/health', ...dashboardCalls]
      .concat(paths.includes('/favicon.svg') ? '/favicon.svg' : [])
      .toSorted(),
  )
})

test('what goes beyond section 7 loads last, and only for a backend that offers it', {
  tag: '@all',
}, async ({ page }) => {
  const asked: string[] = []
  page.on('request', (request) => asked.push(new URL(request.url()).pathname))
  const late = () => asked.filter((path) => /Insights|summary|preview/.test(path))

  await page.route('**/health', (route) => route.fulfill({ json: { status: 'ok' } }))
  const answers = await hold(page, { rules: some })
  answers.statuses()
  answers.rules()
  const { complaints } = await visit(page, '/')
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  expect(complaints).toEqual([])
  expect(late()).toEqual([])

  await page.unroute('**/health')
  await page.unroute('**/api/notifications/rules')
  const letRules = await holdCall(page, '**/api/notifications/rules', { rules: some })
  await page.reload()
  await expect(page.getByText('Loading rules…')).toBeVisible()
  await frame(page)
  expect(late()).toEqual([])
  letRules()
  await expect(page.getByText('No messages sent in 14 days')).toBeVisible()
  expect(
    late()
      .map((path) => path.replace(/^.*\/|-.*$/g, ''))
      .toSorted(),
    // One of the two is a script, which /activity needs as well.
  ).toEqual(['Insights', 'preview', 'summary', 'summary'])
})

test('the other addresses load no script of the dashboard and make none of its calls', {
  tag: '@all',
}, async ({ context }) => {
  const addresses = [
    '/contact',
    '/hubspot/callback',
    '/slack/callback',
    '/connect/hubspot',
    '/no/such/page',
  ]
  // Each waits for Chromium's report, so they wait together.
  await Promise.all(
    addresses.map(async (address) => {
      const page = await context.newPage()
      let dashboardScript = ''
      page.on('response', async (response) => {
        const text = response.url().endsWith('.js') ? await response.text() : ''
        if (text.includes('Loading dashboard...')) dashboardScript = response.url()
      })
      const { asked, complaints, paths } = await visit(page, address)
      await expect(page.getByText('Need Help?'), address).toBeVisible()
      const own = complaints.filter((text) => !/^Connecting \w+ failed: Missing/.test(text))
      expect(own, address).toEqual([])
      expect(dashboardScript, address).toBe('')
      expect(
        paths.filter((path) => /^\/(api\/|health)/.test(path)),
        address,
      ).toEqual(['/health'])
      expect(new Set(asked.map(({ origin }) => origin)).size, address).toBe(1)
    }),
  )
})

/** Lists the calls that leave the page from here on. */
function listCalls(page: Page): string[] {
  const calls: string[] = []
  page.on('request', (request) => {
    const { pathname } = new URL(request.url())
    if (/^\/(health|api\/)/.test(pathname)) calls.push(`${request.method()} ${pathname}`)
  })
  return calls
}

const firstCalls = ['/health', ...dashboardCalls].map((path) => `GET ${path}`).sort()

// The app has made all its calls once the dashboard shows their answers.
test('a reload and another visit make each call once, also from a warm cache', async ({ page }) => {
  const calls = listCalls(page)
  for (const open of [() => page.goto('/'), () => page.reload(), () => page.goto('/?again')]) {
    calls.splice(0)
    await open()
    await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
    expect(calls.toSorted()).toEqual(firstCalls)
  }
})

test('the boot script sends no code: the callback is one call, made by the app', async ({
  page,
}) => {
  const calls = listCalls(page)
  const early: string[] = []
  await page.route('**/assets/index-*.js', async (route) => {
    // The app cannot run yet.
    await expect.poll(() => calls).toContain('GET /health')
    early.push(...calls)
    await route.continue()
  })
  await page.goto('/slack/callback?code=used&state=up')
  await expect(page.getByText('Slack connection failed')).toBeVisible()
  expect(early).toEqual(['GET /health'])
  expect(calls.filter((call) => !firstCalls.includes(call))).toEqual(['GET /api/slack/callback'])
})

test('an address in other letters and with a slash at its end makes each call once', {
  tag: '@all',
}, async ({ page }) => {
  const calls = listCalls(page)
  await page.goto('/Contact/')
  await expect(page.getByRole('heading', { name: 'Contact Support' })).toBeVisible()
  expect(calls).toEqual(['GET /health'])
  // The dashboard was not loaded at its address. It makes its calls itself.
  await page
    .getByRole('link', { name: /Dealbell/ })
    .first()
    .click()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  expect(calls.toSorted()).toEqual(firstCalls)
})

test('calls that fail before the app starts are repeated as other failed calls are', {
  tag: '@all',
}, async ({ page }) => {
  const calls = listCalls(page)
  const errors: Error[] = []
  page.on('pageerror', (error) => errors.push(error))
  await page.route(/\/(health|api\/)/, (route) => route.abort('connectionrefused'), { times: 4 })
  await page.goto('/')
  await expect(page.getByRole('heading', { name: 'Service Unavailable' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  // Statuses and rules are repeated at once, and health after a while. Then the rest is loaded again.
  expect(calls.filter((call) => call === 'GET /health')).toHaveLength(2)
  expect(errors).toEqual([])
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
  const dashboard = await serveBuild({
    VITE_API_URL: `${backend.url}/v1`,
    VITE_CRM_NAME: 'Pipedrive',
    VITE_CHAT_NAME: 'Teams',
  })
  pageOrigin = dashboard.url

  await context.addCookies([{ name: 'session', value: '1', url: backend.url }])
  await page.goto(dashboard.url)
  await expect(page.getByRole('button', { name: 'Disconnect Pipedrive' })).toBeVisible()
  await expect(page.getByRole('button', { name: 'Save' })).toBeVisible()
  expect(calls.toSorted()).toEqual([
    'GET /v1/api/notifications/rules session=1',
    'GET /v1/api/pipedrive/status session=1',
    'GET /v1/api/teams/status session=1',
    'GET /v1/health session=1',
  ])
  backend.close()
  dashboard.close()
})
