import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { answerPolicy, everyAnswer, pagePolicy } from '../../contract/page-headers.ts'
import { hstsOf, safetyHeaders, standInPolicy } from '../../server/http/safety-headers.ts'

// To the letter, and without a server or a database: each line here is one that a browser obeys.
const nothing = [
  "default-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
]
const ours = ["script-src 'self'", "style-src 'self'", "img-src 'self'"]

const lines = (policy: string) => policy.split('; ').toSorted()

test('the policy of what is no page allows nothing', () => {
  expect(lines(answerPolicy)).toEqual(nothing.toSorted())
})

test.each<[string, string, string[], ...string[]]>([
  ['', '/sandbox/contact-form', [], "connect-src 'self'", "frame-src 'self'"],
  [
    'https://api.example.com/dealbell',
    'https://forms.example.com/f/1?x=2',
    [],
    "connect-src 'self' https://api.example.com",
    'frame-src https://forms.example.com',
  ],
  // A short address leads to a form, and the form to a page of thanks. A browser checks each step.
  [
    '',
    'https://forms.gle/a',
    ['https://docs.example.com', 'https://forms.gle', 'https://thanks.example.com:8443'],
    "connect-src 'self'",
    'frame-src https://forms.gle https://docs.example.com https://thanks.example.com:8443',
  ],
])(
  'the policy of a page allows its backend and where its form leads, and no more: %j %s %j',
  (apiUrl, contactFormUrl, contactFormOrigins, ...more) => {
    expect(lines(pagePolicy({ apiUrl, contactFormUrl, contactFormOrigins }))).toEqual(
      [...nothing, ...ours, ...more].toSorted(),
    )
  },
)

test.each([
  // The page that frames the form may be on another origin than the form.
  [{ inFrame: true }, "'self' http://localhost:3000", []],
  [{ inFrame: false }, "'none'", []],
  [{ inFrame: false, withScript: true }, "'none'", ["connect-src 'self'", "script-src 'self'"]],
])(
  'the policy of a stand-in’s page leads back to the dashboard, and allows a script only where there is one: %j',
  (page, ancestors, more) => {
    const kept = nothing.filter((line) => !/^(form-action|frame-ancestors)/.test(line))
    const changed = [
      "style-src 'self' http://localhost:3000",
      "img-src 'self'",
      "form-action 'self' http://localhost:3000",
      `frame-ancestors ${ancestors}`,
    ]
    const policy = standInPolicy('http://localhost:3000', page)
    expect(lines(policy)).toEqual([...kept, ...changed, ...more].toSorted())
  },
)

test('no power of the browser is given away, each by its name', () => {
  const denied = everyAnswer['Permissions-Policy'].split(', ')
  expect(denied.length).toBeGreaterThan(30)
  for (const power of denied) expect(power).toMatch(/^[a-z]+(-[a-z]+)*=\(\)$/)
  expect(new Set(denied).size).toBe(denied.length)
  expect(denied).toEqual(
    expect.arrayContaining(['camera=()', 'microphone=()', 'geolocation=()', 'payment=()']),
  )
})

const always = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': everyAnswer['Permissions-Policy'],
}
const ofAnswer = { ...always, 'content-security-policy': answerPolicy, 'cache-control': 'no-store' }
const hsts = 'max-age=31536000'

async function headersOf(hsts: string | undefined, own: Record<string, string> = {}) {
  const app = new Hono().use(safetyHeaders(hsts)).get('/', (c) => c.body(null, 200, own))
  return Object.fromEntries((await app.request('/')).headers)
}

test('an answer carries them all, and is kept nowhere', async () => {
  expect(await headersOf(undefined)).toEqual(ofAnswer)
  expect(await headersOf(hsts)).toEqual({ ...ofAnswer, 'strict-transport-security': hsts })
})

test('an answer may bring its own policy and its own time to be kept, and nothing else', async () => {
  const own = { 'content-security-policy': "default-src 'self'", 'cache-control': 'no-cache' }
  const answer = await headersOf(undefined, { ...own, 'referrer-policy': 'unsafe-url' })
  expect(answer).toEqual({ ...always, ...own })
})

// A browser keeps it for all ports of the host. nzbhydra2 #380, codimd PR 1433: other programs there were unreachable.
const app = 'https://bell.example.com'
test.each<[string, string, number | undefined, string | undefined]>([
  [app, app, undefined, hsts],
  [app, 'https://api.example.com/bell:1/', undefined, hsts],
  // Only its own machine opens this one.
  [app, 'http://localhost:3000', undefined, hsts],
  ['http://bell.example.com', app, undefined, undefined],
  [`${app}:8443`, `${app}:8443`, undefined, undefined],
  // This server answers at both.
  [app, 'https://api.example.com:8443/bell', undefined, undefined],
  [app, 'https://[2001:db8::1]:8443', undefined, undefined],
  [app, app, 300, 'max-age=300'],
  // Takes back what browsers have kept of an address.
  [app, app, 0, 'max-age=0'],
  [`${app}:8443`, `${app}:8443`, 0, 'max-age=0'],
  ['http://bell.example.com', app, 300, undefined],
])('at %s and %s, set to %j, Strict-Transport-Security is %j', (appUrl, apiUrl, set, sent) => {
  expect(hstsOf({ appUrl, apiUrl, hstsMaxAge: set })).toBe(sent)
})
