import ky, { isTimeoutError, type Options, type ResponsePromise } from 'ky'
import {
  type GenericSchema,
  getDotPath,
  type InferOutput,
  parseJson,
  pipe,
  safeParse,
  string,
} from 'valibot'
import { backendPath, errorBody } from '../../contract/endpoints.ts'
import { config } from '../config.ts'
import { ApiError } from './errors.ts'
import { noticePerson, personIn, shownPersonHeader } from './person.ts'
import { noticeAnswer } from './reach.ts'
import { noticeDate, serverTime } from './server-time.ts'

declare global {
  /** The responses to the calls that src/boot.ts has started, by address. Undefined if it has not run, as in `npm run dev`. */
  var startedCalls: Map<string, Promise<Response>> | undefined
  /** The channel between the tabs of this browser. */
  var personChannel: BroadcastChannel | undefined
}

/** How long a call and the download of its answer may take, in milliseconds. */
const timeoutMs = 10_000

const http = ky.create({
  prefix: config.apiUrl === '' ? '/' : config.apiUrl,
  credentials: 'include',
  // A browser that opens its tabs again would show what it has kept, whatever the backend says now.
  cache: 'no-store',
  // Only Query retries. If both retry, one failing GET becomes 12 requests.
  retry: 0,
  timeout: timeoutMs,
  totalTimeout: timeoutMs,
  // ky's error reads the body, which may never end, and its message contains the address.
  throwHttpErrors: false,
  hooks: { afterResponse: [({ response }) => noticeDate(response)] },
  fetch: async (request, init) => {
    let kind: 'network' | 'page' = 'network'
    try {
      const response = await (takeStarted(request) ?? fetch(request, init))
      if (response.type !== 'opaqueredirect') return response
      // A browser hides where it leads, and does not let the page read an answer of a foreign origin.
      kind = 'page'
      return await fetch(request, { ...init, redirect: 'follow' })
    } catch (error) {
      throw error instanceof Error ? new ApiError(kind) : error
    }
  },
})

/**
 * Returns the response to the same call of the boot script, but only to the first call of an address:
 * every later call, such as the retry of a failed one, wants a new answer.
 */
function takeStarted(request: string | URL | Request): Promise<Response> | undefined {
  if (!(request instanceof Request)) return undefined
  const response = globalThis.startedCalls?.get(request.url)
  globalThis.startedCalls?.delete(request.url)
  return request.method === 'GET' ? response : undefined
}

/**
 * Calls `path` and checks the answer. It takes no `signal`. StrictMode mounts twice, so with Query's
 * signal it would make every call twice. With `readsRefusal`, the error has the backend's own message and code: only
 * for calls whose answers never contain an authorization code. If it is a code, only a refusal with this code is read.
 * @throws ApiError for any failure.
 */
export function getJson<Schema extends GenericSchema>(
  path: string,
  answer: Schema,
  {
    method = 'GET',
    readsRefusal,
    ...options
  }: Pick<Options, 'json'> & { method?: 'GET' | 'POST'; readsRefusal?: true } = {},
): Promise<InferOutput<Schema>> {
  return asApiError(async () => {
    const redirect = method === 'GET' ? 'manual' : 'follow'
    const request = send(method, path, { redirect, ...options })
    // The refusal of a change is noticed by its mutation.
    if (method === 'GET') await noticePerson(personIn(await request))
    const { text } = await answerTo(request, { reads: true, readsRefusal })
    const { success, output, issues } = safeParse(pipe(json, answer), text)
    if (!success) throw new ApiError('format', { field: getDotPath(issues[0]) ?? undefined })
    return output as InferOutput<Schema>
  })
}

/**
 * Makes a call and ignores the body of its answer: any 2xx is success (§7).
 * @throws ApiError for any failure.
 */
export async function call(...args: Parameters<typeof callForPerson>): Promise<void> {
  await callForPerson(...args)
}

/** `call`, and the person whom the answer names. */
export function callForPerson(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  {
    readsRefusal,
    ...options
  }: Pick<Options, 'json' | 'searchParams'> & { readsRefusal?: true | string } = {},
): Promise<string | undefined> {
  return asApiError(async () => {
    const { response } = await answerTo(send(method, path, options), { readsRefusal })
    return personIn(response)
  })
}

function send(method: string, path: string, options: Options = {}): ResponsePromise {
  return http(path, {
    method,
    ...(method !== 'GET' && { headers: shownPersonHeader() }),
    ...options,
  })
}

const json = pipe(string(), parseJson())
const wholePage = /^\s*<(!doctype|html)\b/i
const ownUrl = new URL(config.apiUrl === '' ? '/' : `${config.apiUrl}/`, window.location.href).href

/**
 * Waits for a success of the backend itself. A sign-in in front of it may answer in its place, also with 200.
 * @param readsRefusal whether the body of a refusal may be read. If it is a text, only that of a refusal with this code.
 */
async function answerTo(
  request: ResponsePromise,
  { reads, readsRefusal }: { reads?: true; readsRefusal?: true | string | undefined },
): Promise<{ response: Response; text: string }> {
  const response = await request
  const { ok, status, headers, redirected, url } = response
  // A proxy's own page of another error is no sign-in.
  const maySignIn = ok || status === 401 || status === 403
  const mayBePage = maySignIn && /html/i.test(headers.get('Content-Type') ?? '')
  let text = ''
  if (mayBePage || (ok ? reads : readsRefusal)) {
    const reading = readText(request)
    text = await (ok ? reading : reading.catch(() => ''))
  }
  // An unread body keeps its connection open.
  response.body?.cancel().catch(() => {})
  const isElsewhere =
    redirected && !(url.startsWith(ownUrl) && backendPath.test(url.slice(ownUrl.length - 1)))
  if (isElsewhere || (maySignIn && wholePage.test(text))) throw new ApiError('page', { status })
  if (ok) return { response, text }
  const { success, output } = safeParse(pipe(json, errorBody), text)
  const isRead = success && (readsRefusal === true || output.error.code === readsRefusal)
  const { message: sentence, code } = isRead ? output.error : {}
  const details = { status, code, sentence, person: personIn(response) }
  throw new ApiError('status', { ...details, waitMs: waitOf(response) })
}

/** RFC 9110 §10.2.3. A page is seldom open for longer than an hour. */
function waitOf({ status, headers }: Response): number | undefined {
  const after = headers.get('Retry-After')
  if (after === null || (status !== 429 && status !== 503)) return undefined
  const ms = /^\d+$/.test(after) ? Number(after) * 1000 : Date.parse(after) - serverTime()
  return Number.isNaN(ms) ? undefined : Math.min(ms, 3_600_000)
}

/** Call text() on the request. Its timeout includes the body; on the response there is none. */
async function readText(request: ResponsePromise): Promise<string> {
  try {
    return await request.text()
  } catch (error) {
    throw isTimeoutError(error) ? error : new ApiError('network')
  }
}

async function asApiError<T>(run: () => Promise<T>): Promise<T> {
  try {
    const answer = await run()
    noticeAnswer()
    return answer
  } catch (error) {
    const failure = apiErrorOf(error)
    noticeAnswer(failure.kind)
    throw failure
  }
}

function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (isTimeoutError(error)) return new ApiError('timeout')
  return new ApiError('unknown', error instanceof Error ? { cause: error } : {})
}
