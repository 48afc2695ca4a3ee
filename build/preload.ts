import { join } from 'node:path'
import type { HtmlTagDescriptor, Plugin, Rolldown } from 'vite'
import { endpoints, navigations, pathOf } from '../contract/endpoints.ts'
import type { Config } from '../src/parse-config.ts'
import { chunksOf } from './chunks.ts'

/** The attributes of a link element; true for one without a value. */
type Link = Readonly<Record<string, string | true>>

interface Route {
  path: string
  /** Its file in src/routes, without the extension. */
  file: string
  /** The paths of the calls that it makes at once, besides the health check. */
  calls: readonly string[]
}

/**
 * Makes index.html load what a page needs while the browser parses it, instead of when the scripts run.
 *
 * A static host answers every address with the same index.html. So index.html loads only what every
 * address needs. The other links have `rel="boot"`, which loads nothing, and name their addresses in
 * `data-at`; src/boot.ts activates those of the current address
 * (docs/decisions/0301-one-page-and-a-boot-script.md).
 */
export function preload(config: Config): Plugin {
  const { crm, chat } = config
  const callback = { file: '$provider.callback', calls: [] }
  const routes: readonly Route[] = [
    {
      path: '/',
      file: 'index',
      calls: [
        pathOf(endpoints.status, crm.id),
        pathOf(endpoints.status, chat.id),
        endpoints.rules.path,
      ],
    },
    { path: '/contact', file: 'contact', calls: [] },
    { path: pathOf(navigations.callbackPage, crm.id), ...callback },
    { path: pathOf(navigations.callbackPage, chat.id), ...callback },
    { path: `/connect/${crm.id}`, file: 'connect.$provider', calls: [] },
  ]

  const callLink = (path: string): Link => ({
    rel: 'preload',
    as: 'fetch',
    href: `${config.apiUrl}${path}`,
    // A fetch uses a preload only when mode and credentials are the same (src/api/client.ts).
    crossorigin: 'use-credentials',
  })

  return {
    name: 'dealbell:preload',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'chunk', id: join(import.meta.dirname, '../src/boot.ts') })
    },
    transformIndexHtml: {
      order: 'post',
      handler(_html, { bundle }) {
        if (bundle === undefined) return
        const { boot, reactDom, ofRoute } = chunksOf(bundle)
        const linksByPath = routes.map(({ path, file, calls }) => ({
          path,
          links: [...calls.map(callLink), ...ofRoute(file).map(scriptLink)],
        }))
        const links = [
          callLink(endpoints.health.path),
          ...bootLinks(linksByPath),
          // Every address needs react-dom, but later. Loading it from the boot script lets the main
          // script arrive first; a browser divides the bandwidth among scripts requested together.
          ...reactDom.map((chunk) => ({ ...scriptLink(chunk), rel: 'boot' })),
        ]
        return [
          {
            tag: 'script',
            // A deferred script runs before the main script, so its preloads precede the app's calls.
            // Without the priority, Chromium requests it after everything more urgent.
            attrs: { src: `/${boot.fileName}`, defer: true, fetchpriority: 'high' },
            injectTo: 'head-prepend',
          },
          ...links.map((attrs): HtmlTagDescriptor => ({ tag: 'link', attrs, injectTo: 'head' })),
        ]
      },
    },
    generateBundle(_options, bundle) {
      // The page loads it as a classic script, which can neither import nor export.
      const { boot } = chunksOf(bundle)
      if (boot.imports.length > 0 || boot.exports.length > 0) {
        this.error('src/boot.ts must be one script without imports and exports.')
      }
    },
  }
}

const scriptLink = ({ fileName }: Rolldown.OutputChunk): Link => ({
  rel: 'modulepreload',
  href: `/${fileName}`,
  crossorigin: true,
})

/** One `rel="boot"` link for each address that is loaded, with the paths of all routes that need it. */
function bootLinks(routes: readonly { path: string; links: readonly Link[] }[]): Link[] {
  const byHref = new Map(routes.flatMap(({ links }) => links).map((link) => [link.href, link]))
  return [...byHref.values()].map((link) => {
    const needing = routes.filter(({ links }) => links.some(({ href }) => href === link.href))
    return { ...link, rel: 'boot', 'data-at': needing.map(({ path }) => path).join('|') }
  })
}
