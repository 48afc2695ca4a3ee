import { isIP } from 'node:net'
import * as v from 'valibot'
import type { AllSettings } from '../providers/calls.ts'
import { oauthIds, settingOf } from '../providers/registry.ts'
import { withCertificate } from './database-url.ts'
import { isForThisMachine, parseProviders } from './providers.ts'
import { expandHome, readCertificates, readText } from './text-file.ts'
import { type Env, inWords, variables } from './variables.ts'

export interface Addresses {
  /** The origin at which people open the dashboard, without a trailing slash. */
  appUrl: string
  /** The address at which providers call the server, and browsers open its stand-ins, without a trailing slash. */
  apiUrl: string
  providers: AllSettings
}

export type Settings = ReturnType<typeof parseEnv>

/**
 * Checks the variables, reads the files that they name, and returns the settings.
 * @throws Error that lists everything that is wrong.
 */
export function parseEnv(given: Env) {
  const problems: string[] = []
  const env = withSecretFiles(given, problems)
  const result = v.safeParse(variables, env)
  if (!result.success) problems.push(...inWords(result.issues))
  const ofProviders = parseProviders(env, problems)

  if (!result.success || problems.length > 0) {
    throw new Error(
      `These settings are wrong:\n${problems.map((problem) => `- ${problem}`).join('\n')}`,
    )
  }

  const settings = result.output
  const localOriginAt = (port: number) => `http://${localHost(settings.HOST)}:${port}`
  return {
    port: settings.PORT,
    /** The addresses that the server listens on; undefined is all addresses of this machine. */
    hosts: settings.HOST
      ? [settings.HOST]
      : isForThisMachine(env)
        ? loopback
        : ([undefined] as const),
    dataDir: settings.DATA_DIR,
    /** PostgreSQL's address; if undefined, PGlite in `dataDir` is used. */
    databaseUrl:
      settings.DATABASE_URL && settings.DATABASE_CA_FILE
        ? withCertificate(settings.DATABASE_URL, settings.DATABASE_CA_FILE)
        : settings.DATABASE_URL,
    databasePoolSize: settings.DATABASE_POOL_SIZE,
    databaseStatementMs: settings.DATABASE_STATEMENT_TIMEOUT * 1_000,
    /** 32 bytes each, the newest first; if undefined, a file in `dataDir` holds the key. */
    encryptionKeys: settings.ENCRYPTION_KEY,
    /** False if another host serves the page: a static host, or Vite during development. */
    serveDashboard: settings.SERVE_DASHBOARD,
    trustedProxies: settings.TRUSTED_PROXIES,
    metricsToken: settings.METRICS_TOKEN,
    /** Seconds; undefined if the addresses decide (server/http/safety-headers.ts). */
    hstsMaxAge: settings.HSTS_MAX_AGE,
    logLevel: settings.LOG_LEVEL,
    /** How long GET /ready says 503 before the server stops, after SIGTERM. */
    stopDelayMs: settings.STOP_DELAY * 1000,
    /** The origin at which this machine itself reaches the server. */
    localOriginAt,
    /** Addresses contain the port. With port 0 it is known only when the server listens. */
    addressesAt(port: number): Addresses {
      const appUrl = new URL(settings.APP_URL ?? `http://localhost:${port}`).origin
      const apiUrl = settings.API_URL ?? appUrl
      const local = localOriginAt(port)
      return {
        appUrl,
        apiUrl,
        providers: ofProviders({ apiUrl, local, mentionOwners: settings.MENTION_OWNERS }),
      }
    },
  }
}

/** Some clients take one of these for localhost, and some the other. */
export const loopback = ['127.0.0.1', '::1'] as const

/** Each of these may stand in a file that NAME_FILE names: a credential of systemd, a secret of Docker. */
const secrets = [
  'ENCRYPTION_KEY',
  'DATABASE_URL',
  'METRICS_TOKEN',
  ...oauthIds.map((id) => settingOf(id, 'CLIENT_SECRET')),
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

/** The name of this server in a URL that only this machine uses. */
export function localHost(host: string | undefined): string {
  if (host === undefined || host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return isIP(host) === 6 ? `[${host}]` : host
}
