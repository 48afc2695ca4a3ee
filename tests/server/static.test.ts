import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pagePolicy } from '../../contract/page-headers.ts'
import { readDashboard } from '../../server/page/serve.ts'
import { type Harness, openHarness, refusal } from './harness.ts'

let folder: string
let harness: Harness
let app: Harness['app']
const page = '<!doctype html><title>Dealbell</title>'

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-dist-'))
  const dist = join(folder, 'dist')
  await mkdir(join(dist, 'assets'), { recursive: true })
  await writeFile(join(dist, 'index.html'), page)
  await writeFile(join(dist, 'assets/main-abc.js'), 'console.log(1)')
  await writeFile(join(dist, 'favicon.svg'), '<svg/>')
  await writeFile(join(dist, '.build.json'), '{"apiUrl":"hidden"}')
  await writeFile(join(dist, '_headers'), '/* hidden')
  await writeFile(join(dist, '_redirects'), '/* hidden')
  await writeFile(join(dist, 'nginx-headers.conf'), 'hidden')
  await writeFile(join(folder, 'outside.txt'), 'OUTSIDE')
  harness = await openHarness()
  const origins = { apiUrl: '', contactFormUrl: '/sandbox/contact-form' }
  const dashboard = await readDashboard(dist, (path) => pagePolicy(origins, path))
  app = harness.appWith({ dashboard })
})
afterAll(async () => {
  await harness.close()
  await rm(folder, { recursive: true })
})

describe('the page', () => {
  test.each([
    '/',
    '/index.html',
    '/contact',
    '/hubspot/callback?code=1&state=2',
    '/connect/hubspot',
    '/no/such/page',
    '/healthy',
    '/apiary',
  ])('answers at %s', async (path) => {
    const answer = await app.request(path)
    expect(answer.status).toBe(200)
    expect(await answer.text()).toBe(page)
    expect(answer.headers.get('Content-Type')).toBe('text/html; charset=utf-8')
    expect(answer.headers.get('Cache-Control')).toBe('no-cache')
    expect(answer.headers.getSetCookie()).toEqual([])
  })

  test.each(['http://127.0.0.1:3000', 'http://[::1]:3000'])(
    'redirects from %s to the origin that the providers redirect to',
    async (origin) => {
      const answer = await app.request(`${origin}/contact?a=1`)
      expect(answer.status).toBe(302)
      expect(answer.headers.get('Location')).toBe('http://localhost:3000/contact?a=1')
      const elsewhere = await app.request('http://127.0.0.1:8080/contact')
      expect(elsewhere.status).toBe(200)
    },
  )

  test('answers HEAD without a body', async () => {
    const answer = await app.request('/', { method: 'HEAD' })
    expect(answer.status).toBe(200)
    expect(await answer.text()).toBe('')
  })

  test.each(['POST', 'PUT', 'DELETE'])('refuses %s', async (method) => {
    const answer = await app.request('/contact', { method })
    expect(await refusal(answer)).toBe('405 method_not_allowed')
    expect(answer.headers.get('Allow')).toBe('GET, HEAD')
  })

  test.each([
    '/api',
    '/api/x',
    '/health/x',
    '/relay',
    '/relay/callback',
    '/sandbox',
    '/sandbox/x',
    '/webhooks/x',
  ])('is not the answer to a path of the backend: %s', async (path) => {
    expect(await refusal(await app.request(path))).toBe('404 not_found')
  })
})

describe('a file', () => {
  test('of the build may be cached for ever, because its name contains a hash', async () => {
    const answer = await app.request('/assets/main-abc.js')
    expect(await answer.text()).toBe('console.log(1)')
    expect(answer.headers.get('Content-Type')).toBe('text/javascript; charset=utf-8')
    expect(answer.headers.get('Cache-Control')).toBe('public, max-age=31536000, immutable')
  })

  test('of an older build is missing, not replaced by the page', async () => {
    expect(await refusal(await app.request('/assets/main-old.js'))).toBe('404 not_found')
  })

  test.each(['/', '/favicon.svg', '/assets/main-abc.js'])(
    'that the browser has in its cache is not sent again: %s',
    async (path) => {
      const etag = (await app.request(path)).headers.get('ETag') ?? ''
      expect(etag).toMatch(/^"[\w-]+"$/)
      for (const known of [etag, `W/${etag}`, `"other", ${etag}`]) {
        const answer = await app.request(path, { headers: { 'If-None-Match': known } })
        expect(answer.status).toBe(304)
        expect(await answer.text()).toBe('')
        expect(answer.headers.get('ETag')).toBe(etag)
      }
      const other = await app.request(path, { headers: { 'If-None-Match': '"other"' } })
      expect(other.status).toBe(200)
    },
  )

  test.each([
    '/../outside.txt',
    '/..%2foutside.txt',
    '/%2e%2e/outside.txt',
    '/assets/../../outside.txt',
    '/assets/..%2f..%2foutside.txt',
    '/assets/..%5c..%5coutside.txt',
    '/....//outside.txt',
    '//etc/passwd',
    '/outside.txt%00.js',
    '/.build.json',
    '/%2ebuild.json',
    '/_headers',
    '/_redirects',
    '/nginx-headers.conf',
  ])('that is internal or outside the build is not sent: %s', async (path) => {
    const text = await (await app.request(`http://localhost:3000${path}`)).text()
    expect(text).not.toMatch(/OUTSIDE|hidden|root:/)
  })
})

test('a folder without index.html is an error', async () => {
  await expect(readDashboard(join(folder, 'dist', 'assets'), () => '')).rejects.toThrow(
    'index.html',
  )
})
