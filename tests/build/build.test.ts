import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import type { HtmlTagDescriptor, Plugin, Rolldown } from 'vite'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { budget } from '../../build/budget.ts'
import { preload } from '../../build/preload.ts'
import { parseConfig } from '../../src/parse-config.ts'
import { buildPage } from './build-page.ts'

let folder: string
let dist: string
let files: string[]
/** The files of the build as its plugins get them. */
let bundle: Rolldown.OutputBundle

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dealbell-build-'))
  dist = join(folder, 'dist')
  const look: Plugin = {
    name: 'test:look',
    generateBundle: {
      order: 'post',
      handler(_options, built) {
        bundle = { ...built }
      },
    },
  }
  await buildPage(dist, [look])
  files = await readdir(dist, { recursive: true })
}, 60_000)
afterAll(() => rm(folder, { recursive: true }))

const read = (file: string) => readFile(join(dist, file))
const readPage = async () => String(await read('index.html'))
const named = (pattern: RegExp) => files.find((file) => pattern.test(file)) ?? `no ${pattern}`

/** The elements of a page in their order. An attribute without a value is ''. */
function elementsOf(html: string) {
  return [...html.matchAll(/<([a-z]+)\b((?:[^>"]|"[^"]*")*)>/g)].map(([, name, text = '']) => {
    const found = text.matchAll(/([\w-]+)(?:="([^"]*)")?/g)
    const attributes = [...found].map(([, key = '', value = '']) => [key, value] as const)
    return { name, attributes: Object.fromEntries(attributes) }
  })
}

test('every file that compression makes smaller has compressed copies', async () => {
  const texts = files.filter((file) => /\.(html|js|css|svg)$/.test(file) && !file.includes('boot-'))
  expect(texts.length).toBeGreaterThan(6)
  for (const file of texts) {
    const text = await read(file)
    expect(brotliDecompressSync(await read(`${file}.br`))).toEqual(text)
    expect(gunzipSync(await read(`${file}.gz`))).toEqual(text)
  }
})

test('no page contains a script or a style', async () => {
  const pages = files.filter((file) => /\.(html|svg)$/.test(file))
  expect(pages).toContain('index.html')
  for (const page of pages) {
    const html = String(await read(page))
    expect(html).not.toMatch(/<style|javascript:|srcdoc|<script[^>]*>[^<]/i)
    for (const { name, attributes } of elementsOf(html)) {
      const inline = Object.keys(attributes).filter((key) => /^(style$|on)/.test(key))
      expect(inline, name).toEqual([])
      if (name === 'script') expect(attributes.src).toMatch(/^\/assets\//)
    }
  }
})

test('the page itself loads only what every address needs', async () => {
  const page = await readPage()
  const loading = elementsOf(page).filter(
    ({ attributes: { rel = '' } }) => !['boot', 'late'].includes(rel),
  )
  const links = loading.filter(({ name }) => name === 'link')
  // A preload of a call would double it in WebKit.
  expect(links.map(({ attributes }) => attributes.rel)).toEqual(['icon', 'stylesheet'])
  // Deferred scripts and modules run in the order of the page: the boot script precedes the app.
  const scripts = loading.flatMap(({ attributes }) => attributes.src ?? [])
  expect(scripts).toEqual([`/${named(/boot-[\w-]+\.js$/)}`, `/${named(/index-[\w-]+\.js$/)}`])
  expect(loading.find(({ name }) => name === 'script')?.attributes).toMatchObject({ defer: '' })
})

test('what goes beyond section 7 is a script of its own, which the dashboard itself loads', async () => {
  const late = elementsOf(await readPage()).filter(({ attributes }) => attributes.rel === 'late')
  const scripts = late.map(({ attributes }) => attributes.href?.slice(1) ?? '')
  expect(scripts).toContain(named(/parts-[\w-]+\.js$/))
  // Neither its texts nor the schemas of its calls are in a script that every address loads.
  const only = /Would have sent|iso_timestamp/g
  for (const file of files.filter((file) => file.endsWith('.js'))) {
    const found = String(await read(file)).match(only)
    if (!scripts.includes(file)) expect(found, file).toBeNull()
  }
  const texts = await Promise.all(scripts.map((file) => read(file)))
  expect(new Set(texts.join('').match(only))).toEqual(new Set(['Would have sent', 'iso_timestamp']))
})

test('the styles of what goes beyond section 7 are a sheet of their own, which no address loads by itself but /activity', async () => {
  const sheets = elementsOf(await readPage()).flatMap(
    ({ attributes: { rel, href = '', ...rest } }) =>
      href.endsWith('.css') ? [{ rel, href, at: rest['data-at'] }] : [],
  )
  const [first, late] = [named(/style-[\w-]+\.css$/), named(/late-[\w-]+\.css$/)]
  expect(sheets).toEqual([
    { rel: 'stylesheet', href: `/${first}`, at: undefined },
    { rel: 'boot', href: `/${late}`, at: '/activity' },
  ])
  const only = /\.(account-menu|activity-field|chart-sent)\b/g
  expect(String(await read(first)).match(only)).toBeNull()
  expect(new Set(String(await read(late)).match(only)).size).toBe(3)
  // Complete, because only one sheet with all utilities has them in the right order.
  expect(String(await read(late))).toContain('.save-bar{')
})

test('the build contains nothing of the panels and of /states, which npm run dev shows', async () => {
  const modules = Object.values(bundle).flatMap((file) =>
    file.type === 'chunk' ? file.moduleIds : [],
  )
  expect(modules.some((id) => id.endsWith('/src/main.tsx'))).toBe(true)
  expect(modules.filter((id) => /devtools|\/tests\/|\/msw\//.test(id))).toEqual([])
  expect(files.filter((file) => /states|mock|worker|frame/i.test(file))).toEqual([])
  expect(await readPage()).not.toContain('devtools')
})

test('every script tells Chromium to compile it as a whole', async () => {
  const scripts = files.filter((file) => file.endsWith('.js'))
  expect(scripts.length).toBeGreaterThan(4)
  // Chromium reads the hint only in the first line.
  for (const file of scripts) {
    expect(String(await read(file))).toMatch(/^\/\/# allFunctionsCalledOnLoad\n/)
  }
})

describe('the boot script', () => {
  /** The scripts that the boot script loads at an address, and the calls that it makes. */
  async function bootAt(pathname: string) {
    const boot = String(await read(named(/boot-[\w-]+\.js$/)))
    const links = elementsOf(await readPage())
      .filter(({ attributes }) => attributes.rel === 'boot')
      .map(({ attributes: { rel, as = '', href = '', 'data-at': at } }) => ({
        ...{ rel, as, href },
        dataset: { at },
      }))
    const document = { querySelectorAll: () => links, addEventListener() {} }
    const fetched = vi.fn(async () => new Response('{}'))
    const page: Partial<typeof globalThis> = {}
    const run = new Function('location', 'document', 'fetch', 'globalThis', boot)
    run({ pathname }, document, fetched, page)
    return {
      scripts: links.filter(({ rel }) => rel === 'modulepreload').map(({ href }) => href),
      styles: links.filter(({ rel }) => rel === 'preload').map(({ href }) => href),
      fetched: fetched.mock.calls as unknown as [string, RequestInit][],
      started: [...(page.startedCalls?.keys() ?? [])],
    }
  }
  const scriptAt = (pattern: RegExp) => `/${named(pattern)}`
  // A script that two routes share, such as that of a component, may come, too.
  const isOfARoute = (script: string) =>
    /[/.](activity|callback|connect|contact|routes)[-.]/.test(script)

  test('starts the calls and scripts of the dashboard at /', async () => {
    const { scripts, styles, fetched, started } = await bootAt('/')
    expect(styles).toEqual([])
    expect(scripts).toContain(scriptAt(/client-/))
    expect(scripts.filter(isOfARoute)).toEqual([scriptAt(/routes-/)])
    expect(started).toEqual([
      '/health',
      '/api/hubspot/status',
      '/api/slack/status',
      '/api/notifications/rules',
    ])
    expect(fetched.map(([address]) => address)).toEqual(started)
    for (const [, init] of fetched) expect(init.credentials).toBe('include')
  })

  test.each<[string, RegExp, RegExp[]?]>([
    ['/contact', /contact-/],
    ['/Contact', /contact-/],
    ['/slack/callback/', /callback-/],
    ['/connect/hubspot', /connect\./],
    ['/activity', /activity-/, [/late-[\w-]+\.css$/]],
  ])('starts the script, styles and health check of %s', async (path, script, late = []) => {
    const { scripts, styles, started } = await bootAt(path)
    expect(scripts).toContain(scriptAt(/client-/))
    expect(scripts.filter(isOfARoute)).toEqual([scriptAt(script)])
    expect(styles).toEqual(late.map(scriptAt))
    expect(started).toEqual(['/health'])
  })

  test.each(['/no/such/page', '/contacts', '/contact/us', '/a/contact', '/constructor'])(
    'starts only react-dom and the health check at %s',
    async (path) => {
      const { scripts, started } = await bootAt(path)
      expect(scripts).toEqual([scriptAt(/client-/)])
      expect(started).toEqual(['/health'])
    },
  )
})

/** A plugin has a hook, or an object with it. */
const hookOf = (hook: unknown) =>
  (typeof hook === 'function' ? hook : Object(hook).handler) as (
    this: unknown,
    ...given: unknown[]
  ) => unknown

/** What the page would link to with other settings and one more route. */
function linksWith(file: string) {
  const settings = {
    VITE_API_URL: 'https://api.example.com/v1/',
    VITE_CRM_NAME: 'Pipedrive',
    VITE_CHAT_NAME: 'Teams',
  }
  const { transformIndexHtml } = preload(parseConfig(settings))
  const facadeModuleId = join(import.meta.dirname, `../../src/routes/${file}?tsr-split=component`)
  const about = { type: 'chunk', fileName: 'assets/about.js', imports: [], facadeModuleId }
  return hookOf(transformIndexHtml)('', { bundle: { ...bundle, about } }) as HtmlTagDescriptor[]
}

test('the page of other settings starts the calls of their backend and providers', () => {
  const links = linksWith('about.tsx')
  const calls = links.flatMap(({ attrs = {} }) => (attrs.as === 'fetch' ? [attrs] : []))
  expect(calls.map((attrs) => [attrs.href, attrs['data-at']])).toEqual([
    ['https://api.example.com/v1/health', undefined],
    ['https://api.example.com/v1/api/pipedrive/status', '/'],
    ['https://api.example.com/v1/api/teams/status', '/'],
    ['https://api.example.com/v1/api/notifications/rules', '/'],
  ])
})

test('the boot script loads a new route at the address that its file name says, and a build fails if it says none', () => {
  const links = linksWith('about.$person.us.tsx')
  const link = links.find(({ attrs }) => attrs?.href === '/assets/about.js')
  expect(link?.attrs).toMatchObject({ rel: 'boot', 'data-at': '/about/[^/]+/us' })
  const refusal = /build\/preload\.ts cannot read .* src\/routes\/_about\.tsx/
  expect(() => linksWith('_about.tsx')).toThrow(refusal)
})

test('a build that exceeds its budget fails and says where the limit is', () => {
  const error = vi.fn()
  const { generateBundle } = budget({ script: 100_000, style: 3000 })
  hookOf(generateBundle).call({ error }, {}, bundle)
  const words = /script takes .* style takes .* pageBudget in build\/budget\.ts/
  expect(error).toHaveBeenCalledWith(expect.stringMatching(words))
})
