import ky, { isTimeoutError, type Options, type ResponsePromise } from 'ky'
import { type GenericSchema, getDotPath, type InferOutput, safeParse } from 'valibot'
import { errorBody } from '../../contract/endpoints.ts'
import { config } from '../config.ts'
import { ApiError } from './errors.ts'
import { noticePerson, personIn, shownPersonHeader } from './person.ts'
import { noticeAnswer } from './reach.ts'
import { noticeDate } from './server-time.ts'

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
    try {
      return await (takeStarted(request) ?? fetch(request, init))
    } catch (error) {
      throw error instanceof Error ? new ApiError('network') : error
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
    const request = send(method, path, options)
    const response = await request
    // The refusal of a change is noticed by its mutation.
    if (method === 'GET') await noticePerson(personIn(response))
    await assertOk(response, readsRefusal && request)
    const { success, output, issues } = safeParse(answer, await readJson(request))
    if (!success) throw new ApiError('format', { field: getDotPath(issues[0]) ?? undefined })
    return output
  })
}

/**
 * Makes a call and ignores the body of its answer: any 2xx is success (§7).
 * @returns the person whom the answer names.
 * @throws ApiError for any failure.
 */
export function call(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  {
    readsRefusal,
    ...options
  }: Pick<Options, 'json' | 'searchParams'> & { readsRefusal?: true | string } = {},
): Promise<string | undefined> {
  return asApiError(async () => {
    const request = send(method, path, options)
    const response = await request
    await assertOk(response, readsRefusal ? request : undefined, readsRefusal)
    dropBody(response)
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

/**
 * @param refused is the request whose refusal may be read.
 * @param only the code of the only refusal that is read.
 */
async function assertOk(
  response: Response,
  refused?: ResponsePromise,
  only?: true | string,
): Promise<void> {
  if (response.ok) return
  const { success, output } = safeParse(errorBody, await refused?.json().catch(() => undefined))
  dropBody(response)
  const isRead = success && (typeof only !== 'string' || output.error.code === only)
  const { message: sentence, code } = isRead ? output.error : {}
  const { status } = response
  throw new ApiError('status', { status, code, sentence, person: personIn(response) })
}

/** Cancels a body, because an unread body keeps its connection open. A failure does not matter. */
function dropBody(response: Response): void {
  response.body?.cancel().catch(() => {})
}

/** Call json() on the request. Its timeout includes the body; on the response there is none. */
async function readJson(request: ResponsePromise): Promise<unknown> {
  try {
    return await request.json()
  } catch (error) {
    if (isTimeoutError(error)) throw error
    throw new ApiError(error instanceof SyntaxError ? 'format' : 'network')
  }
}

async function asApiError<T>(run: () => Promise<T>): Promise<T> {
  try {
    const answer = await run()
    noticeAnswer(true)
    return answer
  } catch (error) {
    const failure = apiErrorOf(error)
    // A fault of our own says nothing about the server.
    if (failure.kind !== 'unknown') {
      noticeAnswer(failure.kind !== 'network' && failure.kind !== 'timeout')
    }
    throw failure
  }
}

function apiErrorOf(error: unknown): ApiError {
  if (error instanceof ApiError) return error
  if (isTimeoutError(error)) return new ApiError('timeout')
  return new ApiError('unknown', error instanceof Error ? { cause: error } : {})
}
