import { join } from 'node:path'
import type { HtmlTagDescriptor, Plugin, Rolldown } from 'vite'
import { endpoints, pathOf } from '../contract/endpoints.ts'
import type { Config } from '../src/parse-config.ts'
import { chunksOf } from './chunks.ts'

/** The attributes of a link element. True stands for an attribute without a value. */
type Link = Readonly<Record<string, string | true>>

/** What boots at the addresses of one route. */
interface Route {
  /** A pattern for src/boot.ts. */
  path: string
  links: readonly Link[]
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
  // By file in src/routes: the calls that the loader of a route makes at once. /activity waits for the health check.
  const { crm, chat } = config
  const calls: Readonly<Record<string, readonly string[]>> = {
    index: [
      pathOf(endpoints.status, crm.id),
      pathOf(endpoints.status, chat.id),
      endpoints.rules.path,
    ],
  }

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
        const { boot, reactDom, late, ofRoute, lateStyles } = chunksOf(bundle)
        const routes = [...ofRoute].map(([file, chunks]) => ({
          path: pathOfRoute(file),
          links: [...(calls[file] ?? []).map(callLink), ...chunks.map(scriptLink)],
        }))
        const links = [
          callLink(endpoints.health.path),
          ...bootLinks(routes),
          // Every address needs react-dom, but last. The boot script loads it, so the main script
          // arrives first. A browser divides the bandwidth among scripts that it requests together.
          ...reactDom.map((chunk) => ({ ...scriptLink(chunk), rel: 'boot' })),
          // /activity needs them at once, the dashboard perhaps late (src/late/load.ts).
          { rel: 'boot', as: 'style', href: `/${lateStyles}`, 'data-at': '/activity' },
          // Only the dashboard itself knows whether it needs these (src/late/load.ts).
          ...late.map((chunk) => ({ ...scriptLink(chunk), rel: 'late' })),
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
      const { boot } = chunksOf(bundle)
      if (boot.imports.length > 0 || boot.exports.length > 0) {
        this.error('src/boot.ts must be one script without imports and exports.')
      }
    },
  }
}

/**
 * A pattern of the addresses of a route, by its file in src/routes, without the extension.
 * @throws Error for a name with the router's further signs, such as `_layout` or `(group)`.
 */
function pathOfRoute(file: string): string {
  if (!/^\$?[a-z\d-]+([./]\$?[a-z\d-]+)*$/i.test(file)) {
    throw new Error(
      `build/preload.ts cannot read the address of src/routes/${file}.tsx from its name. Use only words, '.', '/' and '$', or teach pathOfRoute the rest.`,
    )
  }
  const segments = file.split(/[./]/).map((name) => (name.startsWith('$') ? '[^/]+' : name))
  return `/${segments.join('/').replace(/(^|\/)index$/, '')}`
}

const scriptLink = ({ fileName }: Rolldown.OutputChunk): Link => ({
  rel: 'modulepreload',
  href: `/${fileName}`,
  crossorigin: true,
})

/** One `rel="boot"` link for each script and call, with the paths of all routes that need it. */
function bootLinks(routes: readonly Route[]): Link[] {
  const byHref = new Map(routes.flatMap(({ links }) => links).map((link) => [link.href, link]))
  return [...byHref.values()].map((link) => {
    const needing = routes.filter(({ links }) => links.some(({ href }) => href === link.href))
    return { ...link, rel: 'boot', 'data-at': needing.map(({ path }) => path).join('|') }
  })
}
