import type { Plugin } from 'vite'
import type { Config } from '../src/parse-config.ts'

/** Puts the settings into the page as the build has read them, without the code that checks them. */
export function settings(config: Config): Plugin {
  return {
    name: 'dealbell:settings',
    apply: 'build',
    load: {
      filter: { id: /\/src\/config\.ts$/ },
      handler: () => `export const config = ${JSON.stringify(config)}`,
    },
  }
}
