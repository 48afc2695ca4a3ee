import { contactPath } from './contact-path.ts'

/**
 * The headers that keep the page safe, written once: the server sends them, and the build writes
 * them down for any other host (docs/hosting.md).
 */

/** What of the settings the policy must know. */
export interface PageOrigins {
  /** The backend's address; empty for the page's own origin. */
  apiUrl: string
  /** The form in the frame of /contact: a path on this origin or an http(s) URL. */
  contactFormUrl: string
}

// What no page of ours needs is forbidden; Trusted Types close the door to injected HTML.
const nothing = {
  'default-src': "'none'",
  'base-uri': "'none'",
  'form-action': "'none'",
  'frame-ancestors': "'none'",
  'require-trusted-types-for': "'script'",
  'trusted-types': "'none'",
} as const

/** The Content-Security-Policy of what is no page: answers of the API and errors. */
export const answerPolicy = written(nothing)

/** The Content-Security-Policy of the dashboard's files, for the address at which one is asked for. */
export function pagePolicy({ apiUrl, contactFormUrl }: PageOrigins, path: string): string {
  return written({
    ...nothing,
    'script-src': "'self'",
    'style-src': "'self'",
    'img-src': "'self'",
    'connect-src': apiUrl === '' ? "'self'" : `'self' ${new URL(apiUrl).origin}`,
    ...(contactPath.test(path) && {
      'frame-src': contactFormUrl.startsWith('/') ? "'self'" : new URL(contactFormUrl).origin,
    }),
  })
}

/** The Content-Security-Policy of a page that differs from an answer's in these directives. */
export function policyWith(directives: Readonly<Record<string, string>>): string {
  return written({ ...nothing, ...directives })
}

// Every power that Chromium lets a page give away: neither the page nor the form's frame has a use
// for one. Names that a browser does not know would each be a line in its console.
const powers = [
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

/** What every answer carries beside its Content-Security-Policy, whatever it is. */
export const everyAnswer = {
  'X-Content-Type-Options': 'nosniff',
  // The address of a callback holds a code.
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Permissions-Policy': powers.map((power) => `${power}=()`).join(', '),
} as const

/** Two years, on https alone: over http it means nothing (RFC 6797 §7.2). */
export const strictTransportSecurity = 'max-age=63072000; includeSubDomains'

function written(policy: Readonly<Record<string, string>>): string {
  return Object.entries(policy)
    .map(([directive, sources]) => `${directive} ${sources}`)
    .join('; ')
}
