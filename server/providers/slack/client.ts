import { LogLevel, WebClient } from '@slack/web-api'
import { defaultWaitMs } from './errors.ts'

/** Makes Slack's official client. Without a token it makes the calls that name the app itself. */
export type SlackClient = (token: string | undefined, timeoutMs: number) => WebClient

// The client logs what it sends, so its log would hold codes and tokens.
const silentLogger = {
  debug() {},
  info() {},
  warn() {},
  error() {},
  setLevel() {},
  setName() {},
  getLevel: () => LogLevel.ERROR,
}

export function createSlackClient(apiUrl: string): SlackClient {
  return (token, timeoutMs) =>
    new WebClient(token, {
      slackApiUrl: `${apiUrl}/`,
      // By default the client waits without a limit and tries ten times.
      timeout: timeoutMs,
      retryConfig: { retries: 0 },
      rejectRateLimitedCalls: true,
      allowAbsoluteUrls: false,
      fetch: fetchWithRetryAfter,
      logger: silentLogger,
    })
}

/** The wait that a 429 asks for, in ms. */
export function waitMs(headers: Headers): number {
  const seconds = Number.parseInt(headers.get('Retry-After') ?? '', 10)
  return seconds > 0 ? seconds * 1000 : defaultWaitMs
}

/** Slack's client recognizes a rate limit only if the 429 says how long to wait. */
async function fetchWithRetryAfter(...request: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...request)
  if (response.status !== 429) return response
  // An unread body would hold its connection open.
  response.body?.cancel().catch(() => {})
  const headers = { 'Retry-After': String(waitMs(response.headers) / 1000) }
  return new Response(null, { status: 429, headers })
}
