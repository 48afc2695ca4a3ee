import { spawnSync } from 'node:child_process'
import { existsSync, globSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium } from '@playwright/test'

// Finds and installs the programs that the tests need and that npm does not install.

/** The path of Chromium: CHROMIUM_PATH, Playwright's Chromium, or one on the PATH. */
export function findChromium(): string | undefined {
  const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
  return firstThatExists([
    process.env.CHROMIUM_PATH,
    chromium.executablePath(),
    ...names.flatMap(onPath),
  ])
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

/** Installs Chromium if there is none. @returns its path; undefined when it cannot be installed. */
export function ensureChromium(): string | undefined {
  if (findChromium() === undefined) {
    console.log('The browser tests need Chromium: installing it.')
    // Debian's package also helps where Playwright's download host cannot be reached.
    run('npx', 'playwright', 'install', 'chromium') || installDebianPackages('chromium')
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
    installDebianPackages('nginx-light')
  }
  return findNginx()
}

/** The path of Caddy: CADDY_PATH, or one on the PATH. */
export function findCaddy(): string | undefined {
  return firstThatExists([process.env.CADDY_PATH, ...onPath('caddy')])
}

/** Installs Caddy if there is none. @returns its path; undefined when it cannot be installed. */
export function ensureCaddy(): string | undefined {
  if (findCaddy() === undefined) {
    console.log('A hosting test needs Caddy: installing it.')
    installDebianPackages('caddy')
  }
  return findCaddy()
}

/** The path of systemd-analyze. It is not installed for the tests, because a system has its own. */
export function findSystemdAnalyze(): string | undefined {
  return firstThatExists(onPath('systemd-analyze'))
}

/** The path of PgBouncer: PGBOUNCER_PATH, or one on the PATH or in the usual folders. */
export function findPgbouncer(): string | undefined {
  const folders = [...pathFolders(), '/usr/sbin', '/usr/local/sbin']
  return firstThatExists([
    process.env.PGBOUNCER_PATH,
    ...folders.map((folder) => join(folder, 'pgbouncer')),
  ])
}

/** Installs PgBouncer if there is none. @returns its path; undefined when it cannot be installed. */
export function ensurePgbouncer(): string | undefined {
  if (findPgbouncer() === undefined) {
    console.log('The tests with PgBouncer need it: installing it.')
    installDebianPackages('pgbouncer')
  }
  return findPgbouncer()
}

/** The programs of a PostgreSQL that fails over. */
export interface ClusterPrograms {
  etcd: string
  patroni: string
  haproxy: string
  /** The folder with PostgreSQL's own programs. */
  postgresBin: string
}

/** Installs what is missing of Debian's packages. @returns undefined when they cannot be installed. */
export function ensureCluster(): ClusterPrograms | undefined {
  const found = findCluster()
  if (found !== undefined) return found
  console.log('The failover test needs PostgreSQL, Patroni, etcd and HAProxy: installing them.')
  installDebianPackages('postgresql', 'patroni', 'etcd-server', 'haproxy')
  return findCluster()
}

function findCluster(): ClusterPrograms | undefined {
  const find = (name: string) => firstThatExists([...onPath(name), join('/usr/sbin', name)])
  const [etcd, patroni, haproxy] = ['etcd', 'patroni', 'haproxy'].map(find)
  const postgresBin = globSync('/usr/lib/postgresql/*/bin').at(-1)
  if (!etcd || !patroni || !haproxy || !postgresBin) return undefined
  return { etcd, patroni, haproxy, postgresBin }
}

/** The path of promtool, which comes with Prometheus: PROMTOOL_PATH, or one on the PATH. */
export function findPromtool(): string | undefined {
  return firstThatExists([process.env.PROMTOOL_PATH, ...onPath('promtool')])
}

/** Installs Prometheus if there is no promtool. @returns its path; undefined when it cannot be installed. */
export function ensurePromtool(): string | undefined {
  if (findPromtool() === undefined) {
    console.log('The tests of the alert rules need promtool: installing Prometheus.')
    installDebianPackages('prometheus')
  }
  return findPromtool()
}

/** The path of Firefox: FIREFOX_PATH, or one on the PATH. */
export function findFirefox(): string | undefined {
  return firstThatExists([process.env.FIREFOX_PATH, ...onPath('firefox-esr'), ...onPath('firefox')])
}

/** Installs Firefox if there is none. @returns its path; undefined when it cannot be installed. */
export function ensureFirefox(): string | undefined {
  if (findFirefox() === undefined) {
    console.log('The tests in Firefox need it: installing it.')
    installDebianPackages('firefox-esr')
  }
  return findFirefox()
}

/** The programs that run WebKitGTK, the engine of Safari, without a screen. */
export interface WebkitPrograms {
  driver: string
  miniBrowser: string
  xvfb: string
}

/** The programs of WebKitGTK; the driver is WEBKIT_DRIVER_PATH, or one on the PATH. */
export function findWebkit(): WebkitPrograms | undefined {
  const driver = firstThatExists([process.env.WEBKIT_DRIVER_PATH, ...onPath('WebKitWebDriver')])
  // Its folder is named after the processor, such as /usr/lib/x86_64-linux-gnu/webkit2gtk-4.1.
  const [miniBrowser] = globSync('/usr/{lib,lib/*,libexec}/webkit2gtk-4.*/MiniBrowser')
  const xvfb = firstThatExists(onPath('Xvfb'))
  if (driver === undefined || miniBrowser === undefined || xvfb === undefined) return undefined
  return { driver, miniBrowser, xvfb }
}

/** Installs WebKit if there is none. @returns undefined when it cannot be installed. */
export function ensureWebkit(): WebkitPrograms | undefined {
  if (findWebkit() === undefined) {
    console.log('The tests in WebKit need its driver and Xvfb: installing them.')
    installDebianPackages('webkit2gtk-driver', 'xvfb')
  }
  return findWebkit()
}

function onPath(program: string): string[] {
  return pathFolders().map((folder) => join(folder, program))
}

function pathFolders(): string[] {
  return (process.env.PATH ?? '').split(delimiter)
}

function firstThatExists(paths: ReadonlyArray<string | undefined>): string | undefined {
  return paths.find((path) => path !== undefined && path !== '' && existsSync(path))
}

function installDebianPackages(...names: string[]): boolean {
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) return false
  const install = () => run('apt-get', 'install', '-y', '--no-install-recommends', ...names)
  // The first try fails if the list of packages is missing or old.
  return install() || (run('apt-get', 'update') && install())
}

function run(command: string, ...args: string[]): boolean {
  console.log(`> ${command} ${args.join(' ')}`)
  return spawnSync(command, args, { stdio: 'inherit' }).status === 0
}
