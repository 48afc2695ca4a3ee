import * as v from 'valibot'

/** The client id and secret by which the stand-ins know this app when no real ones are set. */
const standInClient = {
  hubspot: { clientId: 'dealbell-stand-in-hubspot', clientSecret: 'stand-in-hubspot-secret' },
  slack: { clientId: 'dealbell-stand-in-slack', clientSecret: 'stand-in-slack-secret' },
}

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
  HUBSPOT_CLIENT_ID: optionalText,
  HUBSPOT_CLIENT_SECRET: optionalText,
  HUBSPOT_AUTHORIZE_URL: optionalHttpUrl,
  HUBSPOT_API_URL: optionalHttpUrl,
  SLACK_CLIENT_ID: optionalText,
  SLACK_CLIENT_SECRET: optionalText,
  SLACK_AUTHORIZE_URL: optionalHttpUrl,
  SLACK_API_URL: optionalHttpUrl,
})

export interface ProviderSettings {
  clientId: string
  clientSecret: string
  /** Where the browser goes to consent. */
  authorizeUrl: string
  /** Where this server calls; without a slash at its end. */
  apiUrl: string
  /** No client id was set, so the stand-in on this server plays the provider. */
  standIn: boolean
}

export interface Settings {
  port: number
  dataDir: string
  /** PostgreSQL's address; PGlite in `dataDir` when it is not set. */
  databaseUrl: string | undefined
  /** 32 bytes each, the newest first; undefined when a key file in `dataDir` holds the key. */
  encryptionKeys: Buffer[] | undefined
  /** False where another host serves the page: a static host, or Vite during development. */
  serveDashboard: boolean
  /** Addresses follow the port, and port 0 is only known once the server listens. */
  addressesAt(port: number): Addresses
}

export interface Addresses {
  /** The origin at which people open the dashboard; without a slash at its end. */
  appUrl: string
  hubspot: ProviderSettings
  slack: ProviderSettings
}

/**
 * Reads process.env once.
 * @throws Error that lists everything that is wrong.
 */
export function parseEnv(env: Readonly<Record<string, string | undefined>>): Settings {
  const result = v.safeParse(wholeEnv, env)
  const problems = result.success
    ? []
    : result.issues.map((issue) => `${v.getDotPath(issue)} ${issue.message}`)

  for (const provider of ['HUBSPOT', 'SLACK']) {
    const id = env[`${provider}_CLIENT_ID`]?.trim()
    const secret = env[`${provider}_CLIENT_SECRET`]?.trim()
    if (id && !secret) problems.push(`${provider}_CLIENT_SECRET is missing beside its CLIENT_ID`)
    if (secret && !id) problems.push(`${provider}_CLIENT_ID is missing beside its CLIENT_SECRET`)
  }

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
    addressesAt(port) {
      const appUrl = new URL(settings.APP_URL ?? `http://localhost:${port}`).origin
      // The browser opens the consent page, so that one stands where people open the dashboard;
      // the server calls itself without a detour through a proxy.
      const pages = `${appUrl}/sandbox`
      const calls = `http://127.0.0.1:${port}/sandbox`
      const hubspotStandIn = settings.HUBSPOT_CLIENT_ID === undefined
      const slackStandIn = settings.SLACK_CLIENT_ID === undefined
      return {
        appUrl,
        hubspot: {
          clientId: settings.HUBSPOT_CLIENT_ID ?? standInClient.hubspot.clientId,
          clientSecret: settings.HUBSPOT_CLIENT_SECRET ?? standInClient.hubspot.clientSecret,
          authorizeUrl:
            settings.HUBSPOT_AUTHORIZE_URL ??
            (hubspotStandIn
              ? `${pages}/hubspot/oauth/authorize`
              : 'https://app.hubspot.com/oauth/authorize'),
          apiUrl: withoutSlash(
            settings.HUBSPOT_API_URL ??
              (hubspotStandIn ? `${calls}/hubspot` : 'https://api.hubapi.com'),
          ),
          standIn: hubspotStandIn,
        },
        slack: {
          clientId: settings.SLACK_CLIENT_ID ?? standInClient.slack.clientId,
          clientSecret: settings.SLACK_CLIENT_SECRET ?? standInClient.slack.clientSecret,
          authorizeUrl:
            settings.SLACK_AUTHORIZE_URL ??
            (slackStandIn
              ? `${pages}/slack/oauth/v2/authorize`
              : 'https://slack.com/oauth/v2/authorize'),
          apiUrl: withoutSlash(
            settings.SLACK_API_URL ??
              (slackStandIn ? `${calls}/slack/api` : 'https://slack.com/api'),
          ),
          standIn: slackStandIn,
        },
      }
    },
  }
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
