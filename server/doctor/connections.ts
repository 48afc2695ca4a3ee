import { openSecrets } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import { optionalScopes, requiredScopes } from '../providers/hubspot/oauth.ts'
import type { ProviderSettings, Secrets } from '../providers/provider.ts'
import { type ProviderId, providerIds, registry } from '../providers/registry.ts'
import { botScopes } from '../providers/slack/oauth.ts'
import type { Addresses } from '../settings.ts'
import { ask, codeOf, type Finding, fieldsOf, right, warning, wrong } from './ask.ts'
import type { Stored } from './stored.ts'

/** What a provider says about a connection. */
type Granted =
  | { kind: 'valid'; scopes: readonly string[] }
  | { kind: 'not valid'; code: string }
  | { kind: 'unknown' }

/** Checks at the providers that the newest connections are valid and have all scopes. */
export async function checkConnections(
  { appUrl, providers }: Addresses,
  vault: Vault,
  { connections }: Stored,
): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const id of providerIds) {
    const settings = providers[id]
    const { name } = registry[id]
    const ours = connections.filter(
      // A connection of the stand-in does not count at the real provider, nor the reverse.
      ({ provider, standIn }) => provider === id && standIn === settings.standIn,
    )
    if (ours.length === 0) {
      findings.push(warning(`Nobody has connected ${name}. Open ${appUrl} and press Connect.`))
      continue
    }
    let complete = 0
    let unknown = 0
    let withoutOptional = 0
    for (const connection of ours) {
      const account = connection.account ?? 'an unnamed account'
      if (connection.brokenReason !== null) {
        findings.push(
          warning(
            `The connection of ${account} to ${name} is broken (${codeOf(connection.brokenReason) ?? 'unknown reason'}). Its user must press Connect.`,
          ),
        )
        continue
      }
      // The check of the keys has already reported this.
      if (!vault.holdsKeyOf(connection.secrets)) continue
      const granted = await grantedTo[id](settings, openSecrets(vault, connection))
      if (granted.kind === 'unknown') {
        unknown++
      } else if (granted.kind === 'not valid') {
        findings.push(
          wrong(
            `${name} no longer accepts the connection of ${account} (${granted.code}). Its user must press Disconnect, then Connect.`,
          ),
        )
      } else {
        const missing = needed[id].filter((scope) => !granted.scopes.includes(scope))
        if (missing.length > 0) findings.push(wrong(withoutScopes(id, account, missing)))
        else complete++
        if (id === 'hubspot' && !optionalScopes.every((scope) => granted.scopes.includes(scope))) {
          withoutOptional++
        }
      }
    }
    if (complete > 0) {
      const owners =
        withoutOptional === 0
          ? ''
          : ` ${withoutOptional} without ${optionalScopes.join(' and ')}: their messages name no owners.`
      findings.push(
        right(`${complete} ${plural(complete)} to ${name} with all required scopes.${owners}`),
      )
    }
    if (unknown > 0) {
      findings.push(
        warning(`${name} did not say which scopes ${unknown} ${plural(unknown)} have. Try later.`),
      )
    }
  }
  return findings
}

const plural = (count: number) => (count === 1 ? 'connection' : 'connections')

/** HubSpot gives `oauth` to every app, so a list of scopes may leave it out. */
const needed: Record<ProviderId, readonly string[]> = {
  hubspot: requiredScopes.filter((scope) => scope !== 'oauth'),
  slack: botScopes,
}

function withoutScopes(id: ProviderId, account: string, missing: readonly string[]): string {
  const app =
    id === 'hubspot'
      ? 'Write the app with them (npm run doctor -- manifests) and run hs project upload.'
      : 'Add them to the app under OAuth & Permissions.'
  return `The connection of ${account} to ${registry[id].name} lacks ${missing.join(', ')}. ${app} Then its user must press Disconnect, then Connect.`
}

/** Asks a provider about a connection. This changes nothing there. */
const grantedTo: Record<
  ProviderId,
  (settings: ProviderSettings, secrets: Secrets) => Promise<Granted>
> = {
  async hubspot({ apiUrl, clientId, clientSecret }, { accessToken, refreshToken }) {
    const reply = await ask(`${apiUrl}/oauth/2026-03/token/introspect`, {
      method: 'POST',
      headers: { Accept: 'application/json' },
      body: new URLSearchParams({
        client_id: clientId,
        client_secret: clientSecret,
        token: refreshToken ?? accessToken,
        token_type_hint: refreshToken === undefined ? 'access_token' : 'refresh_token',
      }),
    })
    const { active, scopes } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
    if (active === false) return { kind: 'not valid', code: 'revoked or uninstalled' }
    return active === true && Array.isArray(scopes)
      ? { kind: 'valid', scopes }
      : { kind: 'unknown' }
  },

  async slack({ apiUrl }, { accessToken }) {
    const reply = await ask(`${apiUrl}/auth.test`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${accessToken}` },
    })
    if (reply.kind === 'none') return { kind: 'unknown' }
    const { ok, error } = fieldsOf(reply.text)
    const scopes = reply.headers.get('x-oauth-scopes')
    if (ok === true && scopes !== null) {
      return { kind: 'valid', scopes: scopes.split(',').map((scope) => scope.trim()) }
    }
    const code = codeOf(error)
    return ok === false && code !== undefined && tokenRefusals.has(code)
      ? { kind: 'not valid', code }
      : { kind: 'unknown' }
  },
}

/** Slack's errors about the token. Others say nothing about the connection. */
const tokenRefusals = new Set([
  'account_inactive',
  'invalid_auth',
  'not_allowed_token_type',
  'not_authed',
  'token_expired',
  'token_revoked',
])
