import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { answerPolicy, everyAnswer, pagePolicy } from '../../contract/page-headers.ts'
import { standInPolicy } from '../../server/http/safety-headers.ts'
import { newFolder } from '../database.ts'
import { appUrl, refusal, shareHarness } from './harness.ts'

const folder = await newFolder()
const harness = await shareHarness()
const page = `<!doctype html>${'<p>Dealbell</p>'.repeat(200)}`
const script = 'console.log("again"); '.repeat(200)
const scriptPath = '/assets/main-abc.js'

const dist = join(folder, 'dist')
await mkdir(join(dist, 'assets'), { recursive: true })
for (const [path, text] of Object.entries({ 'index.html': page, [scriptPath]: script })) {
  await writeFile(join(dist, path), text)
  await writeFile(join(dist, `${path}.br`), brotliCompressSync(text))
  await writeFile(join(dist, `${path}.gz`), gzipSync(text))
}
await writeFile(join(dist, 'favicon.svg'), '<svg/>')
for (const internal of ['.build.json', '_headers', 'nginx-headers.conf']) {
  await writeFile(join(dist, internal), 'hidden')
}
await writeFile(join(folder, 'outside.txt'), 'OUTSIDE')
const contactFormUrl = 'https://forms.example.com/f/1?x=2'
const policy = pagePolicy({ apiUrl: '', contactFormUrl, contactFormOrigins: [] })
const dashboard = { folder: dist, policy }
const app = harness.appWith({ dashboard })
const secureApp = harness.appWith({ dashboard, appUrl: 'https://dealbell.example' })

async function get(path: string, accepted?: string, more: Record<string, string> = {}) {
  const answer = await app.request(path, {
    headers: { ...more, ...(accepted !== undefined && { 'Accept-Encoding': accepted }) },
  })
  const { status, headers } = answer
  const header = (name: string) => headers.get(name)
  const body = Buffer.from(await answer.arrayBuffer())
  const coding = header('Content-Encoding')
  const text =
    coding === 'br' ? brotliDecompressSync(body) : coding === 'gzip' ? gunzipSync(body) : body
  return { status, headers, header, coding, length: body.length, text: String(text) }
}

describe('the page', () => {
  test.each(['/', '/hubspot/callback?code=1&state=2', '/no/such/page', '/connect/monday.com'])(
    'answers at %s, compressed; no cache that others share keeps it, and no proxy rewrites it',
    async (path) => {
      const { status, header, coding, text } = await get(path, 'br')
      expect([status, coding, text]).toEqual([200, 'br', page])
      expect(header('Content-Type')).toBe('text/html; charset=utf-8')
      expect(header('Cache-Control')).toBe('private, no-cache, no-transform')
      expect(header('Set-Cookie')).toBeNull()
    },
  )

  test.each([
    ...['/api/x', '/health/x', '/relay', '/sandbox/x', '/webhooks/x'],
    // An older build may have had this file.
    '/assets/main-old.js',
    `${scriptPath}.br`,
    // What programs look for would get a page of HTML.
    ...['/favicon.ico', '/index.html.gz', '/.well-known/security.txt', '/.git/config', '/a/b.php'],
  ])('is not the answer to a path of the backend or of a file: %s', async (path) => {
    expect(await refusal(await app.request(path))).toBe('404 not_found')
  })
})

