// What the calls to each CRM share: how an answer is read, and what becomes of ky's errors.

import { setImmediate as nextTurn } from 'node:timers/promises'
import { HTTPError, type ResponsePromise } from 'ky'
import * as v from 'valibot'
import { errorCode } from '../log.ts'
import { AnswerTooLarge, counted, outcomeOfError, understood } from './calls.ts'
import { answerTooLarge, ProviderError } from './provider-error.ts'
import type { CrmId } from './registry.ts'

// ky would ask for text/*.
export const json = { Accept: 'application/json' }

// PostgreSQL cannot store NUL or half of a surrogate pair.
export const storableText = v.pipe(
  v.string(),
  v.maxLength(255),
  v.check((text) => text.isWellFormed() && !text.includes('\0')),
)

/** The id of an account, user or deal. */
export const idNumber = v.pipe(
  v.union([
    v.pipe(v.number(), v.safeInteger(), v.minValue(0)),
    v.pipe(v.string(), v.regex(/^\d{1,20}$/)),
  ]),
  v.transform(String),
)

/** Reads a date. Returns undefined if there is none, or one that no deal can have. */
export function dateIn(value: string | null | undefined): Date | undefined {
  const date = new Date(value ?? Number.NaN)
  return date.getTime() > 0 && date.getUTCFullYear() < 2200 ? date : undefined
}

/** The number in a header. Undefined if there is none, or one that counts nothing. */
export function countIn(headers: Headers, name: string): number | undefined {
  const header = headers.get(name)
  const value = header === null || header.trim() === '' ? Number.NaN : Number(header)
  return Number.isFinite(value) && value >= 0 ? value : undefined
}

export async function unlessMissing<Answer>(
  read: Promise<Answer>,
  codes: readonly string[],
): Promise<Answer | undefined> {
  try {
    return await read
  } catch (error) {
    if (error instanceof ProviderError && codes.includes(error.reason ?? '')) return undefined
    throw error
  }
}

/**
 * Reads an answer of JSON, or an empty one as undefined.
 * @param learn gets the headers. Those of a refusal may be the only ones that name the limit.
 */
export async function answerOf<Answer>(
  crm: CrmId,
  stage: ProviderError['stage'],
  shape: v.GenericSchema<unknown, Answer>,
  request: ResponsePromise,
  learn?: (headers: Headers, status: number) => void,
): Promise<Answer> {
  const { headers, status } = await request.catch((error) => {
    if (error instanceof HTTPError) learn?.(error.response.headers, error.response.status)
    throw error
  })
  learn?.(headers, status)
  // Read the text from the request, because its timeout includes the body. The response has no timeout.
  const text = await request.text()
  // Each of these steps takes tens of milliseconds for a large answer. Between them, other work has its turn.
  const parsed = text === '' ? undefined : parseJson(crm, stage, text)
  await nextTurn()
  const answer = understood(crm, stage, shape, parsed)
  await nextTurn()
  return answer
}

/** The JSON in a body. Undefined if it is none. */
export function jsonIn(body: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(body))
  } catch {
    return undefined
  }
}

function parseJson(crm: CrmId, stage: ProviderError['stage'], text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new ProviderError(crm, stage, 'nonsense')
  }
}

/**
 * Makes and counts a call. ky's errors contain the request with its secrets, so none of them leaves this function.
 * @param errorOf converts an answer that is no success.
 * @param missing the reason of an error that says that something does not exist.
 */
export function asProviderError<T>(
  crm: CrmId,
  stage: ProviderError['stage'],
  { errorOf, missing }: { errorOf: (error: HTTPError) => ProviderError; missing: string },
  call: () => Promise<T>,
): Promise<T> {
  return counted(crm, stage, () => converted(crm, stage, errorOf, call), {
    ofError: (error) => (Object(error).reason === missing ? 'not_found' : outcomeOfError(error)),
  })
}

async function converted<T>(
  crm: CrmId,
  stage: ProviderError['stage'],
  errorOf: (error: HTTPError) => ProviderError,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (error instanceof ProviderError) throw error
    if (error instanceof AnswerTooLarge) {
      throw new ProviderError(crm, stage, 'nonsense', answerTooLarge)
    }
    if (error instanceof HTTPError) throw errorOf(error)
    const code = errorCode(error)
    throw new ProviderError(crm, stage, 'unreachable', undefined, undefined, { code })
  }
}

interface Page<Found> {
  found: Found[]
  /** When the last of them changed. Undefined if there is none. */
  lastAt: string | undefined
  /** Where the next page begins, if there is one. */
  after: string | null | undefined
}

/** Reads the deals that changed since a time, the oldest change first. @returns what `ChangedDeals` needs. */
export async function changedSince<Found>(
  since: Date,
  readPage: (after: string | undefined, learn: (headers: Headers) => void) => Promise<Page<Found>>,
) {
  const found: Found[] = []
  let at: Date | undefined
  let after: string | undefined
  for (;;) {
    const page = await readPage(after, (headers) => {
      // The CRM's time, unless a proxy has left it out.
      const ms = Date.parse(headers.get('Date') ?? '')
      if (ms > 0) at ??= new Date(ms)
    })
    found.push(...page.found)
    const until = page.lastAt === undefined ? since : new Date(page.lastAt)
    after = page.after ?? undefined
    // Read the next page only if all deals of this one have the same time, as after a bulk edit. Else a deal could be
    // missed: one that changes meanwhile moves to the end, and another one to a page that was read.
    if (after === undefined || until > since) {
      return { found, at: at ?? new Date(), until, complete: after === undefined }
    }
  }
}
