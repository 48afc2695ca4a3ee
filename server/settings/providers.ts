import * as v from 'valibot'
import { defaultNames, providerIdOf } from '../../contract/provider-names.ts'
import { isLoopback } from '../http/origin.ts'
import type { ProviderSettings } from '../providers/calls.ts'
import {
  chatIds,
  crmIds,
  eachOf,
  type ProviderId,
  providerIds,
  registry,
  settingOf,
} from '../providers/registry.ts'
import { clientVariables, type Env, inWords, providerVariables } from './variables.ts'

/** @returns each provider's settings, for the server's addresses. Adds to `problems` what is wrong. */
export function parseProviders(env: Env, problems: string[]) {
  const used = providersInUse(env)
  const parsed = eachOf(providerIds, (id) => {
    const prefix = settingOf(id, '')
    const ofProvider = Object.fromEntries(
      Object.keys(providerVariables.entries).map((name) => [name, env[prefix + name]]),
    )
    const result = v.safeParse(providerVariables, ofProvider)
    if (!result.success) problems.push(...inWords(result.issues, prefix))
    const { CLIENT_ID, CLIENT_SECRET } = v.parse(clientVariables, ofProvider)
    if (CLIENT_ID && !CLIENT_SECRET) {
      problems.push(`${prefix}CLIENT_SECRET is missing beside its CLIENT_ID`)
    }
    if (CLIENT_SECRET && !CLIENT_ID) {
      problems.push(`${prefix}CLIENT_ID is missing beside its CLIENT_SECRET`)
    }
    const settings = result.success ? result.output : v.parse(providerVariables, {})
    const inUse = used.includes(id)
    return (publicUrl: string, local: string) =>
      providerSettings(id, settings, { inUse, publicUrl, local })
  })
  problems.push(...unsafeStandIns(env, used), ...unknownProviders(env))
  return parsed
}

/**
 * The providers that this server uses: the two that the dashboard shows, and each that has a client id. The
 * dashboard of another backend may show services that this server does not know.
 */
function providersInUse(env: Env): ProviderId[] {
  const shown = [
    crmIds.find((id) => id === shownIn(env, 'VITE_CRM_NAME').id) ?? crmIds[0],
    chatIds.find((id) => id === shownIn(env, 'VITE_CHAT_NAME').id) ?? chatIds[0],
  ]
  return providerIds.filter((id) => shown.includes(id) || env[settingOf(id, 'CLIENT_ID')]?.trim())
}

/** A service that the dashboard shows. */
function shownIn(env: Env, setting: keyof typeof defaultNames) {
  const name = env[setting]?.trim() || defaultNames[setting]
  return { id: providerIdOf(name), name }
}

/**
 * Why stand-ins are not safe with these settings. A stand-in checks nobody. In the stand-in HubSpot,
 * everybody is the same user. The stand-in Slack shows all messages to everybody.
 */
function unsafeStandIns(env: Env, used: readonly ProviderId[]): string[] {
  if (env.ALLOW_STAND_INS?.trim() === 'true') return []
  const clientId = (id: ProviderId) => settingOf(id, 'CLIENT_ID')
  const standIns = used.filter((id) => !env[clientId(id)]?.trim())
  const real = used.filter((id) => !standIns.includes(id))
  const unless = 'or set ALLOW_STAND_INS=true if only people you trust can reach this server'

  if (real.length > 0) {
    const others = real.map((id) => registry[id].name).join(' and ')
    return standIns.map((id) => {
      const { name, role } = registry[id]
      const why =
        role === 'crm'
          ? `the stand-in ${name} signs everyone in as the same person, who can use the real ${others}`
          : `the stand-in ${name} shows the messages about deals of the real ${others} to everyone`
      const [ids, setting] =
        role === 'crm' ? [crmIds, 'VITE_CRM_NAME'] : [chatIds, 'VITE_CHAT_NAME']
      const other = ids.length > 1 ? `name another service in ${setting}, ` : ''
      return `${clientId(id)} is missing beside ${real.map(clientId).join(' and ')}: ${why}. Set it, ${other}${unless}.`
    })
  }
  const elsewhere = ['APP_URL', 'API_URL'].find((name) => {
    const url = env[name]?.trim()
    return url && URL.canParse(url) && !isLoopback(new URL(url).hostname)
  })
  if (elsewhere === undefined) return []
  return [
    `${standIns.map(clientId).join(' and ')} are missing, and ${elsewhere} is not on this machine: with the stand-ins, everyone who opens the dashboard is the same person and reads all messages. Set them, ${unless}.`,
  ]
}

/**
 * Which names of the dashboard's services this server does not know. Such a dashboard would call
 * addresses that nothing answers. With VITE_API_URL, it calls another backend.
 */
function unknownProviders(env: Env): string[] {
  if (env.VITE_API_URL?.trim()) return []
  const unknown = (
    setting: keyof typeof defaultNames,
    role: string,
    known: readonly ProviderId[],
  ) => {
    const { id, name } = shownIn(env, setting)
    if (known.some((each) => each === id)) return []
    const names = new Intl.ListFormat('en-GB').format(known.map((each) => registry[each].name))
    const [only, one] =
      known.length === 1 ? [`this ${role}`, 'that'] : [`these ${role}s`, 'one of them']
    return `${setting} is '${name}', but this server knows only ${only}: ${names}. Set it to ${one}, add the provider (docs/extending.md), or set VITE_API_URL to a backend that knows it.`
  }
  return [
    unknown('VITE_CRM_NAME', 'CRM', crmIds),
    unknown('VITE_CHAT_NAME', 'chat', chatIds),
  ].flat()
}

/** Without a client id, the stand-in on this server plays a provider that is in use. */
function providerSettings(
  id: ProviderId,
  set: v.InferOutput<typeof providerVariables>,
  { inUse, publicUrl, local }: { inUse: boolean; publicUrl: string; local: string },
): ProviderSettings {
  const { authorizeUrl, apiUrl, standIn } = registry[id]
  const isStandIn = inUse && set.CLIENT_ID === undefined
  // The browser opens the consent page, and another host may serve the dashboard at APP_URL. The server calls the API of
  // its own stand-in directly, not through a proxy.
  const standInPage = `${publicUrl}/sandbox/${id}${standIn.authorizePath}`
  const standInApi = `${local}/sandbox/${id}${standIn.apiPath}`
  const [clientSecret = `stand-in-${id}-secret`, ...olderSecrets] = set.CLIENT_SECRET ?? []
  return {
    clientId: set.CLIENT_ID ?? `dealbell-stand-in-${id}`,
    clientSecret,
    olderSecrets,
    authorizeUrl: set.AUTHORIZE_URL ?? (isStandIn ? standInPage : authorizeUrl),
    apiUrl: set.API_URL ?? (isStandIn ? standInApi : apiUrl),
    inUse,
    standIn: isStandIn,
  }
}
