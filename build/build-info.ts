import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Plugin } from 'vite'
import { fingerprintOf } from '../server/page/fingerprint.ts'
import type { Config } from '../src/parse-config.ts'

/**
 * Writes `.build.json` as the last file of the build: what it was made from, and the origins that
 * the server's Content-Security-Policy needs (server/page/build.ts).
 */
export function buildInfo({ apiUrl, contactFormUrl }: Config): Plugin {
  const root = resolve(import.meta.dirname, '..')
  let folder = ''
  return {
    name: 'dealbell:build-info',
    apply: 'build',
    configResolved: ({ build }) => {
      folder = resolve(root, build.outDir)
    },
    closeBundle: {
      // After the compression, so that a build that was killed does not count as complete.
      order: 'post',
      sequential: true,
      async handler(error) {
        if (error) return
        const info = { ...(await fingerprintOf(root)), apiUrl, contactFormUrl }
        await writeFile(join(folder, '.build.json'), `${JSON.stringify(info)}\n`)
      },
    },
  }
}
