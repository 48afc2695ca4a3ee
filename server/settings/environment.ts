import http from 'node:http'
import tls from 'node:tls'
import { isLoopback } from '../http/origin.ts'
import { loadEnvFile } from './env-file.ts'
import { localHost } from './settings.ts'
import { expandHome, readCertificates } from './text-file.ts'

type Env = Readonly<Record<string, string | undefined>>

interface Outside {
  /** The addresses of the proxies, with their passwords. */
  proxies: Partial<Record<'HTTPS_PROXY' | 'HTTP_PROXY', string>>
  /** The hosts that are called without a proxy, as in NO_PROXY. */
  direct: string
  /** A file with further authorities. */
  authorities: string | undefined
}

/**
 * What every program does first: it reads `.env`, and lets its calls use the proxy and the authorities of the settings.
 * Node itself reads them only from the environment, when a process starts.
 */
export function loadEnvironment(): void {
  loadEnvFile()
  callThrough(readOutside(process.env))
}

/** @throws Error that names a wrong setting, and no password. */
export function readOutside(env: Env): Outside {
  const both = (name: string) => env[name.toLowerCase()]?.trim() || env[name]?.trim()
  const proxies: Outside['proxies'] = {}
  for (const name of ['HTTPS_PROXY', 'HTTP_PROXY'] as const) {
    const text = both(name)
    if (text) proxies[name] = proxyUrl(name, text)
  }
  // undici compares whole hosts, so each address of this machine must be in the list. It takes * only alone.
  const named = [...Object.values(env), ...process.argv]
    .map((text) => URL.parse(text ?? '')?.hostname ?? '')
    .filter(isLoopback)
  const local = ['localhost', '127.0.0.1', '[::1]', localHost(env.HOST?.trim() || undefined)]
  // In a URL, an IPv6 address has brackets.
  const given = (both('NO_PROXY')?.split(/[\s,]+/) ?? []).map(localHost)
  const authorities = env.NODE_EXTRA_CA_CERTS?.trim() || undefined
  return {
    proxies,
    direct: given.includes('*') ? '*' : [...new Set([...given, ...local, ...named])].join(),
    authorities: authorities && expandHome(authorities),
  }
}

/** Also without http://, as other programs accept it. */
function proxyUrl(name: string, text: string): string {
  const url = URL.parse(/^\w+:\/\//.test(text) ? text : `http://${text}`)
  // A backslash, as in DOMAIN\user, would begin the path.
  const isProxy = /^https?:$/.test(url?.protocol ?? '') && url?.pathname === '/'
  try {
    if (isProxy && decodeURIComponent(url.username + url.password) !== undefined) return url.href
  } catch {
    // A % is no part of an encoded character.
  }
  throw new Error(
    `${name} must be the address of a proxy, such as http://user:password@proxy.example:3128, with special characters as in a URL (@ is %40, \\ is %5C).`,
  )
}

/** Lets `fetch` and node:https use them. @returns a function that undoes the use of the proxies */
export function callThrough({ proxies, direct, authorities }: Outside): () => void {
  if (authorities !== undefined) {
    try {
      const more = readCertificates(authorities)
      tls.setDefaultCACertificates([...tls.getCACertificates(), more])
    } catch (error) {
      throw new Error(`NODE_EXTRA_CA_CERTS is ${authorities}, but ${Object(error).message}.`)
    }
  }
  const { HTTPS_PROXY, HTTP_PROXY } = proxies
  if (HTTPS_PROXY === undefined && HTTP_PROXY === undefined) return () => {}
  if (typeof http.setGlobalProxyFromEnv !== 'function') {
    throw new Error(`A proxy needs Node 24.14 or later, but this is ${process.version}.`)
  }
  return http.setGlobalProxyFromEnv({
    https_proxy: HTTPS_PROXY,
    http_proxy: HTTP_PROXY,
    no_proxy: direct,
  })
}
