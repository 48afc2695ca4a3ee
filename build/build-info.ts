import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Plugin } from 'vite'
import type { Config } from '../src/parse-config.ts'

/**
 * Writes `.build.json` for the project's server (server/page/build.ts): the settings of the build, on which the policy
 * of the page depends.
 */
export function buildInfo({ apiUrl, contactFormUrl, crm, chat }: Config): Plugin {
  return {
    name: 'dealbell:build-info',
    apply: 'build',
    // Vite calls `closeBundle` after a failed build, too.
    writeBundle: {
      // After the compression, so that an interrupted build does not count as complete.
      order: 'post',
      sequential: true,
      async handler() {
        const { root, build } = this.environment.config
        const folder = resolve(root, build.outDir)
        const info = { apiUrl, contactFormUrl, crmName: crm.name, chatName: chat.name }
        await writeFile(join(folder, '.build.json'), JSON.stringify(info))
      },
    },
  }
}
