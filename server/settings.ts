import { isIP } from 'node:net'
import * as v from 'valibot'
import { isPlaceholder } from './people/vault.ts'
import type { ProviderSettings } from './providers/provider.ts'
import { chatIds, crmIds, type ProviderId, providerIds, registry } from './providers/registry.ts'

const optionalText = v.pipe(
  v.optional(v.string(), ''),
  v.trim(),
  v.transform((text) => (text === '' ? undefined : text)),
)

const optionalHttpUrl = v.pipe(
  optionalText,
  v.check(
    (text) => text === undefined || isHttpUrl(text),
    'must be an http(s) URL without user, query and fragment',
  ),
)

const optionalBaseUrl = v.pipe(
  optionalHttpUrl,
  v.transform((text) => (text === undefined ? undefined : withoutSlash(text))),
)

const flag = (unset: 'true' | 'false') =>
  v.pipe(
    v.optional(v.string(), unset),
    v.trim(),
    v.picklist(['true', 'false'], "must be 'true' or 'false'"),
    v.transform((text) => text === 'true'),
  )

const poolSizes = 'must be a whole number from 2 to 1000'

const wholeEnv = v.object({
  HOST: v.pipe(
    optionalText,
    v.check(
      (text) => text === undefined || text === 'localhost' || isIP(text) !== 0,
      'must be an IP address of this machine, or localhost',
    ),
  ),
  PORT: v.pipe(
    v.optional(v.string(), '3000'),
    v.trim(),
    v.regex(/^\d{1,5}$/, 'must be a port number from 0 to 65535'),
    v.transform(Number),
    v.maxValue(65_535, 'must be a port number from 0 to 65535'),
  ),
  APP_URL: v.pipe(
    optionalHttpUrl,
    v.check(
      (text) => text === undefined || !URL.canParse(text) || new URL(text).pathname === '/',
      'must have no path: the dashboard lives at the root of its origin',
    ),
  ),
  API_URL: optionalBaseUrl,
  DATA_DIR: v.pipe(
    optionalText,
    v.transform((text) => text ?? './data'),
  ),
  DATABASE_URL: v.pipe(
    optionalText,
    v.check(
      (text) => text === undefined || /^postgres(ql)?:\/\//.test(text),
      'must begin with postgres:// or postgresql://',
    ),
    v.check(
      (text) => text === undefined || URL.canParse(text),
      'must be a URL such as postgres://user:password@host:5432/name, with special characters of the password as in a URL (@ is %40)',
    ),
  ),
  // With one connection, a slow statement would keep all others waiting, also those that renew leases.
  DATABASE_POOL_SIZE: v.pipe(
    v.optional(v.string(), '10'),
    v.trim(),
    v.regex(/^\d{1,4}$/, poolSizes),
    v.transform(Number),
    v.minValue(2, poolSizes),
    v.maxValue(1_000, poolSizes),
  ),
  ENCRYPTION_KEY: v.pipe(
    optionalText,
    v.transform((text) => text?.split(',').map((key) => key.trim())),
    v.check(
      (keys) => keys === undefined || keys.every(isBase64Key),
      'must be 32 bytes in base64 (openssl rand -base64 32), or several with commas between, the newest first',
    ),
    v.check(
      (keys) =>
        keys === undefined ||
        !keys.every(isBase64Key) ||
        !keys.some((key) => isPlaceholder(Buffer.from(key, 'base64'))),
      'must be random, but all 32 bytes of a key are the same (make one with openssl rand -base64 32)',
    ),
    v.transform((keys) => keys?.map((key) => Buffer.from(key, 'base64'))),
  ),
  SERVE_DASHBOARD: flag('true'),
  ALLOW_STAND_INS: flag('false'),
  TRUSTED_PROXIES: v.pipe(
    v.optional(v.string(), '0'),
    v.trim(),
    v.regex(/^\d{1,2}$/, 'must be a whole number from 0 to 99'),
    v.transform(Number),
  ),
})

/** The settings of one provider, without the prefix: HUBSPOT_CLIENT_ID is CLIENT_ID here. */
const clientEnv = v.object({ CLIENT_ID: optionalText, CLIENT_SECRET: optionalText })
const providerEnv = v.object({
  CLIENT_ID: optionalText,
  CLIENT_SECRET: v.pipe(
    optionalText,
    v.transform((text) => text?.split(',').map((secret) => secret.trim())),
    v.check(
      (secrets) => secrets === undefined || !secrets.includes(''),
      'must be a secret, or several with commas between, the newest first',
    ),
  ),
  AUTHORIZE_URL: optionalHttpUrl,
  API_URL: optionalBaseUrl,
})

export interface Settings {
  port: number
  /** The address that the server listens on; if undefined, all addresses of this machine. */
  host: string | undefined
  dataDir: string
  /** PostgreSQL's address; if undefined, PGlite in `dataDir` is used. */
  databaseUrl: string | undefined
  /** The most connections to PostgreSQL of one process. */
  databasePoolSize: number
  /** 32 bytes each, the newest first; if undefined, a file in `dataDir` holds the key. */
  encryptionKeys: Buffer[] | undefined
  /** False if another host serves the page: a static host, or Vite during development. */
  serveDashboard: boolean
  /** How many proxies in front of the server may name the client in X-Forwarded-For. */
  trustedProxies: number
  /** The origin at which this machine itself reaches the server. */
  localOriginAt(port: number): string
  /** Addresses contain the port. With port 0 it is known only when the server listens. */
  addressesAt(port: number): Addresses
}

export interface Addresses {
  /** The origin at which people open the dashboard, without a trailing slash. */
  appUrl: string
  /** The address at which providers call the server, without a trailing slash. */
  apiUrl: string
  providers: Record<ProviderId, ProviderSettings>
}

