/** One line of the report: what is right, or what is wrong and what to do. It contains no secret. */
export interface Finding {
  /** `warning`: Dealbell works, but not as a user may expect. */
  kind: 'right' | 'warning' | 'wrong'
  text: string
}

export const right = (text: string): Finding => ({ kind: 'right', text })
export const warning = (text: string): Finding => ({ kind: 'warning', text })
export const wrong = (text: string): Finding => ({ kind: 'wrong', text })

export type Reply =
  | { kind: 'answer'; status: number; headers: Headers; text: string }
  /** `why` follows a colon. */
  | { kind: 'none'; why: string }

const timeoutS = 10

/** Makes a call. Throws nothing, and follows no redirect. */
export async function ask(url: string, init: RequestInit = {}): Promise<Reply> {
  try {
    const signal = AbortSignal.timeout(timeoutS * 1000)
    const response = await fetch(url, { ...init, redirect: 'manual', signal })
    const { status, headers } = response
    return { kind: 'answer', status, headers, text: await response.text() }
  } catch (error) {
    return { kind: 'none', why: whyOf(error, new URL(url)) }
  }
}

function whyOf(error: unknown, { host, hostname }: URL): string {
  if (error instanceof DOMException) return `no answer came within ${timeoutS} seconds`
  // fetch wraps the error of the connection. With several addresses of a host, that has several.
  const cause = Object(Object(error).cause)
  const code = String(cause.code ?? Object(cause.errors?.[0]).code ?? 'unreachable')
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

/** A code for the report. Anything else, such as a page of a proxy, is left out. */
export function codeOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined
}

/** Why HubSpot lets nobody of an account install or use the app. It says this only in a sentence. */
export function installationRefusal(reply: Reply): 'policy' | 'approval' | undefined {
  const { message } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
  if (typeof message !== 'string') return undefined
  if (/not signed the acceptable use policy/i.test(message)) return 'policy'
  return /app hasn['’]t been approved/i.test(message) ? 'approval' : undefined
}

/** `who` must approve the app. */
export const refusalInWords = {
  policy: () =>
    "HubSpot says that its acceptable use policy is not signed. Sign it on the app's page at HubSpot (hs project open): tab Distribution, Begin publishing.",
  approval: (who: string) =>
    `HubSpot says that the account has not approved the app. A Super Admin of ${who} must approve it and its optional scopes: Settings › Integrations › Connected Apps › Approved apps.`,
}
