import { errorCode } from '../log.ts'

export type Reply =
  | { kind: 'answer'; status: number; headers: Headers; text: string }
  /** `why` follows a colon. */
  | { kind: 'none'; why: string }

const defaultTimeoutS = 10

/** Makes a call. Throws nothing, and follows no redirect. */
export async function ask(
  url: string,
  { timeoutS = defaultTimeoutS, ...init }: RequestInit & { timeoutS?: number } = {},
): Promise<Reply> {
  try {
    const signal = AbortSignal.timeout(timeoutS * 1000)
    const response = await fetch(url, { ...init, redirect: 'manual', signal })
    const { status, headers } = response
    return { kind: 'answer', status, headers, text: await response.text() }
  } catch (error) {
    return { kind: 'none', why: whyOf(error, new URL(url), timeoutS) }
  }
}

function whyOf(error: unknown, { host, hostname }: URL, timeoutS: number): string {
  if (error instanceof DOMException) return `no answer came within ${timeoutS} seconds`
  const code = errorCode(error) ?? 'unreachable'
  if (['ENOTFOUND', 'EAI_AGAIN'].includes(code)) return `the name ${hostname} is unknown`
  if (code === 'ECONNREFUSED') return `no program listens at ${host}`
  if (/SSL|EPROTO/.test(code)) return `${host} does not speak TLS`
  if (/CERT|SIGNATURE/.test(code)) return `its certificate is not valid (${code})`
  if (/TIMEOUT|ETIMEDOUT/.test(code)) return `no answer came within ${timeoutS} seconds`
  return `the connection failed (${code})`
}

/** The fields of a JSON object; none if the text is something else. */
export function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
