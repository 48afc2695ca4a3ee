import { execFileSync } from 'node:child_process'
import { cpSync, existsSync } from 'node:fs'
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
