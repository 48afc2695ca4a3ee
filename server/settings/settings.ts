import { isIP } from 'node:net'
import * as v from 'valibot'
import { defaultNames, providerIdOf } from '../../contract/provider-names.ts'
import { isLoopback } from '../http/loopback.ts'
import type { LogLevel } from '../log.ts'
import type { ProviderSettings } from '../providers/calls.ts'
import {
  chatIds,
  crmIds,
  isChatId,
  type ProviderId,
  providerIds,
  registry,
  settingOf,
} from '../providers/registry.ts'
import { withCertificate } from './database-url.ts'
import { expandHome, readCertificates, readText } from './text-file.ts'
import { clientVariables, providerVariables, variables } from './variables.ts'

export interface Settings {
  port: number
  /** The address that the server listens on; if undefined, all addresses of this machine. */
  host: string | undefined
  dataDir: string
  /** PostgreSQL's address; if undefined, PGlite in `dataDir` is used. */
  databaseUrl: string | undefined
  /** The most connections to PostgreSQL of one process. */
  databasePoolSize: number
  /** How long a statement of PostgreSQL may take, in ms. */
  databaseStatementMs: number
  /** 32 bytes each, the newest first; if undefined, a file in `dataDir` holds the key. */
  encryptionKeys: Buffer[] | undefined
  /** False if another host serves the page: a static host, or Vite during development. */
  serveDashboard: boolean
  /** How many proxies in front of the server may name the client in X-Forwarded-For. */
  trustedProxies: number
  /** The bearer token of GET /metrics. */
  metricsToken: string | undefined
  /** The least important lines that the log gets. */
  logLevel: LogLevel
  /** How long GET /ready says 503 before the server stops, after SIGTERM. */
  stopDelayMs: number
  /** The origin at which this machine itself reaches the server. */
  localOriginAt(port: number): string
  /** Addresses contain the port. With port 0 it is known only when the server listens. */
  addressesAt(port: number): Addresses
}

export interface Addresses {
  /** The origin at which people open the dashboard, without a trailing slash. */
  appUrl: string
  /** The address at which providers call the server, and browsers open its stand-ins, without a trailing slash. */
  apiUrl: string
  providers: Record<ProviderId, ProviderSettings>
}

type Env = Readonly<Record<string, string | undefined>>

/**
 * Checks the variables, reads the files that they name, and returns the settings.
 * @throws Error that lists everything that is wrong.
 */
export function parseEnv(given: Env): Settings {
  const problems: string[] = []
  const env = withSecretFiles(given, problems)
  const result = v.safeParse(variables, env)
  if (!result.success) problems.push(...inWords(result.issues))
  const used = providersInUse(env)
  const ofProviders = parseProviders(env, used, problems)
  problems.push(...unsafeStandIns(env, used), ...unknownProviders(env))

  if (!result.success || problems.length > 0) {
    throw new Error(
      `The settings make no sense:\n${problems.map((problem) => `- ${problem}`).join('\n')}`,
    )
  }

  const settings = result.output
  const localOriginAt = (port: number) => `http://${localHost(settings.HOST)}:${port}`
  return {
    port: settings.PORT,
    host: settings.HOST,
    dataDir: settings.DATA_DIR,
    databaseUrl:
      settings.DATABASE_URL && settings.DATABASE_CA_FILE
        ? withCertificate(settings.DATABASE_URL, settings.DATABASE_CA_FILE)
        : settings.DATABASE_URL,
    databasePoolSize: settings.DATABASE_POOL_SIZE,
    databaseStatementMs: settings.DATABASE_STATEMENT_TIMEOUT * 1_000,
    encryptionKeys: settings.ENCRYPTION_KEY,
    serveDashboard: settings.SERVE_DASHBOARD,
    trustedProxies: settings.TRUSTED_PROXIES,
    metricsToken: settings.METRICS_TOKEN,
    logLevel: settings.LOG_LEVEL,
    stopDelayMs: settings.STOP_DELAY * 1000,
    localOriginAt,
    addressesAt(port) {
      const appUrl = new URL(settings.APP_URL ?? `http://localhost:${port}`).origin
      const apiUrl = settings.API_URL ?? appUrl
      const local = localOriginAt(port)
      return {
        appUrl,
        apiUrl,
        providers: eachProvider((id) => ({
          ...ofProviders[id](apiUrl, local),
          ...(isChatId(id) && { mentionOwners: settings.MENTION_OWNERS }),
        })),
      }
    },
  }
}

/** Each of these may stand in a file that NAME_FILE names: a credential of systemd, a secret of Docker. */
const secrets = [
  'ENCRYPTION_KEY',
  'DATABASE_URL',
  'METRICS_TOKEN',
  ...providerIds.map((id) => settingOf(id, 'CLIENT_SECRET')),
]

/** @returns the settings with the secrets of the files. Adds to `problems` what is wrong with a file. */
function withSecretFiles(env: Env, problems: string[]): Env {
  const read: Record<string, string> = {}
  for (const name of secrets) {
    const text = readNamed(`${name}_FILE`, readText)
    if (text === undefined) continue
    if (env[name]?.trim()) problems.push(`${name} and ${name}_FILE are both set. Remove one.`)
    // An empty setting would count as unset.
    if (text === '') problems.push(`${name}_FILE is ${env[`${name}_FILE`]}, but this file is empty`)
    read[name] = text
  }
  readNamed('DATABASE_CA_FILE', readCertificates)
  return { ...env, ...read }

  function readNamed(setting: string, read: (path: string) => string): string | undefined {
    const path = env[setting]?.trim()
    if (!path) return undefined
    try {
      return read(expandHome(path)).trim()
    } catch (error) {
      problems.push(`${setting} is ${path}, but ${Object(error).message}`)
      return undefined
    }
  }
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

/** Adds to `problems` what is wrong. */
function parseProviders(env: Env, used: readonly ProviderId[], problems: string[]) {
  return eachProvider((id) => {
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

/** The name of this server in a URL that only this machine uses. */
export function localHost(host: string | undefined): string {
  if (host === undefined || host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return isIP(host) === 6 ? `[${host}]` : host
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

function eachProvider<T>(of: (id: ProviderId) => T): Record<ProviderId, T> {
  // Object.fromEntries forgets the names of the keys.
  return Object.fromEntries(providerIds.map((id) => [id, of(id)])) as Record<ProviderId, T>
}

function inWords(issues: readonly v.BaseIssue<unknown>[], prefix = ''): string[] {
  return issues.map((issue) => `${prefix}${v.getDotPath(issue)} ${issue.message}`)
}
