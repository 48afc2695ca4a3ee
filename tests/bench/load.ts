import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { serve } from '@hono/node-server'
import { type Browser, type BrowserContext, chromium } from '@playwright/test'
import { Hono } from 'hono'
import { build } from 'vite'
import { featureNames } from '../../contract/features.ts'
import { pagePolicy } from '../../contract/page-headers.ts'
import { chromiumArguments, ensure, chromium as installedChromium } from '../../scripts/programs.ts'
import { safetyHeaders } from '../../server/http/safety-headers.ts'
import { serveDashboard } from '../../server/page/serve.ts'

// How long it takes from the navigation until both connections and the ticked rules can be used, on
// a phone with a poor connection: see docs/performance.md. `--former FOLDER` compares it with another checkout.

const network = { latency: 150, downloadThroughput: 1_600_000 / 8, uploadThroughput: 750_000 / 8 }
const cpuSlowdown = 4
const apiDelayMs = 150
const settleMs = 300
const timeoutMs = 30_000

const pages = {
  dealbell: 'Dealbell, first visit',
  again: 'Dealbell, second visit',
  features: 'Dealbell with all features',
  former: 'a former Dealbell',
} as const
type Page = keyof typeof pages

interface Visit {
  firstPaintMs: number
  readyMs: number
  bytes: number
}

const limits: [what: string, measure: keyof Visit, of: Page, by: Page, limit: number][] = [
  ['ready', 'readyMs', 'again', 'dealbell', 0.8],
  ['ready', 'readyMs', 'features', 'dealbell', 1.03],
  ['ready', 'readyMs', 'dealbell', 'former', 1.03],
  ['bytes', 'bytes', 'dealbell', 'former', 1.01],
]

const { values: options } = parseArgs({
  options: {
    runs: { type: 'string', default: '9' },
    // The folder of a checkout of another commit, with its packages installed.
    former: { type: 'string' },
  },
})
const runs = Number(options.runs)
if (!Number.isInteger(runs) || runs < 7) throw new Error('--runs must be 7 or more.')

const project = join(import.meta.dirname, '../..')
const folder = await mkdtemp(join(tmpdir(), 'dealbell-load-'))
const executablePath = ensure(installedChromium)
const browser = await chromium.launch({
  ...(executablePath !== undefined && { executablePath }),
  args: chromiumArguments,
})
try {
  const isKept = await run(browser)
  process.exitCode = isKept ? 0 : 1
} finally {
  await browser.close()
  await rm(folder, { recursive: true, force: true })
}

async function run(browser: Browser): Promise<boolean> {
  await buildPage('dealbell', project)
  if (options.former !== undefined) await buildPage('former', resolve(options.former))

  const servers = new Map([
    ['dealbell', await servePage('dealbell')],
    ['features', await servePage('dealbell', featureNames)],
  ] as [Page, Awaited<ReturnType<typeof servePage>>][])
  if (options.former !== undefined) servers.set('former', await servePage('former'))
  const visits = new Map([...servers.keys(), 'again' as const].map((page) => [page, [] as Visit[]]))

  // The pages take turns, so that other work on the machine slows all of them alike.
  const order = [...servers]
  for (let round = 0; round <= runs; round += 1) {
    if (round % 2 === 0) order.push(...order.splice(0, 1))
    for (const [page, { url }] of round % 2 === 0 ? order : order.toReversed()) {
      const context = await browser.newContext({ viewport: { width: 390, height: 844 } })
      const first = await visit(context, url)
      // The first round warms up.
      if (round > 0) visits.get(page)?.push(first)
      if (page === 'dealbell') {
        const again = await visit(context, url)
        if (round > 0) visits.get('again')?.push(again)
      }
      await context.close()
    }
  }
  for (const { close } of servers.values()) close()
  return report(visits)
}

async function buildPage(name: Page, root: string): Promise<void> {
  await build({
    root,
    logLevel: 'error',
    build: { outDir: join(folder, name), modulePreload: false },
  })
}

/** The project's own static server, and the calls, each answered after a while. */
async function servePage(
  name: Page,
  features: readonly string[] = [],
): Promise<{ url: string; close: () => void }> {
  const app = new Hono()
  app.use(safetyHeaders(undefined))
  const answers = {
    '/health': { status: 'ok', ...(features.length > 0 && { features }) },
    '/api/hubspot/status': { connected: true },
    '/api/slack/status': { connected: true },
    '/api/notifications/rules': { rules: ['deal-stage-changed', 'deal-closed'] },
    '/api/notifications/summary': { days: 14, rules: {}, daily: [], waiting: 0 },
    '/api/notifications/preview': { days: 7, rules: {}, samples: {}, complete: true },
  }
  for (const [path, answer] of Object.entries(answers)) {
    app.get(path, async (c) => {
      await wait(apiDelayMs)
      return c.json(answer)
    })
  }
  const policy = pagePolicy({ apiUrl: '', contactFormUrl: '/', contactFormOrigins: [] })
  app.all('*', serveDashboard({ folder: join(folder, name), policy }))

  const { promise, resolve } = Promise.withResolvers<AddressInfo>()
  const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, resolve)
  const { port } = await promise
  return { url: `http://127.0.0.1:${port}/`, close: () => server.close() }
}

