import * as v from 'valibot'
import { type CallOutcome, countCall } from '../watch/metrics.ts'
import { longestWaitMs, type PostOutcome } from './provider.ts'
import { ProviderError } from './provider-error.ts'
import type { AddressId, OAuthId, ProviderId } from './registry.ts'

export interface ProviderSettings {
  clientId: string
  /** For calls to the provider. */
  clientSecret: string
  /** Secrets that the operator has replaced. The provider may still sign webhooks with them. */
  olderSecrets?: readonly string[]
  authorizeUrl: string
  /** The base address of the API, which this server calls; without a trailing slash. */
  apiUrl: string
  /** Where a CRM sends its events to. */
  webhookUrl?: string
  /** The app at a chat asks for the right to find members by e-mail, so that messages can mention a deal's owner. */
  mentionOwners?: boolean
  /**
   * True if the dashboard shows the provider or a client id is set. Otherwise, the provider has neither routes nor a
   * stand-in, and the server does not start while there are connections to the real one (people/stand-ins.ts).
   */
  inUse: boolean
  /** True if the provider is in use without a client id. The server then uses its stand-in for the provider. */
  standIn: boolean
}

/** The settings of a chat of which users paste an address. */
export interface AddressSettings {
  /** Where such an address may be: 'https://host' or 'https://*.domain'. */
  origins: readonly string[]
  /** Our page on which a user pastes it. */
  pageUrl: string
  /** The address of the stand-in. Undefined if no stand-in may be used. */
  standInAddress: string | undefined
  /** True if the dashboard shows the chat or its origins are set. */
  inUse: boolean
  /** True if its stand-in may be used, beside the real chat. */
  standIn: boolean
}

export type AllSettings = Record<OAuthId, ProviderSettings> & Record<AddressId, AddressSettings>

/** How long a provider may take to answer, in milliseconds. */
export interface Timeouts {
  callMs: number
  /** Shorter, because the dashboard waits for it. Our connection is already deleted by then. */
  revokeMs: number
}

export const defaultTimeouts: Readonly<Timeouts> = { callMs: 10_000, revokeMs: 5_000 }

/**
 * Returns the wait that Retry-After asks for, in ms, but at most `longestWaitMs`: a mistake there must not
 * end all messages. Returns `otherwiseMs` if the header is no number of seconds.
 */
export function askedWaitMs(headers: Headers, otherwiseMs: number): number {
  const seconds = Number(headers.get('Retry-After'))
  return seconds > 0 ? Math.min(seconds * 1000, longestWaitMs) : otherwiseMs
}

/** To parse this much takes less than 50 ms. It has room for the 10,000 stages that an account may have. */
const mostAnswerBytes = 5_000_000

/** ky's options for a call to a provider: one try, `ms` milliseconds at most, and no redirects. */
export const oneTry = (ms: number, mostBytes = mostAnswerBytes) =>
  ({
    retry: 0,
    redirect: 'error',
    // With `timeout` alone, the time would start again for the body.
    timeout: ms,
    totalTimeout: ms,
    onDownloadProgress({ transferredBytes }: { transferredBytes: number }) {
      if (transferredBytes > mostBytes) throw new AnswerTooLarge()
    },
  }) as const

/** A provider's answer was cut off, because to parse it would block the thread. */
export class AnswerTooLarge extends Error {}

/** Checks the form of an answer. @throws ProviderError that names the first field of another form. */
export function understood<Answer>(
  provider: ProviderId,
  stage: ProviderError['stage'],
  shape: v.GenericSchema<unknown, Answer>,
  answer: unknown,
): Answer {
  const { success, output, issues } = v.safeParse(shape, answer)
  if (success) return output
  const field = v.getDotPath(issues[0]) ?? undefined
  throw new ProviderError(provider, stage, 'nonsense', undefined, undefined, { field })
}

export async function counted<Answer>(
  provider: ProviderId,
  call: string,
  make: () => Promise<Answer>,
  {
    ofAnswer = () => 'ok',
    ofError = outcomeOfError,
  }: {
    ofAnswer?: (answer: Answer) => CallOutcome
    ofError?: (error: unknown) => CallOutcome
  } = {},
): Promise<Answer> {
  const startedAt = performance.now()
  try {
    const answer = await make()
    countCall(provider, call, ofAnswer(answer), startedAt)
    return answer
  } catch (error) {
    countCall(provider, call, ofError(error), startedAt)
    throw error
  }
}

/** Whether an answer is a page. No chat answers with one. A proxy or a captive portal does, also with 200. */
export const isPage = (headers: Headers) =>
  headers.get('Content-Type')?.startsWith('text/html') === true

/** Answers that ask for another try, or for a sign-in at a proxy (RFC 9110, RFC 8470, RFC 6585). */
const triesAgain = new Set([407, 408, 421, 425, 429])

/**
 * Decides what an unknown error means. A new code must neither stop the messages behind it nor break the connection, so
 * most 4xx refuse only this message. After 401, 403 or 404, the connection may be refused instead. A page of HTML is a
 * proxy's, so the message is tried again. Except after 413: the proxy refuses the same message each time.
 */
export function outcomeOfUnknown(
  { status, headers }: { status: number; headers: Headers },
  reason: string,
): PostOutcome {
  const isOfServer = status < 400 || status >= 500 || triesAgain.has(status)
  if (isOfServer || (isPage(headers) && status !== 413)) return { kind: 'failed', reason }
  // The address or the access may be meant.
  return [401, 403, 404].includes(status)
    ? { kind: 'unclear', reason }
    : { kind: 'refused', reason, connectionBroken: false }
}

/** Counts a post by what became of it. */
export const countedPost = (provider: ProviderId, post: () => Promise<PostOutcome>) =>
  counted(provider, 'post', post, {
    ofAnswer: ({ kind }) =>
      (
        ({
          posted: 'ok',
          wait: 'rate_limited',
          failed: 'unreachable',
          refused: 'refused',
          unclear: 'refused',
        }) as const
      )[kind],
  })

export function outcomeOfError(error: unknown): CallOutcome {
  if (!(error instanceof ProviderError)) return 'unreachable'
  return error.retryAfterMs === undefined ? error.kind : 'rate_limited'
}
