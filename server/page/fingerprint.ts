import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'

// All files that the build reads, besides node_modules.
const sources = [
  'src',
  'build',
  'contract',
  'public',
  'index.html',
  'vite.config.ts',
  'tailwind.config.ts',
  'postcss.config.js',
  'package-lock.json',
]

/** Identifies what the dashboard is built from. */
export interface Fingerprint {
  /** A hash of all source files. */
  sources: string
  /** A hash of all VITE_ settings; null if there are none. */
  settings: string | null
}

/** Returns the fingerprint of a build that would start now. */
export async function fingerprintOf(root: string): Promise<Fingerprint> {
  const files: [path: string, content: string][] = []
  for (const path of (await Promise.all(sources.map((source) => filesOf(root, source)))).flat()) {
    files.push([path, await readFile(join(root, path), 'base64')])
  }
  const settings = Object.entries(process.env).filter(
    ([name, value]) => name.startsWith('VITE_') && value?.trim(),
  )
  return { sources: hash(files), settings: settings.length === 0 ? null : hash(settings) }
}

/** The paths of a file, or of all files of a folder, from the root; with slashes on every system. */
async function filesOf(root: string, source: string): Promise<string[]> {
  const path = join(root, source)
  if (!existsSync(path)) return []
  if ((await stat(path)).isFile()) return [source]
  const entries = await readdir(path, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
}

function hash(entries: readonly (readonly [string, unknown])[]): string {
  return createHash('sha256').update(JSON.stringify(entries.toSorted())).digest('base64url')
}
