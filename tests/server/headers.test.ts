import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { answerPolicy, everyAnswer, pagePolicy } from '../../contract/page-headers.ts'
import { standInPolicy } from '../../server/http/safety-headers.ts'
import { readDashboard } from '../../server/page/serve.ts'
import { appUrl, type Harness, openHarness } from './harness.ts'

// Which answer has which headers. security-headers.test.ts says what stands in them.

let folder: string
let harness: Harness
/** The apps over http, over https, and without a database. */
let apps: Record<'http' | 'https' | 'broken', Harness['app']>
const origins = { apiUrl: '', contactFormUrl: 'https://forms.example.com/f/1?x=2' }

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-headers-'))
  await mkdir(join(folder, 'assets'))
  await writeFile(join(folder, 'index.html'), '<!doctype html><title>Dealbell</title>')
  await writeFile(join(folder, 'assets/main-abc.js'), 'console.log(1)')
  await writeFile(join(folder, 'favicon.svg'), '<svg/>')
  harness = await openHarness()
  const dashboard = await readDashboard(folder, (path) => pagePolicy(origins, path))
  const database = harness.failingDatabase('The database is gone.')
  apps = {
    http: harness.appWith({ dashboard }),
    https: harness.appWith({ dashboard, appUrl: 'https://dealbell.example' }),
    broken: harness.appWith({ dashboard, database }),
  }
})
afterAll(async () => {
  await harness.close()
  await rm(folder, { recursive: true })
})

function expectSafe(headers: Headers, policy: string) {
  const { 'content-security-policy': own, ...rest } = Object.fromEntries(headers)
  expect(own).toBe(policy)
  for (const [name, value] of Object.entries(everyAnswer)) {
    expect(rest[name.toLowerCase()], name).toBe(value)
  }
  expect(headers.get('Cache-Control')).not.toBeNull()
}

const page = pagePolicy(origins, '/')
const contact = pagePolicy(origins, '/contact')
const json = { 'Content-Type': 'application/json', 'Sec-Fetch-Site': 'same-origin' }
const save = (body: string, headers: Record<string, string> = json) => ({
  method: 'POST',
  headers,
  body,
})
const preflight = {
  method: 'OPTIONS',
  headers: { Origin: appUrl, 'Access-Control-Request-Method': 'POST' },
}

test.each<[number, string, string, RequestInit?]>([
  [200, '/', page],
  [200, '/', page, { method: 'HEAD' }],
  [200, '/contact', contact],
  [200, '/Contact/?from=footer', contact],
  [200, '/no/such/page', page],
  [200, '/hubspot/callback?next=/contact', page],
  [200, 'http://localhost:3000//contact', page],
  [405, '/', answerPolicy, { method: 'POST' }],
  [302, 'http://127.0.0.1:3000/contact', answerPolicy],
  [200, '/favicon.svg', page],
  [200, '/assets/main-abc.js', page],
  [404, '/assets/main-old.js', answerPolicy],
  [200, '/health', answerPolicy],
  [405, '/health', answerPolicy, { method: 'POST' }],
  [200, '/api/hubspot/status', answerPolicy],
  [302, '/api/hubspot/auth', answerPolicy],
  [400, '/api/hubspot/callback?code=1', answerPolicy],
  [400, '/api/notifications/rules', answerPolicy, save('{')],
  [403, '/api/notifications/rules', answerPolicy, save('{}', { Origin: 'https://evil.example' })],
  [413, '/api/notifications/rules', answerPolicy, save(`"${'x'.repeat(65 * 1024)}"`)],
  [204, '/api/notifications/rules', answerPolicy, preflight],
  [404, '/api/nonsense', answerPolicy],
  [405, '/api/hubspot/status', answerPolicy, { method: 'DELETE', headers: json }],
  [404, '/webhooks/nonsense', answerPolicy],
  [404, '/sandbox/nonsense', answerPolicy],
  [200, '/sandbox/hubspot/deals', standInPolicy(appUrl, { inFrame: false })],
  [200, '/sandbox/contact-form', standInPolicy(appUrl, { inFrame: true })],
])('%i %s has all safety headers, on https also its own', async (status, path, policy, init) => {
  const answer = await apps.http.request(path, init)
  expect(answer.status).toBe(status)
  expectSafe(answer.headers, policy)
  expect(answer.headers.get('Strict-Transport-Security')).toBeNull()
  const { headers } = await apps.https.request(path, init)
  expect(headers.get('Strict-Transport-Security')).toBe('max-age=63072000; includeSubDomains')
})

test.each(['/', '/contact', '/assets/main-abc.js'])('304 %s has them', async (path) => {
  const whole = await apps.http.request(path)
  const headers = { 'If-None-Match': whole.headers.get('ETag') ?? '' }
  const answer = await apps.http.request(path, { headers })
  expect(answer.status).toBe(304)
  expectSafe(answer.headers, whole.headers.get('Content-Security-Policy') ?? '')
})

test('500 has them', async () => {
  const answer = await apps.broken.request('/health')
  expect(answer.status).toBe(500)
  expectSafe(answer.headers, answerPolicy)
})
