import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readlinkSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')

/** Copies the files of the project, also those that are not committed yet, without its packages. */
export function copyProject(folder: string): void {
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  const files = execFileSync('git', list, { cwd: root, encoding: 'utf8' }).split('\0')
  for (const file of files.filter((file) => file !== '' && existsSync(join(root, file)))) {
    cpSync(join(root, file), join(folder, file), { verbatimSymlinks: true })
  }
}

// A link cannot lead to another disk.
const linkOrCopy = statSync(root).dev === statSync(tmpdir()).dev ? linkSync : copyFileSync

/** Gives a copy of the project its packages. */
export const linkPackages = (project: string) =>
  linkFiles(join(root, 'node_modules'), join(project, 'node_modules'))

/** Links each file, because Biome fails at a link to a folder elsewhere, and a copy would take long. */
function linkFiles(from: string, to: string): void {
  mkdirSync(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    // Vite, Vitest and Node write to their caches.
    if (['.vite', '.vitest', '.cache'].includes(entry.name)) continue
    if (entry.isDirectory()) linkFiles(source, target)
    else if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), target)
    else linkOrCopy(source, target)
  }
}
