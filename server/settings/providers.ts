import { isIPv6 } from 'node:net'
import * as v from 'valibot'
import { defaultNames, providerIdOf } from '../../contract/provider-names.ts'
import { isLoopback } from '../http/origin.ts'
import type { AllSettings, ProviderSettings } from '../providers/calls.ts'
import {
  addressIds,
  addressPath,
  chatIds,
  crmIds,
  eachOf,
  isAddressId,
  isChatId,
  isCrmId,
  mainSettingOf,
  named,
  type OAuthId,
  oauthIds,
  type ProviderId,
  providerIds,
  registry,
  settingOf,
  standInPages,
} from '../providers/registry.ts'
import {
  clientVariables,
  type Env,
  inWords,
  providerVariables,
  webhookOrigins,
} from './variables.ts'

interface Place {
  /** The public address of this server. */
  apiUrl: string
  /** The origin at which this machine reaches it. */
  local: string
  mentionOwners: boolean
}

/** @returns each provider's settings, for the server's addresses. Adds to `problems` what is wrong. */
export function parseProviders(env: Env, problems: string[]): (place: Place) => AllSettings {
  const used = providersInUse(env)
  const oauth = eachOf(oauthIds, (id) => {
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
    return result.success ? result.output : v.parse(providerVariables, {})
  })
  const address = eachOf(addressIds, (id) => {
    const result = v.safeParse(webhookOrigins, env[mainSettingOf(id)])
    if (!result.success) problems.push(`${mainSettingOf(id)} ${result.issues[0].message}`)
    return (result.success && result.output) || registry[id].origins
  })
  const mayStandIn = whyNoStandIns(env, used) === undefined
  problems.push(...unsafeStandIns(env, used), ...unknownProviders(env))
  for (const id of addressIds) {
    if (!used.includes(id) || address[id].length > 0 || mayStandIn) continue
    problems.push(
      `${mainSettingOf(id)} is missing. Set it to the origin of your ${registry[id].name}, such as https://chat.example.com: only addresses there can be connected.`,
    )
  }
  return (place) => ({
    ...eachOf(oauthIds, (id) => oauthSettings(id, oauth[id], used.includes(id), place)),
    ...eachOf(addressIds, (id) => ({
      origins: address[id],
      pageUrl: place.apiUrl + addressPath(id),
      standInAddress: mayStandIn ? `${place.local}/sandbox/${id}/services/sales` : undefined,
      inUse: used.includes(id),
      standIn: used.includes(id) && mayStandIn,
    })),
  })
}

/**
 * The providers that this server uses: the two that the dashboard shows, and each that has settings. The
 * dashboard of another backend may show services that this server does not know.
 */
function providersInUse(env: Env): ProviderId[] {
  const shown = [
    crmIds.find((id) => id === shownIn(env, 'VITE_CRM_NAME').id) ?? crmIds[0],
    chatIds.find((id) => id === shownIn(env, 'VITE_CHAT_NAME').id) ?? chatIds[0],
  ]
  return providerIds.filter((id) => shown.includes(id) || isSet(env, id))
}

const isSet = (env: Env, id: ProviderId) => Boolean(env[mainSettingOf(id)]?.trim())

/** A service that the dashboard shows. */
function shownIn(env: Env, setting: keyof typeof defaultNames) {
  const name = env[setting]?.trim() || defaultNames[setting]
  return { id: providerIdOf(name), name }
}

/**
 * Why a stand-in is not safe with these settings; undefined if it is. A stand-in checks nobody. In that of a CRM,
 * everybody is the same user. That of a chat shows all messages to everybody.
 */
function whyNoStandIns(
  env: Env,
  used: readonly ProviderId[],
): { real: ProviderId[] } | { elsewhere: string } | undefined {
  if (env.ALLOW_STAND_INS?.trim() === 'true') return undefined
  const real = used.filter((id) => !isAddressId(id) && isSet(env, id))
  if (real.length > 0) return { real }
  for (const name of ['APP_URL', 'API_URL']) {
    const url = URL.parse(env[name]?.trim() ?? '')
    if (url && !isLoopback(url.hostname)) return { elsewhere: `${name} is not on this machine` }
  }
  const host = env.HOST?.trim() ?? ''
  const isHere = host === '' || isLoopback(isIPv6(host) ? `[${host}]` : host)
  return isHere ? undefined : { elsewhere: 'HOST lets other machines in' }
}

/** Whether stand-ins play, and nobody has said that others than this machine may reach them. */
export function isForThisMachine(env: Env): boolean {
  return env.ALLOW_STAND_INS?.trim() !== 'true' && !whyNoStandIns(env, providersInUse(env))
}

/** The chats with an address need none, so nothing is wrong if theirs is not safe. */
function unsafeStandIns(env: Env, used: readonly ProviderId[]): string[] {
  const standIns = used.filter((id) => !isAddressId(id) && !isSet(env, id))
  const why = whyNoStandIns(env, used)
  if (why === undefined || standIns.length === 0) return []
  const unless = 'or set ALLOW_STAND_INS=true if only people you trust can reach this server'
  if ('elsewhere' in why) {
    return [
      `${standIns.map(mainSettingOf).join(' and ')} ${standIns.length === 1 ? 'is' : 'are'} missing, and ${why.elsewhere}: with the stand-ins, everyone who opens the dashboard is the same person and reads all messages. Set ${standIns.length === 1 ? 'it' : 'them'}, ${unless}.`,
    ]
  }
  const others = named(why.real).join(' and ')
  return standIns.map((id) => {
    const { name, role } = registry[id]
    const risk =
      role === 'crm'
        ? `the stand-in ${name} signs everyone in as the same person, who can use the real ${others}`
        : `the stand-in ${name} shows the messages about deals of the real ${others} to everyone`
    const [ids, setting] = role === 'crm' ? [crmIds, 'VITE_CRM_NAME'] : [chatIds, 'VITE_CHAT_NAME']
    const other = ids.length > 1 ? `name another service in ${setting}, ` : ''
    return `${mainSettingOf(id)} is missing beside ${why.real.map(mainSettingOf).join(' and ')}: ${risk}. Set it, ${other}${unless}.`
  })
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
    const names = new Intl.ListFormat('en-GB').format(named(known))
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
function oauthSettings(
  id: OAuthId,
  set: v.InferOutput<typeof providerVariables>,
  inUse: boolean,
  { apiUrl: publicUrl, local, mentionOwners }: Place,
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
    ...(isCrmId(id) && { webhookUrl: `${publicUrl}/webhooks/${id}` }),
    ...(isChatId(id) && { mentionOwners }),
  }
}

/** The address of the contact form in a build that names no other one. */
export const standInForm = '/sandbox/contact-form'

/**
 * The path of the first page of each stand-in, by what it plays. The contact form is one of them where everything is only
 * tried: a visitor of a public server would believe that somebody reads it.
 */
export function standInPaths({
  appUrl,
  providers,
}: {
  appUrl: string
  providers: Readonly<Record<ProviderId, { standIn: boolean }>>
}): Record<string, string> {
  const pages = standInPages(providers)
  const isTried = Object.keys(pages).length > 0 || isLoopback(new URL(appUrl).hostname)
  return { ...(isTried && { 'contact-form': standInForm }), ...pages }
}