describe('a file', () => {
  test.each([
    ['gzip, deflate, br, zstd', 'br'],
    ['gzip, deflate', 'gzip'],
    ['br;q=0, gzip', 'gzip'],
    [undefined, null],
  ])('has for Accept-Encoding %j the coding %j, for ever', async (accepted, coding) => {
    const got = await get(scriptPath, accepted)
    expect([got.status, got.coding, got.text]).toEqual([200, coding, script])
    expect(got.header('Content-Length')).toBe(String(got.length))
    expect(got.header('Content-Type')).toBe('text/javascript; charset=utf-8')
    // Its name contains a hash.
    expect(got.header('Cache-Control')).toBe('public, max-age=31536000, immutable')
    // Without Vary, a cache would serve one client's coding to another.
    expect(got.header('Vary')).toBe('Accept-Encoding')
  })

  test('has another ETag for each coding, and a client that knows it gets 304 with all safety headers', async () => {
    const tags = new Set<string>()
    for (const accepted of ['br', 'gzip', '']) {
      const etag = (await get('/contact', accepted)).header('ETag') ?? ''
      expect(etag).toMatch(/^"[\w-]+"$/)
      tags.add(etag)
      const answer = await get('/contact', accepted, { 'If-None-Match': `"other", W/${etag}` })
      expect([answer.status, answer.text, answer.header('ETag')]).toEqual([304, '', etag])
      expect(answer.header('Vary')).toBe('Accept-Encoding')
      expectSafe(answer.headers, policy)
    }
    expect(tags.size).toBe(3)
  })

  test.each([
    '/../outside.txt',
    '/%2e%2e%2foutside.txt',
    '/assets/..%5c..%5coutside.txt',
    '//etc/passwd',
    '/outside.txt%00.js',
    '/%2ebuild.json',
    '/_headers',
    '/nginx-headers.conf',
  ])('that is internal or outside the build is not sent: %s', async (path) => {
    const text = await (await app.request(`http://localhost:3000${path}`)).text()
    expect(text).not.toMatch(/OUTSIDE|hidden|root:/)
  })
})

// Which answer has which headers. security-headers.test.ts says what stands in them.

function expectSafe(headers: Headers, policy: string, hasForm = false) {
  const { 'content-security-policy': own, ...rest } = Object.fromEntries(headers)
  expect(own).toBe(policy)
  // With `no-referrer`, browsers would not say where a form is from.
  const all = { ...everyAnswer, ...(hasForm && { 'Referrer-Policy': 'same-origin' }) }
  for (const [name, value] of Object.entries(all)) {
    expect(rest[name.toLowerCase()], name).toBe(value)
  }
  expect(headers.get('Cache-Control')).not.toBeNull()
}

const json = { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' }
const save = (body: string, headers: Record<string, string> = json) => ({
  method: 'POST',
  headers,
  body,
})
const scriptPolicy = standInPolicy(appUrl, { inFrame: false, withScript: true })
const preflight = {
  method: 'OPTIONS',
  headers: { Origin: appUrl, 'Access-Control-Request-Method': 'POST' },
}

test.each<[number, string, string, RequestInit?]>([
  [200, '/', policy],
  [405, '/', answerPolicy, { method: 'POST' }],
  [302, 'http://127.0.0.1:3000/contact', answerPolicy],
  [200, '/favicon.svg', policy],
  [200, scriptPath, policy],
  [200, '/api/hubspot/status', answerPolicy],
  [302, '/api/hubspot/auth', answerPolicy],
  [400, '/api/hubspot/callback?code=1', answerPolicy],
  [403, '/api/notifications/rules', answerPolicy, save('{}', { Origin: 'https://evil.example' })],
  [413, '/api/notifications/rules', answerPolicy, save(`"${'x'.repeat(65 * 1024)}"`)],
  [204, '/api/notifications/rules', answerPolicy, preflight],
  [404, '/api/nonsense', answerPolicy],
  [200, '/sandbox/hubspot/deals', scriptPolicy],
  [200, '/sandbox/contact-form', standInPolicy(appUrl, { inFrame: true })],
])('%i %s has all safety headers, on https also its own', async (status, path, expected, init) => {
  const answer = await app.request(path, init)
  expect(answer.status).toBe(status)
  expectSafe(answer.headers, expected, path.startsWith('/sandbox/hubspot'))
  expect(answer.headers.get('Strict-Transport-Security')).toBeNull()
  const { headers } = await secureApp.request(path, init)
  expect(headers.get('Strict-Transport-Security')).toBe('max-age=31536000')
})

test('500 has all safety headers', async () => {
  const database = harness.failingDatabase('The database is gone.')
  const answer = await harness.appWith({ database }).request('/health')
  expect(answer.status).toBe(500)
  expectSafe(answer.headers, answerPolicy)
})
