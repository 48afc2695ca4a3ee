import * as v from 'valibot'
import type { ProviderSettings } from './providers/provider.ts'
import { type ProviderId, providerIds, registry } from './providers/registry.ts'

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

const wholeEnv = v.object({
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
  ),
  ENCRYPTION_KEY: v.pipe(
    optionalText,
    v.transform((text) => text?.split(',').map((key) => key.trim())),
    v.check(
      (keys) => keys === undefined || keys.every(isBase64Key),
      'must be 32 bytes in base64 (openssl rand -base64 32), or several with commas between, the newest first',
    ),
    v.transform((keys) => keys?.map((key) => Buffer.from(key, 'base64'))),
  ),
  SERVE_DASHBOARD: v.pipe(
    v.optional(v.string(), 'true'),
    v.trim(),
    v.picklist(['true', 'false'], "must be 'true' or 'false'"),
    v.transform((text) => text === 'true'),
  ),
  TRUSTED_PROXIES: v.pipe(
    v.optional(v.string(), '0'),
    v.trim(),
    v.regex(/^\d{1,2}$/, 'must be the number of proxies in front of the server'),
    v.transform(Number),
  ),
})

/** The settings of one provider, without the prefix: HUBSPOT_CLIENT_ID is CLIENT_ID here. */
const clientEnv = v.object({ CLIENT_ID: optionalText, CLIENT_SECRET: optionalText })
const providerEnv = v.object({
  ...clientEnv.entries,
  AUTHORIZE_URL: optionalHttpUrl,
  API_URL: optionalHttpUrl,
})

export interface Settings {
  port: number
  dataDir: string
  /** PostgreSQL's address; if undefined, PGlite in `dataDir` is used. */
  databaseUrl: string | undefined
  /** 32 bytes each, the newest first; if undefined, a file in `dataDir` holds the key. */
  encryptionKeys: Buffer[] | undefined
  /** False if another host serves the page: a static host, or Vite during development. */
  serveDashboard: boolean
  /** How many proxies of the administrator add the client's address to X-Forwarded-For. */
  trustedProxies: number
  /** Addresses contain the port. With port 0 it is known only when the server listens. */
  addressesAt(port: number): Addresses
}

export interface Addresses {
  /** The origin at which people open the dashboard, without a trailing slash. */
  appUrl: string
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

  if (!result.success || problems.length > 0) {
    throw new Error(
      `The settings make no sense:\n${problems.map((problem) => `- ${problem}`).join('\n')}`,
    )
  }

  const settings = result.output
  return {
    port: settings.PORT,
    dataDir: settings.DATA_DIR,
    databaseUrl: settings.DATABASE_URL,
    encryptionKeys: settings.ENCRYPTION_KEY,
    serveDashboard: settings.SERVE_DASHBOARD,
    trustedProxies: settings.TRUSTED_PROXIES,
    addressesAt(port) {
      const appUrl = new URL(settings.APP_URL ?? `http://localhost:${port}`).origin
      return { appUrl, providers: eachProvider((id) => ofProviders[id](appUrl, port)) }
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
    return (appUrl: string, port: number) => providerSettings(id, settings, { appUrl, port })
  })
}

/** Without a client id, the stand-in on this server plays the provider. */
function providerSettings(
  id: ProviderId,
  set: v.InferOutput<typeof providerEnv>,
  { appUrl, port }: { appUrl: string; port: number },
): ProviderSettings {
  const { authorizeUrl, apiUrl, standIn } = registry[id]
  const isStandIn = set.CLIENT_ID === undefined
  // The browser opens the consent page, so it is at the address where people open the dashboard. The
  // server calls the API of its own stand-in directly, not through a proxy.
  const standInPage = `${appUrl}/sandbox/${id}${standIn.authorizePath}`
  const standInApi = `http://127.0.0.1:${port}/sandbox/${id}${standIn.apiPath}`
  return {
    clientId: set.CLIENT_ID ?? `dealbell-stand-in-${id}`,
    clientSecret: set.CLIENT_SECRET ?? `stand-in-${id}-secret`,
    authorizeUrl: set.AUTHORIZE_URL ?? (isStandIn ? standInPage : authorizeUrl),
    apiUrl: withoutSlash(set.API_URL ?? (isStandIn ? standInApi : apiUrl)),
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
