import type { Context as Call } from 'hono'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { type CrmConnection, createWithAccess } from '../people/access-token.ts'
import { type Connection, refusalInWords } from '../people/connections.ts'
import { checkSoon, isSame } from '../people/refusals.ts'
import { type Route, routeOf } from '../people/routes.ts'
import type { Crm, CrmAccess, Providers } from '../providers/provider.ts'
import { isOfToken, ProviderError } from '../providers/provider-error.ts'
import { chatIds, crmIds, type ProviderId, registry, usedOf } from '../providers/registry.ts'

type Parts = Pick<Context, 'database' | 'vault' | 'providers' | 'log'> & {
  sessions: { find(c: Call): Promise<{ userId: string } | undefined> }
}
type Role = keyof Route
type Connected = { userId: string } & { [Each in Role]: NonNullable<Route[Each]> }

/**
 * Returns the connections of the session's user for these roles. All of them work.
 * @throws ApiError 409 that says which one does not work, and why.
 */
export async function connectedOf<Needed extends Role>(
  { database, providers, sessions }: Pick<Parts, 'database' | 'providers' | 'sessions'>,
  c: Call,
  ...roles: Needed[]
): Promise<Pick<Connected, 'userId' | Needed>> {
  const session = await sessions.find(c)
  const route = await routeOf(database, session?.userId)
  const missing = roles
    .map((role) => missingOf(providers, role, route[role]))
    .filter((sentence) => sentence !== undefined)
  if (session === undefined || missing.length > 0) {
    throw new ApiError(409, 'not_connected', missing.join(' '))
  }
  // The compiler does not know that each needed connection is there if nothing is missing.
  return { userId: session.userId, ...route } as Connected
}

interface CrmOfUser {
  connection: CrmConnection
  /** Makes a call to the CRM with the user's token. */
  ask<Answer>(call: (crm: Crm, access: CrmAccess) => Promise<Answer>): Promise<Answer>
}

/**
 * Creates the function by which a route uses the CRM of the session's user. Its calls use only room that the account's
 * limit has to spare, because messages come first.
 * The function throws ApiError: 409 if no CRM is connected, 502 if the CRM refuses or does not answer.
 */
export function createWithCrm(context: Parts) {
  const { database, providers, log } = context
  const withAccess = createWithAccess(context)

  return async function withCrm<Answer>(
    c: Call,
    use: (crm: CrmOfUser) => Promise<Answer>,
  ): Promise<Answer> {
    const { crm } = await connectedOf(context, c, 'crm')
    try {
      return await use({
        connection: crm,
        ask: (call) => withAccess(crm, 'spare', (access) => call(providers[crm.provider], access)),
      })
    } catch (error) {
      if (!(error instanceof ProviderError)) throw error
      log('read failed', { connection: crm.id, ...error.fields })
      // Only a refresh proves that the connection is broken.
      if (error.stage === 'refresh' && isOfToken(error)) await checkSoon(database, isSame(crm))
      throw asApiError(error)
    }
  }
}

function asApiError(error: ProviderError): ApiError {
  const { provider, reason, retryAfterMs } = error
  const { name } = registry[provider]
  if (retryAfterMs !== undefined) {
    return new ApiError(502, 'provider_unavailable', `${name} asks for a pause.`)
  }
  if (isOfToken(error)) {
    const code = reason === undefined ? '' : ` (${reason})`
    return new ApiError(502, 'read_refused', `${name} refuses to say it${code}.`)
  }
  return new ApiError(502, 'provider_unavailable', `${name} does not answer.`)
}

/** Says what is wrong with a connection. Undefined if it works. */
function missingOf(
  providers: Providers,
  role: Role,
  connection: Connection | undefined,
): string | undefined {
  if (connection === undefined) {
    const ids: readonly ProviderId[] = { crm: crmIds, chat: chatIds }[role]
    const names = usedOf(providers, ids).map((id) => registry[id].name)
    return `${names.join(' or ')} is not connected.`
  }
  const { provider, brokenReason, channelId } = connection
  const { name } = registry[provider]
  if (brokenReason !== null) {
    return `${refusalInWords(providers, provider, brokenReason)} Connect ${name} again.`
  }
  return role === 'chat' && channelId === null
    ? `${name} gave no channel. Connect ${name} again and choose one.`
    : undefined
}
