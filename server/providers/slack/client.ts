import { LogLevel, WebClient } from '@slack/web-api'
import { askedWaitMs } from '../calls.ts'
import { defaultWaitMs } from './errors.ts'

/**
 * Creates Slack's official client. Without a token, it can make only calls with the app's secret.
 */
export type SlackClient = (token: string | undefined, timeoutMs: number) => WebClient

// The client logs its requests, so its log would contain codes and tokens.
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
      // By default, the client waits without a limit and retries ten times.
      timeout: timeoutMs,
      retryConfig: { retries: 0 },
      rejectRateLimitedCalls: true,
      allowAbsoluteUrls: false,
      fetch: fetchAnswer,
      logger: silentLogger,
    })
}

/** Returns the wait that a 429 asks for, in ms. */
export const waitMs = (headers: Headers) => askedWaitMs(headers, defaultWaitMs)

/**
 * Gives each 429 a Retry-After in whole seconds: Slack's client recognizes a rate limit only by this header. Empties a 200
 * that is not JSON: Slack's client would take the text of a proxy for Slack's error code.
 */
async function fetchAnswer(...request: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...request)
  const isJson = response.headers.get('Content-Type')?.startsWith('application/json')
  if (response.status !== 429 && (isJson || !response.ok)) return response
  // An unread body keeps its connection open.
  response.body?.cancel().catch(() => {})
  if (response.ok) return Response.json({})
  const headers = { 'Retry-After': String(Math.ceil(waitMs(response.headers) / 1000)) }
  return new Response(null, { status: 429, headers })
}
