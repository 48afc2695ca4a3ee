import ky, { isTimeoutError, type Options, type ResponsePromise } from 'ky'
import { type GenericSchema, type InferOutput, safeParse } from 'valibot'
import { config } from '../config.ts'
import { ApiError } from './errors.ts'

/** How long a call and the download of its answer may take, in milliseconds. */
const timeoutMs = 10_000

const http = ky.create({
  prefix: config.apiUrl === '' ? '/' : config.apiUrl,
  credentials: 'include',
  // Only Query retries. If both retry, one failing GET becomes 12 requests.
  retry: 0,
  timeout: timeoutMs,
  totalTimeout: timeoutMs,
  // ky's error reads the body, which may never end, and its message contains the address.
  throwHttpErrors: false,
})

/**
 * GETs `path` and checks the answer. It takes no `signal`. StrictMode mounts twice, so with Query's
 * signal it would make every call twice.
 * @throws ApiError for any failure. A thrown value that is no Error passes unchanged.
 */
export function getJson<Schema extends GenericSchema>(
  path: string,
  answer: Schema,
): Promise<InferOutput<Schema>> {
  return asApiError(async () => {
    const request = http(path)
    await assertOk(request)
    // Call json() on the request. Its timeout includes the body; on the response there is none.
    const { success, output } = safeParse(answer, await request.json())
    if (!success) throw new ApiError('format')
    return output
  })
}

/**
 * Makes a call and ignores the body of its answer: any 2xx is success (§7).
 * @throws ApiError for any failure. A thrown value that is no Error passes unchanged.
 */
export function call(
  method: 'GET' | 'POST' | 'DELETE',
  path: string,
  options: Pick<Options, 'json' | 'searchParams'> = {},
): Promise<void> {
  return asApiError(async () => {
    dropBody(await assertOk(http(path, { method, ...options })))
  })
}

async function assertOk(request: ResponsePromise): Promise<Response> {
  const response = await request
  if (response.ok) return response
  dropBody(response)
  throw new ApiError('status', response.status)
}

/** Cancels a body, because an unread body keeps its connection open. A failure does not matter. */
function dropBody(response: Response): void {
  response.body?.cancel().catch(() => {})
}

async function asApiError<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof ApiError || !(error instanceof Error)) throw error
    if (isTimeoutError(error)) throw new ApiError('timeout')
    if (error instanceof SyntaxError) throw new ApiError('format')
    throw new ApiError('network')
  }
}
