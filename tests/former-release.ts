import { execFileSync } from 'node:child_process'
import { cpSync, symlinkSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { newFolder } from './database.ts'

const root = resolve(import.meta.dirname, '..')
const migrations = 'server/database/migrations'

/** For Drizzle's migrator, which former releases used: the migrations up to the one of this number. */
export async function migrationsUpTo(last: string): Promise<{ migrationsFolder: string }> {
  const migrationsFolder = await newFolder()
  cpSync(join(root, migrations), migrationsFolder, { recursive: true })
  const path = join(migrationsFolder, 'meta/_journal.json')
  const journal: { entries: Array<{ tag: string }> } = JSON.parse(await readFile(path, 'utf8'))
  const entries = journal.entries.filter(({ tag }) => tag.slice(0, 4) <= last)
  await writeFile(path, JSON.stringify({ ...journal, entries }))
  return { migrationsFolder }
}

const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })

/**
 * The code before a migration, in a folder. Undefined if git does not know it, as in a shallow clone.
 * @param migration is the beginning of its name. The default is the newest one.
 */
export async function versionBefore(migration = ''): Promise<string | undefined> {
  const folder = await newFolder()
  try {
    const path = `${migrations}/${migration}*.sql`
    const commit = git('log', '-1', '--diff-filter=A', '--format=%H', '--', path).trim()
    const archive = join(folder, 'code.tar')
    const parts = ['server', 'contract', 'stand-ins', 'package.json']
    git('archive', `--output=${archive}`, `${commit}^`, ...parts)
    execFileSync('tar', ['-xf', archive, '-C', folder])
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
    return folder
  } catch {
    console.log('A former version was not tested: its code is not in this clone.')
    return undefined
  }
}
