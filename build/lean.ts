import { resolve } from 'node:path'
import type { Plugin } from 'vite'
import type { Config } from '../src/parse-config.ts'

/** Leaves out of the build what only costs bytes there. */
export function lean(config: Config): Plugin {
  const configModule = resolve(import.meta.dirname, '../src/config.ts')
  return {
    name: 'dealbell:lean',
    apply: 'build',
    enforce: 'pre',
    load(id) {
      // The settings are known and checked: the browser needs their values, not what reads them.
      if (id === configModule) return `export const config = ${JSON.stringify(config)}`
      // Vite's helper preloads what an import needs; the boot script has done so (build/page.ts).
      if (id.endsWith('vite/preload-helper.js')) {
        return 'export const __vitePreload = (load) => load()'
      }
      // What the router reads its store with is for React before 18; React has it built in since.
      if (id.endsWith('use-sync-external-store/shim/index.js')) {
        return "export { useSyncExternalStore } from 'react'"
      }
      // No query here has pages; one that had would say so at once.
      if (id.endsWith('/query-core/build/modern/infiniteQueryBehavior.js')) {
        const refuse = "() => { throw Error('build/lean.ts leaves infinite queries out') }"
        return ['infiniteQueryBehavior', 'hasNextPage', 'hasPreviousPage']
          .map((name) => `export const ${name} = ${refuse}`)
          .join('\n')
      }
      return null
    },
  }
}
