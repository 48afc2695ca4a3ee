/**
 * The score of Mozilla's HTTP Observatory. A site starts with 100 points. Each rule subtracts or adds
 * points; additions count only if at least 90 points remain without them. The rules are those of September
 * 2026 (https://developer.mozilla.org/en-US/observatory/docs/tests_and_scoring).
 */

interface Site {
  /** The headers of the page over https. */
  headers: Headers
  html: string
  /** What happens over http. */
  http: 'redirects to https' | 'is served' | 'is not there'
  /** The headers of the answer to a preflight from another site. */
  preflight: Headers
}

export function observatory(site: Site) {
  const csp = parsePolicy(site.headers.get('Content-Security-Policy'))
  const points: Record<string, number> = {
    'Content-Security-Policy': contentSecurityPolicy(csp),
    Cookies: Math.min(...site.headers.getSetCookie().map((cookie) => cookieRule(cookie, site)), 5),
    CORS: sharing(site.preflight),
    Redirection: site.http === 'is served' ? -20 : 0,
    'Referrer-Policy': referrer(site.headers.get('Referrer-Policy')),
    'Strict-Transport-Security': transport(site.headers.get('Strict-Transport-Security')),
    'Subresource Integrity': integrity(site.html),
    'X-Content-Type-Options': site.headers.get('X-Content-Type-Options') === 'nosniff' ? 0 : -5,
    'X-Frame-Options': framing(csp, site.headers.get('X-Frame-Options')),
    'Cross-Origin-Resource-Policy': oneOf(site.headers.get('Cross-Origin-Resource-Policy'), {
      'same-origin': 10,
      'same-site': 10,
      'cross-origin': 0,
    }),
    'Cross-Origin-Opener-Policy': oneOf(site.headers.get('Cross-Origin-Opener-Policy'), {
      'same-origin': 10,
      'same-origin-allow-popups': 10,
      'noopener-allow-popups': 10,
      'unsafe-none': 0,
    }),
    'Cross-Origin-Embedder-Policy': oneOf(site.headers.get('Cross-Origin-Embedder-Policy'), {
      'require-corp': 10,
      credentialless: 10,
      'unsafe-none': 0,
    }),
  }
  // Without a cookie there are no points.
  if (site.headers.getSetCookie().length === 0) points.Cookies = 0

  const sum = (numbers: number[]) => numbers.reduce((total, number) => total + number, 100)
  const withoutExtra = sum(Object.values(points).filter((number) => number < 0))
  const score = Math.max(0, withoutExtra >= 90 ? sum(Object.values(points)) : withoutExtra)
  return { score, grade: gradeOf(score), points }
}

function gradeOf(score: number): string {
  const grades: [number, string][] = [
    [100, 'A+'],
    [90, 'A'],
    [85, 'A-'],
    [80, 'B+'],
    [70, 'B'],
    [65, 'B-'],
    [60, 'C+'],
    [50, 'C'],
    [45, 'C-'],
    [40, 'D+'],
    [30, 'D'],
    [25, 'D-'],
  ]
  return grades.find(([least]) => score >= least)?.[1] ?? 'F'
}

type Policy = ReadonlyMap<string, readonly string[]> | 'missing' | 'invalid'

function parsePolicy(text: string | null): Policy {
  if (text === null) return 'missing'
  const policy = new Map<string, string[]>()
  for (const directive of text.split(';')) {
    const [name = '', ...sources] = directive.trim().toLowerCase().split(/\s+/)
    if (name === '') continue
    if (policy.has(name)) return 'invalid'
    policy.set(name, sources.length === 0 && name.endsWith('-src') ? ["'none'"] : sources)
  }
  return policy
}

const broad = ['ftp:', 'http:', 'https:', '*', 'http://*', 'http://*.*', 'https://*', 'https://*.*']
const unsafe = [...broad, "'unsafe-inline'", 'data:']

function contentSecurityPolicy(policy: Policy): number {
  if (policy === 'missing' || policy === 'invalid') return -25
  const of = (name: string) => policy.get(name) ?? policy.get('default-src') ?? ['*']
  const insecure = (sources: readonly string[]) => sources.some((one) => /^(http|ftp):/.test(one))
  const passive = ['img-src', 'media-src']
  const active = [...policy].filter(([name]) => !passive.includes(name)).flatMap(([, all]) => all)

  if (of('script-src').some((one) => unsafe.includes(one))) return -20
  if (of('object-src').some((one) => broad.includes(one))) return -20
  if (insecure(active)) return -20
  if ([...of('script-src'), ...of('style-src')].includes("'unsafe-eval'")) return -10
  if (passive.some((name) => insecure(of(name)))) return -10
  if (of('style-src').some((one) => unsafe.includes(one))) return 0
  // As it is described; the scanner itself (1.4.8) gives the ten for default-src alone.
  const isFormHeld = ["'none'", "'self'"].includes(policy.get('form-action')?.join() ?? '')
  return policy.get('default-src')?.join() === "'none'" && isFormHeld ? 10 : 5
}

function cookieRule(cookie: string, site: Site): number {
  const [pair = '', ...attributes] = cookie.split(';').map((part) => part.trim())
  const has = (name: string) =>
    attributes.some((one) => one.toLowerCase().split('=')[0] === name.toLowerCase())
  const isSession = /login|sess/i.test(pair.split('=')[0] ?? '')
  const hasHsts = site.headers.has('Strict-Transport-Security')
  if (isSession && !has('Secure')) return hasHsts ? -10 : -40
  if (isSession && !has('HttpOnly')) return -30
  if (!has('Secure')) return hasHsts ? -5 : -20
  return has('SameSite') ? 5 : 0
}

function sharing(preflight: Headers): number {
  const origin = preflight.get('Access-Control-Allow-Origin')
  const isReflected = origin !== null && origin !== '*'
  return isReflected && preflight.get('Access-Control-Allow-Credentials') === 'true' ? -50 : 0
}

function referrer(text: string | null): number {
  if (text === null) return 0
  const good = ['no-referrer', 'same-origin', 'strict-origin', 'strict-origin-when-cross-origin']
  return good.includes(text.split(',').at(-1)?.trim().toLowerCase() ?? '') ? 5 : -5
}

function transport(text: string | null): number {
  const seconds = /(?:^|;)\s*max-age=(\d+)/i.exec(text ?? '')?.[1]
  if (seconds === undefined || text?.includes(',')) return -20
  return Number(seconds) >= 15_552_000 ? 0 : -10
}

function integrity(html: string): number {
  const scripts = [...html.matchAll(/<script\b([^>]*)>/g)].map(([, attributes = '']) => ({
    src: /\ssrc="([^"]*)"/.exec(attributes)?.[1],
    hasIntegrity: /\sintegrity="/.test(attributes),
  }))
  const named = scripts.filter(({ src }) => src !== undefined)
  const foreign = named.filter(({ src }) => /^(https?:)?\/\//.test(src ?? ''))
  if (foreign.some(({ src }) => !src?.startsWith('https:'))) return -20
  if (foreign.some(({ hasIntegrity }) => !hasIntegrity)) return -5
  return named.length > 0 && named.every(({ hasIntegrity }) => hasIntegrity) ? 5 : 0
}

function framing(policy: Policy, header: string | null): number {
  if (typeof policy !== 'string' && policy.has('frame-ancestors')) return 5
  return ['deny', 'sameorigin'].includes(header?.toLowerCase() ?? '') ? 0 : -20
}

function oneOf(text: string | null, known: Readonly<Record<string, number>>): number {
  return text === null ? 0 : (known[text] ?? -5)
}
