import type { Plugin } from 'vite'

/**
 * Gives contract/activity.ts its own copy of the schema library. The library is one file, and the build puts a
 * file into one script. Without the copy, the main script would contain what only later scripts use.
 */
export function lateSchemas(): Plugin {
  return {
    name: 'dealbell:late-schemas',
    apply: 'build',
    enforce: 'pre',
    async resolveId(source, importer) {
      if (source !== 'valibot' || !importer?.endsWith('/contract/activity.ts')) return null
      const library = await this.resolve(source, importer, { skipSelf: true })
      return library && { ...library, id: `${library.id}?late` }
    },
  }
}
