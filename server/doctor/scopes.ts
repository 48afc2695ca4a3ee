import { visibleText } from '../../contract/visible.ts'
import { ask, fieldsOf } from '../cli/ask.ts'
import type { Stored } from '../database/stored.ts'
import { openSecrets } from '../people/connections.ts'
import type { Vault } from '../people/vault.ts'
import type { ProviderSettings } from '../providers/calls.ts'
import { optionalScopes, requiredScopes } from '../providers/hubspot/oauth.ts'
import type { Secrets } from '../providers/provider.ts'
import { type ProviderId, providerIds, registry, usedOf } from '../providers/registry.ts'
import { botScopes } from '../providers/slack/oauth.ts'
import type { Addresses } from '../settings/settings.ts'
import {
  codeOf,
  type Finding,
  installationRefusal,
  refusalInWords,
  right,
  warning,
  wrong,
} from './finding.ts'

/** What a provider says about a connection. Undefined if it does not say. */
type Granted = { scopes: readonly string[] } | { refusal: (account: string) => string } | undefined

interface ScopeCheck {
  scopes(settings: ProviderSettings): {
    required: readonly string[]
    optional: readonly string[]
  }
  /** What to do about a missing scope, before the user connects again. */
  remedy: string
  /** What to say of connections without the optional scopes. */
  withoutOptional(connections: string, scopes: string): Finding
  /** Asks the provider about a connection. This changes nothing there. */
  granted(settings: ProviderSettings, secrets: Secrets): Promise<Granted>
}

/** Checks at the providers that the newest connections are valid and have all scopes. */
export async function checkScopes(
  { appUrl, providers }: Addresses,
  vault: Vault,
  { connections }: Stored,
): Promise<Finding[]> {
  const findings: Finding[] = []
  for (const id of usedOf(providers, providerIds)) {
    const { name } = registry[id]
    const ours = connections.filter(
      // A connection of the stand-in does not count at the real provider, nor the reverse.
      ({ provider, standIn }) => provider === id && standIn === providers[id].standIn,
    )
    if (ours.length === 0) {
      findings.push(warning(`Nobody has connected ${name}. Open ${appUrl} and press Connect.`))
    }
    const judged = { complete: 0, incomplete: 0, unknown: 0 }
    for (const connection of ours) {
      const result = await judge(connection)
      if (typeof result === 'string') judged[result]++
      else if (result !== undefined) findings.push(result)
    }
    const { complete, incomplete, unknown } = judged
    if (complete > 0) findings.push(right(`${count(complete)} to ${name} with all scopes.`))
    const check = scopeChecks[id]
    if (incomplete > 0 && check !== undefined) {
      const { optional } = check.scopes(providers[id])
      findings.push(check.withoutOptional(`${count(incomplete)} to ${name}`, optional.join(', ')))
    }
    if (unknown > 0) {
      findings.push(warning(`${name} did not tell the scopes of ${count(unknown)}. Try later.`))
    }
  }
  return findings

  /** @returns what is wrong with a connection, or how many of its scopes it has. Undefined if nothing checks it. */
  async function judge(
    connection: Stored['connections'][number],
  ): Promise<Finding | 'complete' | 'incomplete' | 'unknown' | undefined> {
    const { provider, account: named, brokenReason, secrets } = connection
    const { name } = registry[provider]
    const account = visibleText(named) ?? 'an unnamed account'
    if (brokenReason !== null) {
      const reason = codeOf(brokenReason) ?? 'unknown reason'
      return warning(
        `The connection of ${account} to ${name} is broken (${reason}). Its user must press Connect.`,
      )
    }
    const check = scopeChecks[provider]
    // The check of the keys has already reported a secret of another key.
    if (check === undefined || !vault.holdsKeyOf(secrets)) return undefined
    const granted = await check.granted(providers[provider], openSecrets(vault, connection))
    if (granted === undefined) return 'unknown'
    if ('refusal' in granted) return wrong(granted.refusal(account))
    const without = (scopes: readonly string[]) =>
      scopes.filter((scope) => !granted.scopes.includes(scope))
    const { required, optional } = check.scopes(providers[provider])
    const missing = without(required)
    if (missing.length > 0) {
      return wrong(
        `The connection of ${account} to ${name} lacks ${missing.join(', ')}. ${check.remedy} Then its user must press Disconnect, then Connect.`,
      )
    }
    return without(optional).length > 0 ? 'incomplete' : 'complete'
  }
}

const count = (number: number) => `${number} ${number === 1 ? 'connection' : 'connections'}`

const ended = (id: ProviderId, code: string) => ({
  refusal: (account: string) =>
    `${registry[id].name} no longer accepts the connection of ${account} (${code}). Its user must press Disconnect, then Connect.`,
})

const addToSlackApp = 'Add them to the app under OAuth & Permissions.'

/** The doctor knows only these providers. It does not ask others. */
const scopeChecks: Partial<Record<ProviderId, ScopeCheck>> = {
  hubspot: {
    scopes: () => ({
      // HubSpot gives `oauth` to every app, so its list may leave it out.
      required: requiredScopes.filter((scope) => scope !== 'oauth'),
      optional: optionalScopes,
    }),
    remedy:
      'Write the app with them (npm run doctor -- manifests) and upload it (hs project upload).',
    withoutOptional: (connections, scopes) =>
      right(`${connections} with all required scopes, but not ${scopes}. It is optional.`),
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
      if (refusal !== undefined) return { refusal: refusalInWords[refusal] }
      const { active, scopes } = fieldsOf(reply.kind === 'answer' ? reply.text : '')
      if (active === false) return ended('hubspot', 'revoked or uninstalled')
      return active === true && Array.isArray(scopes) ? { scopes } : undefined
    },
  },

  slack: {
    scopes: botScopes,
    remedy: addToSlackApp,
    withoutOptional: (connections, scopes) =>
      warning(
        `${connections} without ${scopes}, so the messages mention no owner. ${addToSlackApp} Then the users must press Disconnect, then Connect. Or remove MENTION_OWNERS.`,
      ),
    async granted({ apiUrl }, { accessToken }) {
      const reply = await ask(`${apiUrl}/auth.test`, {
        method: 'POST',
        headers: { Authorization: `Bearer ${accessToken}` },
      })
      if (reply.kind === 'none') return undefined
      const { ok, error } = fieldsOf(reply.text)
      const scopes = reply.headers.get('x-oauth-scopes')
      if (ok === true && scopes !== null) {
        return { scopes: scopes.split(',').map((scope) => scope.trim()) }
      }
      const code = codeOf(error)
      return ok === false && code !== undefined && tokenRefusals.has(code)
        ? ended('slack', code)
        : undefined
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
