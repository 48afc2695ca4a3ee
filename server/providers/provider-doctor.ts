import { ask, fieldsOf } from '../cli/ask.ts'
import type { ProviderSettings } from './calls.ts'
import { type DealProperty, type OAuthId, registry, settingOf } from './registry.ts'

/**
 * One line of the report: what is right, or what is wrong and what to do. It contains no secret. What others answered
 * is in it only as a code or as part of a URL, because a terminal would obey control characters.
 */
export interface Finding {
  /** `warning`: Dealbell works, but not as a user may expect. */
  kind: 'right' | 'warning' | 'wrong'
  text: string
}

export const right = (text: string): Finding => ({ kind: 'right', text })
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

/** A code for the report. Anything else, such as a page of a proxy, is left out. */
export function codeOf(value: unknown): string | undefined {
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
}

/** Checks client id and secret with a call that the provider refuses. */
export async function checkClient(
  id: OAuthId,
  { apiUrl, clientId, clientSecret }: ProviderSettings,
  { path, form, accepted, refused, place }: ClientCall,
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
  // The status of HubSpot's answer is more precise than its error.
  const { status, error } = fieldsOf(reply.text)
  const known = [status, error].map(codeOf).filter((code) => code !== undefined)
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