type Env = Readonly<Record<string, string | undefined>>

/**
 * Reads process.env once.
 * @throws Error that lists everything that is wrong.
 */
export function parseEnv(env: Env): Settings {
  const problems: string[] = []
  const result = v.safeParse(wholeEnv, env)
  if (!result.success) problems.push(...inWords(result.issues))
  const ofProviders = parseProviders(env, problems)
  problems.push(...unsafeStandIns(env), ...unknownProviders(env))

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
    databaseUrl: settings.DATABASE_URL,
    databasePoolSize: settings.DATABASE_POOL_SIZE,
    encryptionKeys: settings.ENCRYPTION_KEY,
    serveDashboard: settings.SERVE_DASHBOARD,
    trustedProxies: settings.TRUSTED_PROXIES,
    localOriginAt,
    addressesAt(port) {
      const appUrl = new URL(settings.APP_URL ?? `http://localhost:${port}`).origin
      const local = localOriginAt(port)
      return {
        appUrl,
        apiUrl: settings.API_URL ?? appUrl,
        providers: eachProvider((id) => ofProviders[id](appUrl, local)),
      }
    },
  }
}

/** Adds to `problems` what is wrong. */
function parseProviders(env: Env, problems: string[]) {
  return eachProvider((id) => {
    const prefix = `${id.toUpperCase()}_`
    const ofProvider = Object.fromEntries(
      Object.keys(providerEnv.entries).map((name) => [name, env[prefix + name]]),
    )
    const result = v.safeParse(providerEnv, ofProvider)
    if (!result.success) problems.push(...inWords(result.issues, prefix))
    const { CLIENT_ID, CLIENT_SECRET } = v.parse(clientEnv, ofProvider)
    if (CLIENT_ID && !CLIENT_SECRET) {
      problems.push(`${prefix}CLIENT_SECRET is missing beside its CLIENT_ID`)
    }
    if (CLIENT_SECRET && !CLIENT_ID) {
      problems.push(`${prefix}CLIENT_ID is missing beside its CLIENT_SECRET`)
    }
    const settings = result.success ? result.output : v.parse(providerEnv, {})
    return (appUrl: string, local: string) => providerSettings(id, settings, { appUrl, local })
  })
}

/**
 * Why stand-ins are not safe with these settings. A stand-in checks nobody: its HubSpot has one user,
 * whoever signs in, and its Slack shows all messages.
 */
function unsafeStandIns(env: Env): string[] {
  if (env.ALLOW_STAND_INS?.trim() === 'true') return []
  const clientId = (id: ProviderId) => `${id.toUpperCase()}_CLIENT_ID`
  const standIns = providerIds.filter((id) => !env[clientId(id)]?.trim())
  const real = providerIds.filter((id) => !standIns.includes(id))
  const unless = 'or set ALLOW_STAND_INS=true if only people you trust can reach this server'

  if (real.length > 0) {
    const others = real.map((id) => registry[id].name).join(' and ')
    return standIns.map((id) => {
      const { name, role } = registry[id]
      const why =
        role === 'crm'
          ? `the stand-in ${name} signs everyone in as the same person, who can use the real ${others}`
          : `the stand-in ${name} shows the messages about deals of the real ${others} to everyone`
      return `${clientId(id)} is missing beside ${real.map(clientId).join(' and ')}: ${why}. Set it, ${unless}.`
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
  const unknown = (setting: string, role: string, ids: readonly ProviderId[]) => {
    const name = env[setting]?.trim()
    if (!name || ids.some((id) => id === name.toLowerCase())) return []
    const known = ids.map((id) => registry[id].name).join(' and ')
    return `${setting} is '${name}', but this server knows only this ${role}: ${known}. Set it to that, add the provider (docs/extending.md), or set VITE_API_URL to a backend that knows it.`
  }
  return [
    unknown('VITE_CRM_NAME', 'CRM', crmIds),
    unknown('VITE_CHAT_NAME', 'chat', chatIds),
  ].flat()
}

function isLoopback(hostname: string): boolean {
  return /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname)
}

/** The name of this server in a URL that only this machine uses. */
function localHost(host: string | undefined): string {
  if (host === undefined || host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return isIP(host) === 6 ? `[${host}]` : host
}

/** Without a client id, the stand-in on this server plays the provider. */
function providerSettings(
  id: ProviderId,
  set: v.InferOutput<typeof providerEnv>,
  { appUrl, local }: { appUrl: string; local: string },
): ProviderSettings {
  const { authorizeUrl, apiUrl, standIn } = registry[id]
  const isStandIn = set.CLIENT_ID === undefined
  // The browser opens the consent page, so it is at the address where people open the dashboard. The
  // server calls the API of its own stand-in directly, not through a proxy.
  const standInPage = `${appUrl}/sandbox/${id}${standIn.authorizePath}`
  const standInApi = `${local}/sandbox/${id}${standIn.apiPath}`
  const [clientSecret = `stand-in-${id}-secret`, ...olderSecrets] = set.CLIENT_SECRET ?? []
  return {
    clientId: set.CLIENT_ID ?? `dealbell-stand-in-${id}`,
    clientSecret,
    olderSecrets,
    authorizeUrl: set.AUTHORIZE_URL ?? (isStandIn ? standInPage : authorizeUrl),
    apiUrl: set.API_URL ?? (isStandIn ? standInApi : apiUrl),
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

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const url = new URL(text)
  return (
    ['http:', 'https:'].includes(url.protocol) &&
    url.username === '' &&
    url.password === '' &&
    url.search === '' &&
    url.hash === ''
  )
}

function isBase64Key(text: string): boolean {
  return /^[A-Za-z0-9+/]{43}=?$/.test(text) && Buffer.from(text, 'base64').length === 32
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, '')
}
