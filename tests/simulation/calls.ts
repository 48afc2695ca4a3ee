import { noScope, noSuchGrant, pipedrivePath } from '../relay/pipedrive-outside.ts'
import { mistakeAt, unknownAt, webhookAt } from './chats.ts'
import type { How } from './faults.ts'
import type { Dice } from './time.ts'

// The calls of the processes to the CRM and the chat: what each is about, and how a provider that fails answers.

/** The account and the user in a token of the CRM. */
export const ofToken = /-(\d+)-(\d+)-\d+$/
const expired = { success: false, error: 'unauthorized access' }
const expiredAtHubspot = { status: 'error', category: 'EXPIRED_AUTHENTICATION' }
const html = { 'Content-Type': 'text/html' }

export type ProviderCall = ReturnType<typeof callOf>

/** What a request is about. */
export function callOf({ url, headers }: Request, body: string) {
  const { pathname: path } = new URL(url)
  const isPipedrive = path.startsWith(pipedrivePath)
  const provider = isPipedrive || path.startsWith('/hubspot') ? ('crm' as const) : ('chat' as const)
  const webhook = webhookAt(new URL(url))
  const [, bearer] = /^Bearer (.*)/.exec(headers.get('Authorization') ?? '') ?? []
  const form =
    path.includes('oauth') || path.startsWith('/slack') ? new URLSearchParams(body) : undefined
  const token = bearer || form?.get('refresh_token') || form?.get('token') || ''
  const channel = form?.get('channel')
    ? `${token.split('-')[2]}/${form.get('channel')}`
    : webhook?.channel
  const isCrm = isPipedrive
    ? // Whose token it is may be asked before the account is known.
      path.startsWith(`${pipedrivePath}/api/`) && !path.endsWith('/users/me')
    : path.startsWith('/hubspot/crm/') && !path.includes('/associations/')
  const said = webhook ? body : `${form?.get('text')} ${form?.get('blocks')}`
  /** The deals that a message names, or the one that is read. */
  const named = isCrm ? path.matchAll(/\/(?:0-3|deals)\/(\d+)$/g) : said.matchAll(/\bDeal (\d+)\b/g)
  const deals = Array.from(named, ([, deal]) => Number(deal))
  const changelogs = Array.from(path.matchAll(/deals\/(\d+)\/changelog$/g), ([, deal]) =>
    Number(deal),
  )
  /** Whether a message is more than a plain text. */
  const isRich = said.includes('Notify me when') || new Set(deals).size > 1
  const account = isCrm ? ofToken.exec(token)?.[1] : undefined
  const isSearch = path.endsWith('/search')
  return {
    ...{ provider, path, webhook, token, channel, account, isSearch, isPipedrive },
    ...{ deals, changelogs, isRich, isCrm },
  }
}

/** How a provider that fails answers. Undefined: as usual. */
export function failedAnswer(
  dice: Dice,
  { how, pauseS }: { how: How; pauseS: number },
  {
    path,
    webhook,
    isPipedrive,
    isRich,
    isCrm,
  }: Pick<ProviderCall, 'path' | 'webhook' | 'isPipedrive' | 'isRich' | 'isCrm'>,
): Response | 'never' | undefined {
  const pause = { 'Retry-After': String(pauseS) }
  switch (how) {
    case 'refuses':
      return new Response('busy', { status: 503 })
    case 'asks for a pause':
      return new Response('{"ok":false,"error":"ratelimited"}', { status: 429, headers: pause })
    case 'moves the account':
      if (isPipedrive) return new Response('busy', { status: 503 })
      return path.includes('/oauth/')
        ? undefined
        : new Response('{}', { status: 477, headers: pause })
    case 'answers nonsense':
      return new Response('<html>Sorry', { headers: html })
    case 'answers as a proxy':
      return new Response('<html>No', { status: dice.oneOf([400, 403, 404]), headers: html })
    case 'refuses the token':
      return path.includes('/oauth/')
        ? undefined
        : Response.json(isPipedrive ? expired : expiredAtHubspot, { status: 401 })
    case 'refuses once':
      if (webhook) return mistakeAt(webhook.id)
      if (path.startsWith('/slack')) return Response.json({ ok: false, error: 'invalid_auth' })
      if (isPipedrive) {
        const { status, body } = path.includes('/oauth/') ? noSuchGrant : noScope
        return Response.json(body, { status })
      }
      return path.includes('/oauth/')
        ? Response.json({ status: 'BAD_REFRESH_TOKEN' }, { status: 400 })
        : Response.json({ status: 'error', category: 'MISSING_SCOPES' }, { status: 403 })
    case 'refuses a rich deal':
      return isRich ? unknownAt(webhook?.id, 400) : undefined
    case 'refuses a deal':
      return unknownAt(webhook?.id, dice.oneOf([400, 403, 404, 409, 422, 451]))
    case 'refuses the webhook':
      return unknownAt(webhook?.id, dice.oneOf([401, 403, 404]))
    case 'fails at a deal':
      if (isCrm) return Response.json({}, { status: dice.oneOf([500, 502, 599]) })
      return unknownAt(webhook?.id, dice.oneOf([500, 502, 520, 599]))
    case 'fails at a changelog':
      return Response.json({ success: false }, { status: dice.oneOf([500, 502]) })
    case 'fails unheard':
      return unknownAt(webhook?.id, dice.oneOf([500, 502, 520, 599]))
    case 'hangs':
      return 'never'
    default:
      return
  }
}
