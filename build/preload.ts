import { join } from 'node:path'
import type { HtmlTagDescriptor, Plugin, Rolldown } from 'vite'
import { endpoints, navigations, pathOf } from '../contract/endpoints.ts'
import type { Config } from '../src/parse-config.ts'
import { chunksOf } from './chunks.ts'

/** The attributes of a link element. True stands for an attribute without a value. */
type Link = Readonly<Record<string, string | true>>

interface Route {
  /** For a parameter, it contains `[^/]+`: src/boot.ts uses it as a pattern. */
  path: string
  /** The route's file in src/routes, without the extension. */
  file: string
  /** The paths of the calls that the route makes at its start, besides the health check. */
  calls: readonly string[]
}

/**
 * Adds links to index.html, so that a page's calls and scripts load while the browser parses the
 * page, and not only when the scripts run.
 *
 * A static host answers every address with the same index.html. So index.html itself loads only
 * what every address needs. The other links have `rel="boot"`, which loads nothing. They list their
 * addresses in `data-at`. src/boot.ts activates the links of the current address
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
    // Its calls wait for the health check, which says whether the backend answers them.
    { path: '/activity', file: 'activity', calls: [] },
    { path: pathOf(navigations.callbackPage, crm.id), ...callback },
    { path: pathOf(navigations.callbackPage, chat.id), ...callback },
    { path: `/connect/${crm.id}`, file: 'connect.$provider', calls: [] },
  ]

  // Not rel="preload": WebKit uses such a preload for no fetch, and makes each call twice.
  const callLink = (path: string): Link => ({
    rel: 'boot',
    as: 'fetch',
    href: `${config.apiUrl}${path}`,
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
        const { boot, reactDom, beyond, ofRoute, lateStyles } = chunksOf(bundle)
        const linksByPath = routes.map(({ path, file, calls }) => ({
          path,
          links: [...calls.map(callLink), ...(ofRoute.get(file) ?? []).map(scriptLink)],
        }))
        const links = [
          callLink(endpoints.health.path),
          ...bootLinks(linksByPath),
          // Every address needs react-dom, but later. The boot script loads it, so the main script
          // arrives first. A browser divides the bandwidth among scripts that it requests together.
          ...reactDom.map((chunk) => ({ ...scriptLink(chunk), rel: 'boot' })),
          // /activity needs them at once, the dashboard perhaps later (src/components/late-styles.ts).
          { rel: 'boot', as: 'style', href: `/${lateStyles}`, 'data-at': '/activity' },
          // Only the dashboard itself knows whether it needs these (src/components/use-insights.ts).
          ...beyond.map((chunk) => ({ ...scriptLink(chunk), rel: 'later' })),
        ]
        return [
          {
            tag: 'script',
            // A deferred script runs before the main script, so it starts the calls before the app.
            // Without the priority, Chromium requests it after all others.
            attrs: { src: `/${boot.fileName}`, defer: true, fetchpriority: 'high' },
            injectTo: 'head-prepend',
          },
          ...links.map((attrs): HtmlTagDescriptor => ({ tag: 'link', attrs, injectTo: 'head' })),
        ]
      },
    },
    generateBundle(_options, bundle) {
      // The page loads the boot script as a classic script, which can neither import nor export.
      const { boot, ofRoute } = chunksOf(bundle)
      if (boot.imports.length > 0 || boot.exports.length > 0) {
        this.error('src/boot.ts must be one script without imports and exports.')
      }
      const listed = new Set(routes.map(({ file }) => file))
      const missing = [...ofRoute.keys()].find((file) => !listed.has(file))
      if (missing !== undefined) {
        this.error(
          `src/routes/${missing}.tsx is missing from the list of routes in build/preload.ts. Add { path: '/its/address', file: '${missing}', calls: [] } there. In calls, list the paths of the calls that the route makes at its start. Without an entry, its script loads late and without integrity.`,
        )
      }
      const superfluous = [...listed].find((file) => !ofRoute.has(file))
      if (superfluous !== undefined) {
        this.error(
          `The list of routes in build/preload.ts names src/routes/${superfluous}.tsx, but this file does not exist or has no component. Correct or remove the entry.`,
        )
      }
    },
  }
}

const scriptLink = ({ fileName }: Rolldown.OutputChunk): Link => ({
  rel: 'modulepreload',
  href: `/${fileName}`,
  crossorigin: true,
})

/** One `rel="boot"` link for each script and call, with the paths of all routes that need it. */
function bootLinks(routes: readonly { path: string; links: readonly Link[] }[]): Link[] {
  const byHref = new Map(routes.flatMap(({ links }) => links).map((link) => [link.href, link]))
  return [...byHref.values()].map((link) => {
    const needing = routes.filter(({ links }) => links.some(({ href }) => href === link.href))
    return { ...link, rel: 'boot', 'data-at': needing.map(({ path }) => path).join('|') }
  })
}
