import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import type { HtmlTagDescriptor, Plugin, Rolldown } from 'vite'
import { endpoints, navigations, pathOf } from '../contract/endpoints.ts'
import type { Config } from '../src/parse-config.ts'

/** The attributes of a link element; true for one without a value. */
type Link = Readonly<Record<string, string | true>>

interface Route {
  path: string
  /** Its file in src/routes, without the ending. */
  file: string
  /** The calls that it makes at once, beside the health check that every route makes. */
  calls: readonly string[]
}

export interface Budget {
  /** Of all scripts that `/` loads, in bytes of gzip. */
  script: number
  /** Of the style sheet, in bytes of gzip. */
  style: number
}

/**
 * Makes index.html ask for what a page needs as soon as it is read, instead of when the scripts run.
 *
 * One index.html stands for every address, since a static host's fallback knows no other. It says what
 * all addresses need first; the rest, an address's own script and calls among it, stands in links that
 * load nothing until a boot script of a line has looked at the address
 * (docs/decisions/0301-one-page-and-a-boot-script.md).
 */
export function page(config: Config, budget: Budget): Plugin {
  const { crm, chat } = config
  const callback = { file: '$provider.callback', calls: [] }
  const dashboard: Route = {
    path: '/',
    file: 'index',
    calls: [
      pathOf(endpoints.status, crm.id),
      pathOf(endpoints.status, chat.id),
      endpoints.rules.path,
    ],
  }
  const routes: readonly Route[] = [
    dashboard,
    { path: '/contact', file: 'contact', calls: [] },
    { path: pathOf(navigations.callbackPage, crm.id), ...callback },
    { path: pathOf(navigations.callbackPage, chat.id), ...callback },
    { path: `/connect/${crm.id}`, file: 'connect.$provider', calls: [] },
  ]

  const callLink = (path: string): Link => ({
    rel: 'preload',
    as: 'fetch',
    href: `${config.apiUrl}${path}`,
    // Only a fetch of the same mode and credentials takes what was preloaded (src/api/client.ts).
    crossorigin: 'use-credentials',
  })

  return {
    name: 'dealbell:page',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler(_html, { bundle }) {
        if (bundle === undefined) return
        const scripts = scriptsOf(bundle)
        const linksByPath = routes.map(({ path, file, calls }) => ({
          path,
          links: [...calls.map(callLink), ...scripts.ofRoute(file).map(scriptLink)],
        }))
        return [
          // Deferred scripts run in order: this one before the app asks for anything itself. Without
          // the priority, Chromium asks for it after all that it takes to be more urgent.
          {
            tag: 'script',
            attrs: { src: `/${boot.fileName}`, defer: true, fetchpriority: 'high' },
            injectTo: 'head-prepend',
          },
          { tag: 'link', attrs: callLink(endpoints.health.path), injectTo: 'head' },
          // Asked for a moment later, so that the main script has the line to itself and runs while
          // React comes in: a browser lets scripts that it asked for together come in together.
          ...[...bootLinks(linksByPath), ...scripts.last.map(bootLink)].map(
            (attrs): HtmlTagDescriptor => ({ tag: 'link', attrs, injectTo: 'head' }),
          ),
        ]
      },
    },
    generateBundle: {
      // After Vite's own, which is where index.html is made.
      order: 'post',
      handler(_options, bundle) {
        this.emitFile({ type: 'asset', ...boot })

        const scripts = scriptsOf(bundle)
        const loaded = [...scripts.first, ...scripts.last, ...scripts.ofRoute(dashboard.file)]
        const size = {
          script: gzipSize(boot.source) + sum(loaded.map(({ code }) => gzipSize(code))),
          style: sum(
            Object.values(bundle).map((file) =>
              file.type === 'asset' && file.fileName.endsWith('.css') ? gzipSize(file.source) : 0,
            ),
          ),
        }
        for (const kind of ['script', 'style'] as const) {
          if (size[kind] > budget[kind]) {
            this.error(
              `The dashboard's ${kind} is over its budget: ${size[kind]} bytes of gzip, where ${budget[kind]} are allowed.`,
            )
          }
        }
      },
    },
  }
}

/** The scripts of the build, in the order in which a page needs them. */
function scriptsOf(bundle: Rolldown.OutputBundle) {
  const chunks = Object.values(bundle).filter((file) => file.type === 'chunk')
  const withImports = (chunk: Rolldown.OutputChunk): Rolldown.OutputChunk[] => [
    chunk,
    ...chunks.filter(({ fileName }) => chunk.imports.includes(fileName)).flatMap(withImports),
  ]
  function find(what: string, isIt: (chunk: Rolldown.OutputChunk) => boolean) {
    const found = chunks.find(isIt)
    if (found === undefined) throw new Error(`The build has no script for ${what}.`)
    return withImports(found)
  }
  const madeOf = (part: string) => (chunk: Rolldown.OutputChunk) =>
    chunk.facadeModuleId?.includes(part) === true

  const first = new Set(find('the start', ({ isEntry }) => isEntry))
  const beyondFirst = (found: readonly Rolldown.OutputChunk[]) =>
    [...new Set(found)].filter((chunk) => !first.has(chunk))
  return {
    first: [...first],
    last: beyondFirst(find('React', madeOf('/react-dom/client.js'))),
    ofRoute: (file: string) =>
      beyondFirst(find(`the route ${file}`, madeOf(`/src/routes/${file}.tsx?tsr-split`))),
  }
}

const scriptLink = ({ fileName }: Rolldown.OutputChunk): Link => ({
  rel: 'modulepreload',
  href: `/${fileName}`,
  crossorigin: true,
})

const bootLink = (script: Rolldown.OutputChunk): Link => ({ ...scriptLink(script), rel: 'boot' })

/** Links that load nothing yet: what each is to be, and at which addresses, is for the boot script. */
function bootLinks(routes: readonly { path: string; links: readonly Link[] }[]): Link[] {
  const byHref = new Map(routes.flatMap(({ links }) => links).map((link) => [link.href, link]))
  return [...byHref.values()].map((link) => {
    const at = routes.filter(({ links }) => links.some(({ href }) => href === link.href))
    return { ...link, rel: 'boot', 'data-at': at.map(({ path }) => path).join('|') }
  })
}

const boot = bootScript()

// By a pattern, since the router takes an address in another case and with a slash at its end as well.
// A main script that does not arrive cannot say so itself: this one changes the page's own words (§8).
function bootScript() {
  const source = `for(const link of document.querySelectorAll('link[rel=boot]'))if(!link.dataset.at||RegExp('^('+link.dataset.at+')/?$','i').test(location.pathname))link.rel=link.as?'preload':'modulepreload'
document.addEventListener('error',({target})=>{if(target.type==='module')document.querySelector('h1').textContent='Something went wrong. Please try again later.'},true)\n`
  const hash = createHash('sha256').update(source).digest('base64url').slice(0, 8)
  return { fileName: `assets/boot-${hash}.js`, source }
}

const gzipSize = (text: string | Uint8Array) => gzipSync(text, { level: 9 }).length

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
