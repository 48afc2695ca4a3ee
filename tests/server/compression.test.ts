import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { Hono } from 'hono'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { readDashboard, serveDashboard } from '../../server/page/serve.ts'

const script = 'console.log("again"); '.repeat(200)
const page = `<!doctype html>${'<p>Dealbell</p>'.repeat(200)}`
const scriptPath = '/assets/main-abc.js'
let folder: string
const app = new Hono()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-dist-'))
  await mkdir(join(folder, 'assets'))
  for (const [path, text] of Object.entries({ 'index.html': page, [scriptPath]: script })) {
    await writeFile(join(folder, path), text)
    await writeFile(join(folder, `${path}.br`), brotliCompressSync(text))
    await writeFile(join(folder, `${path}.gz`), gzipSync(text))
  }
  await writeFile(join(folder, 'favicon.svg'), '<svg/>')
  app.all('*', serveDashboard(await readDashboard(folder, () => "default-src 'none'")))
})
afterAll(() => rm(folder, { recursive: true }))

async function get(path: string, accepted?: string, headers: Record<string, string> = {}) {
  const answer = await app.request(path, {
    headers: { ...headers, ...(accepted !== undefined && { 'Accept-Encoding': accepted }) },
  })
  const header = (name: string) => answer.headers.get(name)
  return { answer, header, body: Buffer.from(await answer.arrayBuffer()) }
}

test.each([
  ['gzip, deflate, br, zstd', 'br'],
  ['gzip, deflate', 'gzip'],
  ['br', 'br'],
  ['BR', 'br'],
  ['br;q=0.1, gzip;q=1', 'br'],
  ['br;q=0, gzip', 'gzip'],
  ['br; q=0.0, gzip ; q=0', null],
  ['*', 'br'],
  ['br;q=0, *', 'gzip'],
  ['*;q=0', null],
  ['identity', null],
  ['deflate, zstd', null],
  ['gzip;q=nonsense', null],
  ['', null],
  [undefined, null],
])('Accept-Encoding %j gets the coding %j', async (accepted, coding) => {
  const { answer, header, body } = await get(scriptPath, accepted)
  expect(answer.status).toBe(200)
  expect(header('Content-Encoding')).toBe(coding)
  const decoded =
    coding === 'br' ? brotliDecompressSync(body) : coding === 'gzip' ? gunzipSync(body) : body
  expect(decoded.toString()).toBe(script)
  expect(header('Content-Length')).toBe(String(body.length))
  expect(header('Content-Type')).toBe('text/javascript; charset=utf-8')
  expect(header('Cache-Control')).toBe('public, max-age=31536000, immutable')
  // Without Vary, a cache would serve one client's coding to another.
  expect(header('Vary')).toBe('Accept-Encoding')
})

test('every address of the page is compressed and must be revalidated', async () => {
  for (const path of ['/', '/contact', '/hubspot/callback?code=1']) {
    const { header, body } = await get(path, 'br')
    expect(brotliDecompressSync(body).toString()).toBe(page)
    expect(header('Cache-Control')).toBe('no-cache')
    expect(header('Content-Security-Policy')).toBe("default-src 'none'")
  }
})

test('each coding has its own ETag, and a client that has it gets 304', async () => {
  const tags = await Promise.all(
    ['br', 'gzip', ''].map(async (accepted) => {
      const etag = (await get(scriptPath, accepted)).header('ETag') ?? ''
      const known = await get(scriptPath, accepted, { 'If-None-Match': etag })
      expect(known.answer.status).toBe(304)
      expect(known.body).toHaveLength(0)
      expect(known.header('Vary')).toBe('Accept-Encoding')
      return etag
    }),
  )
  expect(new Set(tags).size).toBe(3)
  const [br = '', gzip = ''] = tags
  expect((await get(scriptPath, 'gzip', { 'If-None-Match': br })).answer.status).toBe(200)
  expect((await get(scriptPath, 'br', { 'If-None-Match': `${gzip}, ${br}` })).answer.status).toBe(
    304,
  )
})

test('HEAD answers like GET without the body', async () => {
  const accepted = { 'Accept-Encoding': 'br' }
  const got = await app.request(scriptPath, { headers: accepted })
  const head = await app.request(scriptPath, { method: 'HEAD', headers: accepted })
  expect(await head.text()).toBe('')
  expect(Object.fromEntries(head.headers)).toEqual(Object.fromEntries(got.headers))
})

test('a file without compressed copies is sent uncompressed', async () => {
  const { header, body } = await get('/favicon.svg', 'br, gzip')
  expect(body.toString()).toBe('<svg/>')
  expect(header('Content-Encoding')).toBeNull()
  expect(header('Vary')).toBeNull()
})

test('the compressed copies have no address', async () => {
  expect((await get(`${scriptPath}.br`)).answer.status).toBe(404)
  expect((await get('/index.html.gz')).body.toString()).toBe(page)
})
