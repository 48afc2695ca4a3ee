import { join } from 'node:path'
import type { Plugin } from 'vite'
import { endpoints, pathOf } from '../contract/endpoints.ts'
import type { Config } from '../src/parse-config.ts'

/**
 * Adds src/boot.ts to the page, with the addresses of what it starts
 * (docs/decisions.md, 301).
 */
export function boot({ apiUrl, crm, chat }: Config): Plugin {
  const addresses = (...paths: string[]) => paths.map((path) => apiUrl + path).join(' ')
  return {
    name: 'dealbell:boot',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'chunk', id: join(import.meta.dirname, '../src/boot.ts') })
    },
    transformIndexHtml: {
      order: 'post',
      handler(_html, { bundle = {} }) {
        const fileOf = (source: string) => {
          const chunk = Object.values(bundle).find(
            (file) => file.type === 'chunk' && file.facadeModuleId?.endsWith(source),
          )
          if (chunk === undefined) throw new Error(`The build has no script for ${source}.`)
          return `/${chunk.fileName}`
        }
        const attrs = {
          src: fileOf('/src/boot.ts'),
          // A deferred script runs before the main script, so it starts the calls before the app.
          // Without the priority, Chromium requests it after all others.
          defer: true,
          fetchpriority: 'high',
          'data-last': fileOf('/react-dom/client.js'),
          'data-calls': addresses(endpoints.health.path),
          // Those of the loader in src/routes/index.tsx.
          'data-dashboard-calls': addresses(
            pathOf(endpoints.status, crm.id),
            pathOf(endpoints.status, chat.id),
            endpoints.rules.path,
          ),
        }
        return [{ tag: 'script', attrs, injectTo: 'head-prepend' }]
      },
    },
  }
}

/**
 * Keeps Cloudflare's Rocket Loader from the page's scripts: it would run them itself, which Trusted Types forbid. It reads
 * only what precedes `src`. So this comes after what adds a script.
 */
export const withoutRocketLoader: Plugin = {
  name: 'dealbell:without-rocket-loader',
  apply: 'build',
  transformIndexHtml: {
    order: 'post',
    handler: (html) => html.replaceAll('<script ', '<script data-cfasync="false" '),
  },
}
