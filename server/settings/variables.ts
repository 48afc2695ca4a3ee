import { isIP } from 'node:net'
import * as v from 'valibot'
import { isLoopback } from '../http/origin.ts'
import { logLevels } from '../log.ts'
import { isPlaceholder } from '../people/vault.ts'
import { databaseUrlProblem, isDatabaseUrl } from './database-url.ts'
import { expandHome } from './text-file.ts'

export type Env = Readonly<Record<string, string | undefined>>

const optionalText = v.pipe(
  v.optional(v.string(), ''),
  v.trim(),
  v.transform((text) => (text === '' ? undefined : text)),
)

const optionalPath = v.pipe(
  optionalText,
  v.transform((text) => text && expandHome(text)),
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
  v.transform((text) => text?.replace(/\/+$/, '')),
)

const flag = (unset: 'true' | 'false') =>
  v.pipe(
    v.optional(v.string(), unset),
    v.trim(),
    v.picklist(['true', 'false'], "must be 'true' or 'false'"),
    v.transform((text) => text === 'true'),
  )

const wholeNumber = (unset: string, least: number, most: number, what = 'whole number') => {
  const problem = `must be a ${what} from ${least} to ${most}`
  return v.pipe(
    v.optional(v.string(), unset),
    v.trim(),
    v.regex(/^\d{1,9}$/, problem),
    v.transform(Number),
    v.minValue(least, problem),
    v.maxValue(most, problem),
  )
}

/** In seconds. The build reads it, too: it writes the header into files for other hosts. */
export const hstsMaxAge = v.pipe(
  optionalText,
  v.check(
    (text) => text === undefined || /^\d{1,9}$/.test(text),
    'must be a whole number of seconds from 0 to 999999999; 0 makes browsers forget it',
  ),
  v.transform((text) => (text === undefined ? undefined : Number(text))),
)

export const variables = v.object({
  HOST: v.pipe(
    optionalText,
    v.check(
      (text) => text === undefined || text === 'localhost' || isIP(text) !== 0,
      'must be an IP address of this machine, or localhost',
    ),
  ),
  PORT: wholeNumber('3000', 0, 65_535, 'port number'),
  APP_URL: v.pipe(
    optionalHttpUrl,
    v.check(
      (text) => text === undefined || !URL.canParse(text) || new URL(text).pathname === '/',
      'must have no path: the dashboard lives at the root of its origin',
    ),
  ),
  API_URL: optionalBaseUrl,
  DATA_DIR: v.pipe(
    optionalPath,
    v.transform((path) => path ?? './data'),
    v.check(
      (path) => !path.startsWith('~'),
      "must not begin with ~ and a name, and with ~/ only if this process's user has a home folder",
    ),
  ),
  DATABASE_URL: v.pipe(
    optionalText,
    v.check(
      (text) => text === undefined || /^(postgres(ql)?:\/\/|socket:)/.test(text),
      'must begin with postgres://, postgresql:// or socket:',
    ),
    v.check(
      (text) => text === undefined || isDatabaseUrl(text),
      'must be a URL such as postgres://user:password@host:5432/name or postgres://user:password@/name?host=/run/postgresql, with special characters of the password as in a URL (@ is %40)',
    ),
    v.rawCheck(({ dataset, addIssue }) => {
      const message = dataset.typed && dataset.value && databaseUrlProblem(dataset.value)
      if (message) addIssue({ message })
    }),
  ),
  // With one connection, a slow statement would keep all others waiting, also those that renew leases.
  DATABASE_POOL_SIZE: wholeNumber('10', 2, 1_000),
  // In seconds. The relay's claims last for 20 seconds, and none of its statements takes that long.
  DATABASE_STATEMENT_TIMEOUT: wholeNumber('20', 5, 600),
  DATABASE_CA_FILE: optionalPath,
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
  MENTION_OWNERS: flag('false'),
  TRUSTED_PROXIES: wholeNumber('0', 0, 99),
  HSTS_MAX_AGE: hstsMaxAge,
  METRICS_TOKEN: v.pipe(
    optionalText,
    v.check(
      (text) => text === undefined || /^[\w.~+/=-]{16,}$/.test(text),
      'must have at least 16 characters, and no space (openssl rand -hex 32)',
    ),
  ),
  LOG_LEVEL: v.pipe(
    v.optional(v.string(), 'info'),
    v.trim(),
    v.picklist(logLevels, "must be 'error', 'warn', 'info' or 'debug'"),
  ),
  STOP_DELAY: wholeNumber('0', 0, 300, 'number of seconds'),
})

/** The settings of one provider, without its name before them. */
export const clientVariables = v.object({ CLIENT_ID: optionalText, CLIENT_SECRET: optionalText })
export const providerVariables = v.object({
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

/** Where the webhook addresses of a chat may be. Undefined if nothing is set. */
export const webhookOrigins = v.pipe(
  optionalText,
  v.transform((text) => text?.split(',').map((origin) => origin.trim())),
  v.check(
    (origins) => origins === undefined || origins.every(isWebhookOrigin),
    'must be an origin such as https://chat.example.com or https://*.example.com, or several with commas between. Only on this machine, it may be http.',
  ),
)

function isWebhookOrigin(text: string): boolean {
  const named = text.replace('://*.', '://any.')
  if (!URL.canParse(named)) return false
  const { origin, protocol, hostname } = new URL(named)
  // Whoever likes has a name below a top-level domain.
  const isNarrow = named === text || /^any(\.[a-z0-9-]+){2,}$/.test(hostname)
  return (
    origin === named &&
    !named.includes('*') &&
    isNarrow &&
    (protocol === 'https:' || (protocol === 'http:' && isLoopback(hostname)))
  )
}

function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false
  const { protocol, username, password, search, hash } = new URL(text)
  return /^https?:$/.test(protocol) && username + password + search + hash === ''
}

function isBase64Key(text: string): boolean {
  return /^[A-Za-z0-9+/]{43}=?$/.test(text) && Buffer.from(text, 'base64').length === 32
}

/** What is wrong with the variables. `prefix` begins their names. */
export function inWords(issues: readonly v.BaseIssue<unknown>[], prefix = ''): string[] {
  return issues.map((issue) => {
    const name = `${prefix}${v.getDotPath(issue)}`
    const value = issue.path?.at(-1)?.value
    // The value may contain a comment of an environment file, so it is shown. An address may contain a password before @.
    const isShown = typeof value === 'string' && /^[^@]+$/.test(value) && !secretName.test(name)
    return `${name} ${issue.message}${isShown ? `; it is '${value}'` : ''}`
  })
}

const secretName = /SECRET|TOKEN|KEY|DATABASE_URL/
