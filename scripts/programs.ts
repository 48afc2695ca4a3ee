import { spawnSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium as playwrightChromium } from '@playwright/test'

/** A program that tests need and that npm does not install. */
interface Program<Found = string> {
  name: string
  /** The tests that need it. */
  tests: string
  /** @returns its path, or several paths. */
  find: () => Found | undefined
  /** Debian's packages. */
  packages: string[]
  /** The variable of the environment that names its path. */
  variable?: string
  /** Another way to install it, tried first. @returns whether it worked. */
  install?: () => boolean
}

/** Installs the program if it is missing. @returns what `find` returns; undefined when it cannot be installed. */
export function ensure<Found>(program: Program<Found>): Found | undefined {
  const found = program.find()
  if (found !== undefined) return found
  console.log(`${program.tests} need ${program.name}: installing it.`)
  program.install?.() || installDebianPackages(program.packages)
  return program.find()
}

/** Says that the tests did not run, and what to do. */
export function without({ name, tests, variable }: Program<unknown>): string {
  const otherwise = variable === undefined ? '' : `, or set ${variable}`
  return `${tests} did not run: ${name} is missing and could not be installed. Install it${otherwise}.`
}

export const chromium: Program = {
  name: 'Chromium',
  tests: 'The browser tests',
  variable: 'CHROMIUM_PATH',
  find: () =>
    firstThatExists([
      process.env.CHROMIUM_PATH,
      playwrightChromium.executablePath(),
      ...['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'].flatMap(onPath),
    ]),
  packages: ['chromium'],
  // Debian's package also helps where Playwright's download host cannot be reached.
  install: () => run('npx', 'playwright', 'install', 'chromium'),
}

/** What each test gives to Chromium. */
export const chromiumArguments = [
  // Chromium's sandbox does not work for root.
  ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
]

export const nginx: Program = {
  name: 'nginx',
  tests: 'The hosting tests',
  variable: 'NGINX_PATH',
  find: named('NGINX_PATH', 'nginx'),
  packages: ['nginx-light'],
}

export const caddy: Program = {
  name: 'Caddy',
  tests: 'The tests of Caddy',
  variable: 'CADDY_PATH',
  find: named('CADDY_PATH', 'caddy'),
  packages: ['caddy'],
}

export const pgbouncer: Program = {
  name: 'PgBouncer',
  tests: 'The tests with PgBouncer',
  variable: 'PGBOUNCER_PATH',
  find: named('PGBOUNCER_PATH', 'pgbouncer'),
  packages: ['pgbouncer'],
}

export const firefox: Program = {
  name: 'Firefox',
  tests: 'The tests in Firefox',
  variable: 'FIREFOX_PATH',
  find: named('FIREFOX_PATH', 'firefox-esr', 'firefox'),
  packages: ['firefox-esr'],
}

export interface WebkitPrograms {
  driver: string
  miniBrowser: string
  xvfb: string
}

/** WebKitGTK, the engine of Safari, without a screen. */
export const webkit: Program<WebkitPrograms> = {
  name: "WebKitGTK's driver with Xvfb",
  tests: 'The tests in WebKit',
  variable: 'WEBKIT_DRIVER_PATH',
  find: () => {
    const driver = firstThatExists([process.env.WEBKIT_DRIVER_PATH, ...onPath('WebKitWebDriver')])
    // Its folder is named after the processor, such as /usr/lib/x86_64-linux-gnu/webkit2gtk-4.1.
    const [miniBrowser] = globSync('/usr/{lib,lib/*,libexec}/webkit2gtk-4.*/MiniBrowser')
    const xvfb = firstThatExists(onPath('Xvfb'))
    if (driver === undefined || miniBrowser === undefined || xvfb === undefined) return undefined
    return { driver, miniBrowser, xvfb }
  },
  packages: ['webkit2gtk-driver', 'xvfb'],
}

/** The path of systemd-analyze. It is not installed for the tests, because a system has its own. */
export function findSystemdAnalyze(): string | undefined {
  return firstThatExists(onPath('systemd-analyze'))
}

/** Returns a function that finds a program at the path in this variable, or by one of these names. */
function named(variable: string, ...names: readonly string[]): () => string | undefined {
  return () => firstThatExists([process.env[variable], ...names.flatMap(onPath)])
}

/** Where a program may be. A user's PATH often lacks the folders of servers. */
function onPath(program: string): string[] {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return folders.map((folder) => join(folder, program))
}

function firstThatExists(paths: ReadonlyArray<string | undefined>): string | undefined {
  return paths.find((path) => path !== undefined && path !== '' && existsSync(path))
}

function installDebianPackages(names: string[]): boolean {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return false
  const install = () => run('apt-get', 'install', '-y', '--no-install-recommends', ...names)
  // The first try fails if the list of packages is missing or old.
  return install() || (run('apt-get', 'update') && install())
}

function run(command: string, ...args: string[]): boolean {
  console.log(`> ${command} ${args.join(' ')}`)
  return spawnSync(command, args, { stdio: 'inherit' }).status === 0
}
