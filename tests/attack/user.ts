import { setTimeout as delay } from 'node:timers/promises'
import { stripVTControlCharacters } from 'node:util'
import { chromium, errors, type Request } from '@playwright/test'
import { chromiumArguments } from '../../scripts/programs.ts'

/** Somebody who works with the dashboard in Chromium. */
interface User {
  /** How long each call took in the browser. */
  callMs: number[]
  /** What went wrong, each in one line. */
  failures: string[]
  /** Which steps took too long, each in one line. */
  late: string[]
  rounds: number
  /** Works until `end`, a time of `performance.now()`, and at least one round. */
  work(end: number): Promise<void>
  close(): Promise<void>
}

// A quick person's pace. Faster work would be one more flood.
const pauseMs = 500
// Longer than any answer may take. A step that takes longer has failed.
const stepMs = 10_000
// The page ends a call after ten seconds.
const longWaitMs = 5_000

export async function openUser(url: string, executablePath: string): Promise<User> {
  const browser = await chromium.launch({ executablePath, args: chromiumArguments })
  const page = await browser.newPage()
  page.setDefaultTimeout(stepMs)

  /** When the requests began that have no answer yet. */
  const waiting = new Map<Request, number>()
  page.on('request', (request) => waiting.set(request, performance.now()))
  page.on('requestfinished', async (request) => {
    waiting.delete(request)
    if (!isCall(request)) return
    const { responseEnd, responseStart } = request.timing()
    // A redirect has no body, so its end is not known.
    const duration = Math.max(responseEnd, responseStart)
    const answer = await request.response().catch(() => null)
    if (duration >= 0) user.callMs.push(duration)
    if (answer !== null && answer.status() >= 400) {
      user.failures.push(`${nameOf(request)}: ${answer.status()}`)
    }
  })
  page.on('requestfailed', (request) => {
    const waitedMs = performance.now() - (waiting.get(request) ?? Number.NaN)
    waiting.delete(request)
    const reason = request.failure()?.errorText
    if (!isCall(request)) return
    // If the wait was short, the page was left before the answer came.
    if (reason === 'net::ERR_ABORTED' && waitedMs < longWaitMs) return
    const failure = `${nameOf(request)}: ${reason} after ${Math.round(waitedMs)} ms`
    // The page itself ends a call that takes too long.
    ;(reason === 'net::ERR_ABORTED' ? user.late : user.failures).push(failure)
  })

  /** Where a step has failed: the page, its text, and the requests without an answer. */
  async function whereItFailed(): Promise<string> {
    const requests = [...waiting].map(
      ([request, since]) => `${nameOf(request)} since ${Math.round(performance.now() - since)} ms`,
    )
    const text = await page
      .locator('body')
      .textContent({ timeout: 1_000 })
      .catch(() => 'no text')
    return `at ${page.url()}, which waits for [${requests.join(', ')}] and says: ${text}`
  }

  const button = (name: string) => page.getByRole('button', { name, exact: true })

  async function connect(service: string) {
    // After a round that failed, a service may still be connected.
    await button(`Connect ${service}`)
      .or(button(`Disconnect ${service}`))
      .waitFor()
    if (await button(`Connect ${service}`).isVisible()) {
      await button(`Connect ${service}`).click()
      await button('Allow').click()
    }
    await button(`Disconnect ${service}`).waitFor()
    await delay(pauseMs)
  }

  /** Connects both services, changes a rule, saves, reloads and disconnects. */
  async function round() {
    await page.goto(url)
    await connect('HubSpot')
    await connect('Slack')

    const rule = page.getByLabel('Notify me when a deal is signed or closed')
    const isWanted = !(await rule.isChecked())
    await rule.setChecked(isWanted)
    await delay(pauseMs)
    await button('Save').click()
    await page.getByText('✅ Rules saved successfully!').waitFor()

    await delay(pauseMs)
    await page.reload()
    if ((await rule.isChecked()) !== isWanted) throw new Error('A saved rule was lost.')
    for (const service of ['HubSpot', 'Slack']) {
      await delay(pauseMs)
      await button(`Disconnect ${service}`).click()
      await button(`Connect ${service}`).waitFor()
    }
  }

  const user: User = {
    callMs: [],
    failures: [],
    late: [],
    rounds: 0,
    async work(end) {
      do {
        try {
          await round()
          user.rounds++
        } catch (error) {
          const message = error instanceof Error ? error.message : String(error)
          const failure = inOneLine(`${message} ${await whereItFailed()}`)
          ;(error instanceof errors.TimeoutError ? user.late : user.failures).push(failure)
        }
      } while (performance.now() < end && !page.isClosed())
    },
    close: () => browser.close(),
  }
  return user
}

/** Whether a request goes to the backend. The page's own files do not count. */
function isCall(request: Request): boolean {
  return /^\/(api\/|health$)/.test(new URL(request.url()).pathname)
}

function nameOf(request: Request): string {
  return `${request.method()} ${new URL(request.url()).pathname}`
}

function inOneLine(message: string): string {
  return stripVTControlCharacters(message).replaceAll(/\s+/g, ' ')
}
