import { mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { brotliDecompressSync, gunzipSync, gzipSync } from 'node:zlib'
import { build, type Plugin } from 'vite'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { page } from '../../build/page.ts'
import { parseConfig } from '../../src/parse-config.ts'

const root = resolve(import.meta.dirname, '../..')
let folder: string
let files: string[]

async function buildInto(outDir: string, plugins: Plugin[] = []) {
  // Vitest's own environment is one for tests; this is the build that is shipped.
  vi.stubEnv('VITEST', undefined)
  vi.stubEnv('NODE_ENV', 'production')
  await build({ root, plugins, logLevel: 'silent', build: { outDir, emptyOutDir: true } })
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-build-'))
  await buildInto(join(folder, 'dist'))
  files = await readdir(join(folder, 'dist'), { recursive: true })
})
afterAll(() => rm(folder, { recursive: true }))

const read = (file: string) => readFile(join(folder, 'dist', file))
const named = (pattern: RegExp) => {
  const found = files.find((file) => pattern.test(file))
  if (found === undefined) throw new Error(`no file is named like ${pattern}`)
  return found
}

test('every file that can be smaller has its compressed forms beside it', async () => {
  const texts = files.filter((file) => /\.(html|js|css)$/.test(file))
  expect(texts.length).toBeGreaterThan(5)
  for (const file of texts) {
    const text = await read(file)
    expect(brotliDecompressSync(await read(`${file}.br`))).toEqual(text)
    expect(gunzipSync(await read(`${file}.gz`))).toEqual(text)
  }
})

test('the page holds no script and no style of its own', async () => {
  const page = String(await read('index.html'))
  expect(page).not.toMatch(/<style|\sstyle=|\son\w+=/)
  for (const [, attributes = '', text] of page.matchAll(/<script([^>]*)>([^<]*)<\/script>/g)) {
    expect(attributes).toMatch(/ src="\/assets\//)
    expect(text).toBe('')
  }
})

test('the page asks at every address for what every address needs, and for no more', async () => {
  const page = String(await read('index.html'))
  expect(page).toContain('rel="preload" as="fetch" href="/health" crossorigin="use-credentials"')
  const loading = page.replaceAll(/<link rel="boot"[^>]*>/g, '')
  expect(loading).not.toContain('/api/')
  expect(loading).not.toContain(named(/routes-[\w-]+\.js$/))
  // React is asked for a moment later, so that the main script comes in before it.
  expect(loading).not.toContain(named(/client-[\w-]+\.js$/))
  // Scripts that are deferred run in order: what is asked for ahead comes before what asks.
  const scripts = [...page.matchAll(/<script([^>]*)>/g)].map(([, attributes]) => attributes ?? '')
  expect(scripts).toHaveLength(2)
  expect(scripts[0]).toMatch(/boot-[\w-]+\.js" defer/)
  expect(scripts[1]).toMatch(/type="module"/)
})

test('every script that holds functions says that the browser may compile all at once', async () => {
  const scripts = files.filter((file) => file.endsWith('.js') && !file.includes('boot-'))
  expect(scripts.length).toBeGreaterThan(4)
  // Chromium reads the hint at the very beginning alone.
  for (const file of scripts) {
    expect(String(await read(file))).toMatch(/^\/\/# allFunctionsCalledOnLoad\n/)
  }
})

test('the boot script asks for what its address needs', async () => {
  const boot = String(await read(named(/boot-[\w-]+\.js$/)))
  const tags = [...String(await read('index.html')).matchAll(/<link rel="boot"([^>]*)>/g)]
  function linksAt(pathname: string) {
    const links = tags.map(([, text = '']) => {
      const attributes = [...text.matchAll(/([\w-]+)(?:="([^"]*)")?/g)]
      const {
        as = '',
        href,
        crossorigin,
        'data-at': at,
      } = Object.fromEntries(attributes.map(([, name = '', value = '']) => [name, value] as const))
      return { rel: 'boot', as, href, crossorigin, dataset: { at } }
    })
    const document = { querySelectorAll: () => links, addEventListener() {} }
    new Function('location', 'document', boot)({ pathname }, document)
    return links.filter(({ rel }) => rel !== 'boot')
  }
  const hrefs = (pathname: string) => linksAt(pathname).map(({ href }) => href)
  const react = `/${named(/client-[\w-]+\.js$/)}`
  expect(hrefs('/')).toEqual([
    '/api/hubspot/status',
    '/api/slack/status',
    '/api/notifications/rules',
    `/${named(/routes-[\w-]+\.js$/)}`,
    react,
  ])
  for (const { rel, as, crossorigin } of linksAt('/').slice(0, 3)) {
    expect([rel, as, crossorigin]).toEqual(['preload', 'fetch', 'use-credentials'])
  }
  for (const { rel, as, crossorigin } of linksAt('/').slice(3)) {
    expect([rel, as, crossorigin]).toEqual(['modulepreload', '', ''])
  }
  for (const path of ['/contact', '/contact/', '/Contact']) {
    expect(hrefs(path)).toEqual([`/${named(/contact-[\w-]+\.js$/)}`, react])
  }
  for (const path of ['/hubspot/callback', '/slack/callback', '/slack/callback/']) {
    expect(hrefs(path)).toEqual([`/${named(/callback-[\w-]+\.js$/)}`, react])
  }
  for (const path of [
    '/no/such/page',
    '/contacts',
    '/contact/us',
    '/a/contact',
    '/constructor',
    '/toString',
  ]) {
    expect(hrefs(path)).toEqual([react])
  }
})

test('what / loads is at most 118 KiB of scripts and 6 KiB of style, in gzip', async () => {
  // What is not known to be another route's counts.
  const ofOthers = /(contact|connect|callback)[\w.-]*\.js$/
  const gzipSize = async (ending: string) => {
    const loaded = files.filter((file) => file.endsWith(ending) && !ofOthers.test(file))
    const texts = await Promise.all(loaded.map(read))
    return texts.reduce((size, text) => size + gzipSync(text, { level: 9 }).length, 0)
  }
  expect(await gzipSize('.js')).toBeLessThanOrEqual(118 * 1024)
  expect(await gzipSize('.css')).toBeLessThanOrEqual(6 * 1024)
})

test.each([
  { script: 100_000, style: 6 * 1024 },
  { script: 118 * 1024, style: 3000 },
])('a build over its budget fails: %j', async (budget) => {
  const plugins = [page(parseConfig({}), budget)]
  await expect(buildInto(join(folder, 'over'), plugins)).rejects.toThrow(/over its budget/)
})

test('two builds are the same bytes', async () => {
  await buildInto(join(folder, 'again'))
  const again = await readdir(join(folder, 'again'), { recursive: true })
  expect(again.toSorted()).toEqual(files.toSorted())
  for (const file of files) {
    if (!(await stat(join(folder, 'dist', file))).isFile()) continue
    expect(await readFile(join(folder, 'again', file)), file).toEqual(await read(file))
  }
})
