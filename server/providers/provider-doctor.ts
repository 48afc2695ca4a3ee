import { ask, fieldsOf, inOurPlace, whatCame } from '../cli/ask.ts'
import type { ProviderSettings } from './calls.ts'
import { type CrmId, type DealProperty, type OAuthId, registry, settingOf } from './registry.ts'

/**
 * One line of the report: what is right, or what is wrong and what to do. It contains no secret. What others answered
 * is in it only as a code or as part of a URL, because a terminal would obey control characters.
 */
export interface Finding {
  /** `warning`: Dealbell works, but not as a user may expect. `note`: nothing was checked. */
  kind: 'right' | 'note' | 'warning' | 'wrong'
  text: string
}

export const right = (text: string): Finding => ({ kind: 'right', text })
export const note = (text: string): Finding => ({ kind: 'note', text })
export const warning = (text: string): Finding => ({ kind: 'warning', text })
export const wrong = (text: string): Finding => ({ kind: 'wrong', text })

/** The operator's app at a provider. */
export interface App {
  settings: ProviderSettings
  description: string
  redirectUrl: string
  /** Where a CRM calls this server. It may sign this address, so each character counts. */
  webhookUrl: string
  /** The properties that rules are about. */
  properties: readonly DealProperty[]
}

/** What `npm run doctor` does for one provider. */
export interface ProviderDoctor {
  /** They change nothing. */
  checks: readonly ((app: App) => Promise<Finding>)[]
  /** Who may install the app, where the operator must choose. The last is the default. */
  distributions?: readonly string[]
  /** What makes each of the app's files, by its path. `earlier` is the file that is there, or empty. */
  files(app: App, distribution?: string): Record<string, (earlier: string) => object>
}

/** The code of an error of this server. */
const errorCodeOf = (text: string) => codeOf(Object(fieldsOf(text).error).code)

/** A code for the report. Anything else, such as a page of a proxy, is left out. */
function codeOf(value: unknown): string | undefined {
  return typeof value === 'string' && /^\w{1,60}$/.test(value) ? value : undefined
}

interface ClientCall {
  path: string
  /** Something in it is made up, so that the call changes nothing. */
  form: Record<string, string>
  /** The codes that complain only of what is made up. */
  accepted: readonly string[]
  /** The settings that other codes complain of, or a sentence about the app. */
  refused: Readonly<Record<string, readonly ('CLIENT_ID' | 'CLIENT_SECRET')[] | string>>
  /** Where the right settings are. */
  place: string
  /** Reads the codes of an answer. By default, those of the fields `status` and `error`. */
  codesIn?: (answer: Readonly<Record<string, unknown>>) => readonly unknown[]
}

/** Checks client id and secret with a call that the provider refuses. */
export async function checkClient(
  id: OAuthId,
  { apiUrl, clientId, clientSecret }: ProviderSettings,
  {
    path,
    form,
    accepted,
    refused,
    place,
    // The status of HubSpot's answer is more precise than its error.
    codesIn = ({ status, error }) => [status, error],
  }: ClientCall,
): Promise<Finding> {
  const { name } = registry[id]
  const reply = await ask(apiUrl + path, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    body: new URLSearchParams({ ...form, client_id: clientId, client_secret: clientSecret }),
  })
  if (reply.kind === 'none') {
    return wrong(
      `${name} does not answer at ${apiUrl}: ${reply.why}. Let this machine make https calls to it, or set HTTPS_PROXY (docs/operating/company-network.md).`,
    )
  }
  const known = codesIn(fieldsOf(reply.text))
    .map(codeOf)
    .filter((code) => code !== undefined)
  const code = known.find((code) => accepted.includes(code) || Object.hasOwn(refused, code))
  if (code === undefined) {
    const answer = [reply.status, ...known].join(' ')
    return warning(
      `${name} answers ${answer}, which says nothing about client id and secret. Try again later.`,
    )
  }
  const complaint = refused[code]
  if (complaint === undefined) return right(`${name} accepts client id and secret.`)
  if (typeof complaint === 'string') return wrong(complaint)
  const settings = complaint.map((setting) => settingOf(id, setting)).join(' or ')
  return wrong(`${name} refuses ${settings} (${code}). Copy the right one from ${place}.`)
}

/**
 * Sends a webhook without events to this server, from outside.
 * @param proof what shows that the CRM sent it, and what a proxy may do to it.
 */
export async function checkWebhook(
  crm: CrmId,
  url: string,
  { headers, body }: { headers: Record<string, string>; body: string | Uint8Array<ArrayBuffer> },
  { proof, otherwise }: { proof: string; otherwise: string },
): Promise<Finding> {
  const { name } = registry[crm]
  if (!url.startsWith('https:')) {
    return wrong(
      `${name} sends webhooks only to https, but the address for them is ${url}. Set API_URL to the https address of this server (docs/hosting.md).`,
    )
  }
  const reply = await ask(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...headers },
    body,
  })
  if (reply.kind === 'none') {
    return wrong(
      `Webhooks do not arrive: ${url} does not answer: ${reply.why}. Start the server, and let the proxy in front pass this address to it.`,
    )
  }
  const { status, text } = reply
  if (status === 204) {
    return right(`Webhooks arrive at ${url}, and their ${proof} is valid.`)
  }
  const code = errorCodeOf(text)
  if (status >= 300 && status < 400) {
    return wrong(
      `Webhooks do not arrive: ${url} redirects (${status}), and ${name} does not follow. Set API_URL to the address at which this server answers itself. If a proxy asks for a sign-in, let it pass /webhooks without one (docs/hosting.md).`,
    )
  }
  if (status === 401 && code === 'invalid_signature') {
    return wrong(
      `Dealbell answers at ${url}, but refuses the ${proof}. Restart the server if ${settingOf(crm, 'CLIENT_SECRET')}, APP_URL or API_URL has changed. Otherwise the proxy ${otherwise}.`,
    )
  }
  if (code === 'not_found') {
    return wrong(
      `Dealbell answers at ${url}, but with 404: the proxy changes the path. Let it pass /webhooks on unchanged.`,
    )
  }
  if (status >= 500) {
    return wrong(
      `Webhooks do not arrive: ${url} answers ${status}${code === undefined ? '' : ` (${code})`}. If the proxy answers so, start the server behind it. If Dealbell does, read its log.`,
    )
  }
  const what = inOurPlace(reply, url) ?? `answers ${status}`
  return wrong(
    `Webhooks do not arrive: at ${url}, another program ${what}. Let the proxy pass /webhooks to this server, without a sign-in (docs/hosting.md).`,
  )
}

/**
 * Whether a CRM could tell this server, from outside, that a user has uninstalled the app. Whoever has no password is
 * refused, which changes nothing.
 */
export async function checkUninstalls(crm: CrmId, url: string): Promise<Finding> {
  const reply = await ask(url, { method: 'DELETE' })
  if (reply.kind === 'answer' && errorCodeOf(reply.text) === 'invalid_secret') {
    return right(`${registry[crm].name} can tell at ${url} that a user has uninstalled the app.`)
  }
  return warning(
    `${registry[crm].name} cannot tell that a user has uninstalled the app: DELETE ${url} ${whatCame(reply, url)}. The daily check finds it later. Let the proxy pass DELETE at this address to this server, without a sign-in (docs/hosting.md).`,
  )
}
