import { errorCode } from '../log.ts'

export type Reply =
  | { kind: 'answer'; status: number; headers: Headers; text: string }
  /** `why` follows a colon. */
  | { kind: 'none'; why: string }

export type Answer = Extract<Reply, { kind: 'answer' }>

const defaultTimeoutS = 10

/**
 * Makes a call. Throws nothing, and follows no redirect.
 * @param write gets the text of a success part by part, in place of the reply.
 */
export async function ask(
  url: string,
  {
    timeoutS = defaultTimeoutS,
    write,
    ...init
  }: RequestInit & { timeoutS?: number; write?: (text: string) => Promise<void> } = {},
): Promise<Reply> {
  try {
    const signal = AbortSignal.timeout(timeoutS * 1000)
    const response = await fetch(url, { ...init, redirect: 'manual', signal })
    const { status, headers } = response
    if (write === undefined || !response.ok || response.body === null) {
      return { kind: 'answer', status, headers, text: await response.text() }
    }
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) await write(text)
    return { kind: 'answer', status, headers, text: '' }
  } catch (error) {
    return { kind: 'none', why: whyOf(error, new URL(url), timeoutS) }
  }
}

function whyOf(error: unknown, url: URL, timeoutS: number): string {
  if (error instanceof DOMException) return `no answer came within ${timeoutS} seconds`
  const code = errorCode(error) ?? 'unreachable'
  // The error names another place if it is a proxy's. A host with several addresses has an error for each.
  const { cause } = Object(error)
  const { hostname = url.hostname, address, port } = Object(Object(cause).errors?.[0] ?? cause)
  const isOfUrl =
    !address || String(port) === (url.port || { 'http:': '80' }[url.protocol] || '443')
  const [, status] = /^PROXY_(\d+)$/.exec(code) ?? []
  if (status === '407') return 'the proxy wants another user or password (407)'
  if (status !== undefined) return `the proxy refuses the call (${status})`
  if (['ENOTFOUND', 'EAI_AGAIN'].includes(code)) return `the name ${hostname} is unknown`
  if (code === 'ECONNREFUSED') {
    return `no program listens at ${isOfUrl ? url.host : `${address}:${port}`}`
  }
  if (/SSL|EPROTO/.test(code)) return `${url.host} does not speak TLS`
  if (/ISSUER|SELF_SIGNED|SIGNATURE/.test(code)) {
    return `its certificate is not from a known authority (${code}). NODE_EXTRA_CA_CERTS may name a file with that authority`
  }
  if (/CERT/.test(code)) return `its certificate is not valid (${code})`
  if (/TIMEOUT|ETIMEDOUT/.test(code)) return `no answer came within ${timeoutS} seconds`
  return `the connection failed (${code})`
}

/** Where an answer redirects. */
export function redirectOf({ headers }: Answer, url: string): URL | null {
  const location = headers.get('Location')
  return location === null ? null : URL.parse(location, url)
}

/** Whether an answer is a page of HTML. Some proxies send one without a type, others call ours so. */
export function isHtml(headers: Headers, text: string): boolean {
  const isPage = /^\s*(?:<!--[\s\S]*?-->\s*)*<(?:!doctype|html|head|meta|title|body)\b/i.test(text)
  return isPage || headers.get('Content-Type')?.trim().startsWith('text/html') === true
}

/** What another program did instead of this server, as a text that is put after an address; undefined if nothing shows that. */
export function inOurPlace(answer: Answer, url: string): string | undefined {
  const { status, headers, text } = answer
  if (status >= 300 && status < 400) {
    const to = redirectOf(answer, url)
    const place = to === null ? '' : ` to ${to.origin}${to.pathname}`
    return `redirects${place} (${status}), perhaps the sign-in page of a proxy`
  }
  if (isHtml(headers, text)) {
    return `answers ${status} with a page of HTML, perhaps the sign-in page of a proxy`
  }
  const isOurs = typeof Object(fieldsOf(text).error).code === 'string'
  return [401, 403].includes(status) && !isOurs
    ? `answers ${status}, perhaps from a proxy`
    : undefined
}

/** What became of a call, which follows its address. */
export function whatCame(reply: Reply, url: string): string {
  if (reply.kind === 'none') return `gets no answer: ${reply.why}`
  return inOurPlace(reply, url) ?? `answers ${reply.status}`
}

/** The fields of a JSON object; none if the text is something else. */
export function fieldsOf(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
