import ky, { isTimeoutError, type Options, type ResponsePromise } from 'ky'
import { type GenericSchema, type InferOutput, safeParse } from 'valibot'
import { config } from '../config.ts'
import { ApiError } from './errors.ts'

/** How long a call may take, its body included, in milliseconds. */
const timeoutMs = 10_000

const http = ky.create({
  prefix: config.apiUrl === '' ? '/' : config.apiUrl,
  credentials: 'include',
  // Query is the one layer that retries; both together make 12 requests of one failing GET.
  retry: 0,
  timeout: timeoutMs,
  totalTimeout: timeoutMs,
  // ky's own error reads the refusal's body, which may never end, and holds the address in its text.
  throwHttpErrors: false,
})

/**
 * GETs `path` and checks the answer.
 * Takes no `signal`: one that Query hands out aborts and repeats a call whenever StrictMode mounts twice.
 * @throws ApiError for any failure; a thrown non-error passes as it is.
 */
export function getJson<Schema extends GenericSchema>(
  path: string,
  answer: Schema,
): Promise<InferOutput<Schema>> {
  return asApiError(async () => {
    const request = http(path)
    await assertOk(request)
    // The request's own json(), since the response's would wait for a body without a limit.
    const { success, output } = safeParse(answer, await request.json())
    if (!success) throw new ApiError('format')
    return output
  })
}

/**
 * Makes a call whose answer is not read: any 2xx is success, whatever its body (§7).
 * @throws ApiError for any failure; a thrown non-error passes as it is.
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

/** An unread body would hold its connection open. That one is broken makes no success a failure. */
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