async function visit(context: BrowserContext, url: string): Promise<Visit> {
  const page = await context.newPage()
  const devtools = await context.newCDPSession(page)
  const problems: string[] = []
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) problems.push(message.text())
  })
  page.on('pageerror', (error) => problems.push(error.message))
  let bytes = 0
  devtools.on('Network.loadingFinished', ({ encodedDataLength }) => {
    bytes += encodedDataLength
  })
  await devtools.send('Network.enable')
  await devtools.send('Network.emulateNetworkConditions', { offline: false, ...network })
  await devtools.send('Emulation.setCPUThrottlingRate', { rate: cpuSlowdown })

  // Not Playwright's own ways to wait, since what they load into the page costs it tens of milliseconds.
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  devtools.on('Runtime.bindingCalled', ({ payload }) => resolve(payload))
  await devtools.send('Page.enable')
  await devtools.send('Runtime.enable')
  await devtools.send('Runtime.addBinding', { name: 'sayReady' })
  await devtools.send('Page.addScriptToEvaluateOnNewDocument', { source: `(${watch})()` })

  // What the opening of a page and the closing of the last one leave to do is not part of a visit.
  await wait(settleMs)
  await devtools.send('Page.navigate', { url })
  const timer = setTimeout(
    () => reject(new Error(`${url} was not ready in time. ${problems.join('\n')}`)),
    timeoutMs,
  )
  const measured = JSON.parse(await promise)
  clearTimeout(timer)
  if (problems.length > 0) throw new Error(`${url} complained: ${problems.join('\n')}`)
  await page.close()
  return { ...measured, bytes }
}

/** Runs in the page: says when the frame is on screen that first shows what a person came for. */
function watch(): void {
  function look() {
    const buttons = [...document.querySelectorAll('button')]
    const labels = [...document.querySelectorAll('label')]
    const isReady =
      buttons.filter((button) => button.textContent === 'Disconnect' && !button.disabled).length ===
        2 &&
      ['a deal stage changes', 'a deal is signed or closed'].every((when) => {
        const box = labels
          .find((label) => label.textContent.includes(`Notify me when ${when}`))
          ?.querySelector('input')
        return box?.checked === true && !box.disabled
      })
    if (!isReady) {
      requestAnimationFrame(look)
      return
    }
    // A message is delivered after the frame has been painted.
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = () => {
      const readyMs = performance.now()
      const firstPaintMs = performance.getEntriesByName('first-contentful-paint')[0]?.startTime
      sayReady(JSON.stringify({ readyMs, firstPaintMs: firstPaintMs ?? readyMs }))
    }
    port2.postMessage(null)
  }
  requestAnimationFrame(look)
}

declare function sayReady(measured: string): void

function report(visits: ReadonlyMap<Page, readonly Visit[]>): boolean {
  // Other work takes more from the page that needs the processor more: above one a processor, run it again.
  const [load = 0] = loadavg()
  console.log(`${availableParallelism()} processors, of which ${load.toFixed(1)} were asked for`)
  console.log(
    `1.6 Mbit/s, ${network.latency} ms latency, processor slowed ${cpuSlowdown}×, ${apiDelayMs} ms an API call; median of ${runs} runs (lowest to highest)\n`,
  )
  console.table(
    Object.fromEntries(
      [...visits].map(([page, list]) => [
        pages[page],
        {
          'first paint': written(list.map(({ firstPaintMs }) => firstPaintMs)),
          ready: written(list.map(({ readyMs }) => readyMs)),
          'kB received': (
            quantile(
              list.map(({ bytes }) => bytes),
              0.5,
            ) / 1000
          ).toFixed(1),
        },
      ]),
    ),
  )
  // Two visits of the same round met the same machine.
  const ratios = limits.flatMap(([what, measure, of, by, limit]) => {
    const others = visits.get(by) ?? []
    const pairs = (visits.get(of) ?? []).flatMap((visit, round) => {
      const other = others[round]
      return other === undefined ? [] : visit[measure] / other[measure]
    })
    if (pairs.length === 0) return []
    const ratio = quantile(pairs, 0.5)
    const half = [0.25, 0.75].map((share) => quantile(pairs, share).toFixed(2)).join(' to ')
    const name = `${what}: ${pages[of]} ÷ ${pages[by]}`
    // The limits have two digits.
    return { name, ratio, half, limit, isKept: Math.round(ratio * 100) <= limit * 100 }
  })
  console.log('Ratios in each round: their median, and the middle half of them')
  console.table(
    Object.fromEntries(
      ratios.map(({ name, ratio, half, limit, isKept }) => [
        name,
        { ratio: ratio.toFixed(2), half, limit, '': isKept ? 'kept' : 'MISSED' },
      ]),
    ),
  )
  return ratios.every(({ isKept }) => isKept)
}

function written(values: readonly number[]): string {
  const [lowest, median, highest] = [0, 0.5, 1].map((share) => quantile(values, share).toFixed(0))
  return `${median} ms (${lowest} to ${highest})`
}

/** The value below which this share of the values lies. */
function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  const place = (sorted.length - 1) * share
  const [low, high] = [sorted[Math.floor(place)], sorted[Math.ceil(place)]]
  if (low === undefined || high === undefined) throw new Error('There was no run.')
  return low + (high - low) * (place % 1)
}
