/**
 * The safety headers. The server sends them. The build writes them into files that configure other
 * hosts (docs/hosting.md).
 */

/** What the policy depends on. */
export interface BuiltPage {
  /** The address of the backend; empty if it is the page's own origin. */
  apiUrl: string
  /** The form in the frame of /contact: a path on this origin or an http(s) URL. */
  contactFormUrl: string
  /** Other origins to which the form leads in the frame. */
  contactFormOrigins: readonly string[]
}

// Deny everything. Each policy below then allows what its page needs. Trusted Types prevent
// injected HTML.
const denyAll = {
  'default-src': "'none'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
  'require-trusted-types-for': "'script'",
  'trusted-types': "'none'",
} as const

/**
 * The Content-Security-Policy of answers that are no page, such as answers of the API and errors.
 */
export const answerPolicy = serialize(denyAll)

/** The Content-Security-Policy of every file of the dashboard. */
export function pagePolicy(page: BuiltPage): string {
  const { apiUrl } = page
  return serialize({
    ...denyAll,
    'script-src': "'self'",
    'style-src': "'self'",
    'img-src': "'self'",
    'connect-src': apiUrl === '' ? "'self'" : `'self' ${new URL(apiUrl).origin}`,
    'frame-src': frameSources(page).join(' '),
  })
}

/** Where the frame of the contact form may go, as sources of a policy. A browser checks each redirect. */
function frameSources({ contactFormUrl, contactFormOrigins }: BuiltPage): string[] {
  const own = contactFormUrl.startsWith('/') ? "'self'" : new URL(contactFormUrl).origin
  return [...new Set([own, ...contactFormOrigins])]
}

/** Returns `answerPolicy` with these directives added or replaced. */
export function policyWith(directives: Readonly<Record<string, string>>): string {
  return serialize({ ...denyAll, ...directives })
}

// Every feature that Chromium knows. Neither the page nor the frame of the contact form uses one.
// An unknown name would cause a warning in the console.
const permissions = [
  'accelerometer',
  'autoplay',
  'browsing-topics',
  'camera',
  'clipboard-read',
  'clipboard-write',
  'compute-pressure',
  'display-capture',
  'encrypted-media',
  'fullscreen',
  'gamepad',
  'geolocation',
  'gyroscope',
  'hid',
  'identity-credentials-get',
  'idle-detection',
  'keyboard-map',
  'local-fonts',
  'magnetometer',
  'microphone',
  'midi',
  'otp-credentials',
  'payment',
  'picture-in-picture',
  'publickey-credentials-create',
  'publickey-credentials-get',
  'screen-wake-lock',
  'serial',
  'storage-access',
  'sync-xhr',
  'usb',
  'window-management',
  'xr-spatial-tracking',
]

/**
 * The Cache-Control of the page. A shared cache would keep an old page after a release, since some take
 * `no-cache` only for a hint. A proxy must not rewrite it (RFC 9111 §5.2.2.6). `no-store` would disable the back-forward
 * cache.
 */
export const pageCaching = 'private, no-cache, no-transform'

/** The headers of every answer, besides its Content-Security-Policy. */
export const everyAnswer = {
  'X-Content-Type-Options': 'nosniff',
  // The address of a callback contains an authorization code.
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': permissions.map((permission) => `${permission}=()`).join(', '),
} as const

/**
 * Strict-Transport-Security. A browser keeps it for the host with all its ports, on which other programs may speak http.
 * So it never includes subdomains. Send it only over https (RFC 6797 §7.2).
 * @param maxAgeS seconds, by default a year; 0 makes a browser forget it.
 */
export const strictTransportSecurity = (maxAgeS = 31_536_000) => `max-age=${maxAgeS}`

function serialize(policy: Readonly<Record<string, string>>): string {
  return Object.entries(policy)
    .map(([directive, sources]) => `${directive} ${sources}`)
    .join('; ')
}
