import { setTimeout as delay } from 'node:timers/promises'
import { connect } from '../server/program.ts'

// A quick person's pace. Faster work would be one more flood.
const pauseMs = 500
// The dashboard waits as long for an answer.
const callTimeoutMs = 10_000

/** Somebody who makes the calls of the dashboard, again and again. */
export function openUser(url: string) {
  const user = {
    /** How long each call took. */
    callMs: [] as number[],
    /** What went wrong, each in one line. */
    failures: [] as string[],
    /** Which calls took too long, each in one line. */
    late: [] as string[],
    rounds: 0,
    work,
  }

  /** The call that was made last. */
  let latest = ''

  /** Makes a call, and notes how long it took until the answer was complete. */
  const send: typeof fetch = async (input, init) => {
    latest = `${init?.method ?? 'GET'} ${new URL(String(input)).pathname}`
    const begun = performance.now()
    const answer = await fetch(input, { ...init, signal: AbortSignal.timeout(callTimeoutMs) })
    await answer.clone().arrayBuffer()
    user.callMs.push(performance.now() - begun)
    return answer
  }

  async function call(path: string, Cookie = '', method = 'GET', body?: string): Promise<string> {
    const headers = { Cookie, Origin: url, 'Content-Type': 'application/json' }
    const answer = await send(url + path, { method, headers, ...(body && { body }) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${answer.status} ${text}`)
    return text
  }

  /** Comes without a session, connects both services, saves a rule, reads it again and disconnects. */
  async function round(): Promise<void> {
    for (const path of ['/', '/health', '/api/hubspot/status', '/api/slack/status']) {
      await call(path)
    }
    const signedIn = await connect(url, 'hubspot', '', send)
    const cookie = await connect(url, 'slack', signedIn, send)
    const path = '/api/notifications/rules'
    const saved = `{"rules":${user.rounds % 2 ? '[]' : '["deal-closed"]'}}`
    await delay(pauseMs)
    await call(path, cookie, 'POST', saved)
    const read = await call(path, cookie)
    if (read !== saved) throw new Error(`${saved} was saved, and ${read} was read.`)
    for (const provider of ['hubspot', 'slack']) {
      await delay(pauseMs)
      await call(`/api/${provider}/disconnect`, cookie, 'DELETE')
    }
  }

  /** Works until `end`, a time of `performance.now()`, and at least one round. */
  async function work(end: number): Promise<void> {
    do {
      try {
        await round()
        user.rounds++
      } catch (error) {
        const isLate = error instanceof Error && error.name === 'TimeoutError'
        ;(isLate ? user.late : user.failures).push(`${latest}: ${error}`)
      }
      await delay(pauseMs)
    } while (performance.now() < end)
  }

  return user
}
