import { createHash } from 'node:crypto'
import { glob, readFile } from 'node:fs/promises'
import { join, sep } from 'node:path'

// All files that the build reads. package-lock.json stands for node_modules.
const sources = [
  '{src,build,contract,public}/**/*.*',
  'index.html',
  'vite.config.ts',
  'tailwind.config.ts',
  'postcss.config.js',
  'package-lock.json',
]

/** Hashes everything that a build depends on: the source files and the VITE_ settings. */
export async function fingerprintOf(root: string): Promise<string> {
  const inputs = Object.entries(process.env).filter(
    ([name, value]) => name.startsWith('VITE_') && value?.trim(),
  )
  for await (const path of glob(sources, { cwd: root })) {
    // Use the same path on every system.
    inputs.push([path.split(sep).join('/'), await readFile(join(root, path), 'base64')])
  }
  return createHash('sha256').update(JSON.stringify(inputs.sort())).digest('base64url')
}
