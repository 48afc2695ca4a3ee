import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium } from '@playwright/test'

// Finds and installs the programs that the tests need and that npm does not install.

/** The path of Chromium: CHROMIUM_PATH, Playwright's Chromium, or one on the PATH. */
export function findChromium(): string | undefined {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  return firstThatExists([
    process.env.CHROMIUM_PATH,
    chromium.executablePath(),
    ...pathFolders().flatMap((folder) => names.map((name) => join(folder, name))),
  ])
}

/** Installs Chromium if there is none. @returns its path; undefined when it cannot be installed. */
export function ensureChromium(): string | undefined {
  if (findChromium() === undefined) {
    console.log('The browser tests need Chromium: installing it.')
    // Debian's package also helps where Playwright's download host cannot be reached.
    run('npx', 'playwright', 'install', 'chromium') || installDebianPackage('chromium')
  }
  return findChromium()
}

/** The path of nginx: NGINX_PATH, or one on the PATH or in the usual folders. */
export function findNginx(): string | undefined {
  const folders = [...pathFolders(), '/usr/sbin', '/usr/local/sbin']
  return firstThatExists([
    process.env.NGINX_PATH,
    ...folders.map((folder) => join(folder, 'nginx')),
  ])
}

/** Installs nginx if there is none. @returns its path; undefined when it cannot be installed. */
export function ensureNginx(): string | undefined {
  if (findNginx() === undefined) {
    console.log('The hosting tests need nginx: installing it.')
    installDebianPackage('nginx-light')
  }
  return findNginx()
}

function pathFolders(): string[] {
  return (process.env.PATH ?? '').split(delimiter)
}

function firstThatExists(paths: ReadonlyArray<string | undefined>): string | undefined {
  return paths.find((path) => path !== undefined && path !== '' && existsSync(path))
}

function installDebianPackage(name: string): boolean {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return false
  const install = () => run('apt-get', 'install', '-y', '--no-install-recommends', name)
  // The first try fails if the list of packages is missing or old.
  return install() || (run('apt-get', 'update') && install())
}

function run(command: string, ...args: string[]): boolean {
  console.log(`> ${command} ${args.join(' ')}`)
  return spawnSync(command, args, { stdio: 'inherit' }).status === 0
}
