import { openSecrets } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import { optionalScopes, requiredScopes } from '../providers/hubspot/oauth.ts'
import type { ProviderSettings, Secrets } from '../providers/provider.ts'
import { type ProviderId, providerIds, registry } from '../providers/registry.ts'
import { botScopes } from '../providers/slack/oauth.ts'
import type { Addresses } from '../settings.ts'
import {
  ask,
  codeOf,
  type Finding,
  fieldsOf,
  installationRefusal,
  refusalInWords,
  right,
  warning,
  wrong,
} from './ask.ts'
import type { Stored } from './stored.ts'

/** What a provider says about a connection. */
type Granted =
  | { kind: 'valid'; scopes: readonly string[] }
  | { kind: 'not valid'; code: string }
  /** The provider lets nobody of the account use the app. */
  | { kind: 'not allowed'; why: (account: string) => string }
  | { kind: 'unknown' }

interface ScopeCheck {
  required: readonly string[]
  optional: readonly string[]
  /** What to do about a missing scope, before the user connects again. */
  remedy: string
  /** Asks the provider about a connection. This changes nothing there. */
  granted(settings: ProviderSettings, secrets: Secrets): Promise<Granted>
}

/** Checks at the providers that the newest connections are valid and have all scopes. */
export async function checkConnections(
  { appUrl, providers }: Addresses,
  vault: Vault,
  { connections }: Stored,
): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const id of providerIds) {
    const { name } = registry[id]
    const ours = connections.filter(
      // A connection of the stand-in does not count at the real provider, nor the reverse.
      ({ provider, standIn }) => provider === id && standIn === providers[id].standIn,
    )
    if (ours.length === 0) {
      findings.push(warning(`Nobody has connected ${name}. Open ${appUrl} and press Connect.`))
    }
    let complete = 0
    let incomplete = 0
    let unknown = 0
    for (const connection of ours) {
      const account = connection.account ?? 'an unnamed account'
      if (connection.brokenReason !== null) {
        const reason = codeOf(connection.brokenReason) ?? 'unknown reason'
        findings.push(
          warning(
            `The connection of ${account} to ${name} is broken (${reason}). Its user must press Connect.`,
          ),
        )
        continue
      }
      const check = scopeChecks[id]
      // The check of the keys has already reported a secret of another key.
      if (check === undefined || !vault.holdsKeyOf(connection.secrets)) continue
      const granted = await check.granted(providers[id], openSecrets(vault, connection))
      if (granted.kind === 'unknown') {
        unknown++
        continue
      }
      if (granted.kind === 'not valid') {
        findings.push(
          wrong(
            `${name} no longer accepts the connection of ${account} (${granted.code}). Its user must press Disconnect, then Connect.`,
          ),
        )
        continue
      }
      if (granted.kind === 'not allowed') {
        findings.push(wrong(granted.why(account)))
        continue
      }
      const without = (scopes: readonly string[]) =>
        scopes.filter((scope) => !granted.scopes.includes(scope))
      const missing = without(check.required)
      if (missing.length > 0) {
        findings.push(
          wrong(
            `The connection of ${account} to ${name} lacks ${missing.join(', ')}. ${check.remedy} Then its user must press Disconnect, then Connect.`,
          ),
        )
      } else if (without(check.optional).length > 0) {
        incomplete++
      } else {
        complete++
      }
    }
    if (complete > 0) findings.push(right(`${count(complete)} to ${name} with all scopes.`))
    if (incomplete > 0) {
      findings.push(
        right(
          `${count(incomplete)} to ${name} with all required scopes, but not ${scopeChecks[id]?.optional.join(', ')}. It is optional.`,
        ),
      )
    }
    if (unknown > 0) {
      findings.push(warning(`${name} did not tell the scopes of ${count(unknown)}. Try later.`))
    }
  }
  return findings
}

const count = (number: number) => `${number} ${number === 1 ? 'connection' : 'connections'}`

/** The doctor knows only these providers. It does not ask others. */
const scopeChecks: Partial<Record<ProviderId, ScopeCheck>> = {
  hubspot: {
    // HubSpot gives `oauth` to every app, so its list may leave it out.
    required: requiredScopes.filter((scope) => scope !== 'oauth'),
    optional: optionalScopes,
    remedy:
      'Write the app with them (npm run doctor -- manifests) and upload it (hs project upload).',
    async granted({ apiUrl, clientId, clientSecret }, { accessToken, refreshToken }) {
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
      const refusal = installationRefusal(reply)
      if (refusal !== undefined) return { kind: 'not allowed', why: refusalInWords[refusal] }
      const { active, scopes } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
      if (active === false) return { kind: 'not valid', code: 'revoked or uninstalled' }
      return active === true && Array.isArray(scopes)
        ? { kind: 'valid', scopes }
        : { kind: 'unknown' }
    },
  },

  slack: {
    required: botScopes,
    optional: [],
    remedy: 'Add them to the app under OAuth & Permissions.',
    async granted({ apiUrl }, { accessToken }) {
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
