import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium } from '@playwright/test'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

/** The path of a Chromium on this machine: CHROMIUM_PATH, Playwright's own, or one on the PATH. */
export function findChromium(): string | undefined {
  const onPath = (process.env.PATH ?? '')
    .split(delimiter)
    .flatMap((folder) => names.map((name) => join(folder, name)))
  return [process.env.CHROMIUM_PATH ?? '', chromium.executablePath(), ...onPath].find(
    (path) => path !== '' && existsSync(path),
  )
}

function run(command: string, ...args: string[]): boolean {
  console.log(`> ${command} ${args.join(' ')}`)
  return spawnSync(command, args, { stdio: 'inherit' }).status === 0
}

function ensureChromium(): void {
  const found = findChromium()
  if (found) {
    console.log(`The browser tests use ${found}.`)
    return
  }
  console.log('No Chromium here: installing one for the browser tests.')
  const isRoot = process.getuid?.() === 0
  const isInstalled =
    run('npx', 'playwright', 'install', 'chromium') ||
    // Debian and its kin, where Playwright's download host cannot be reached.
    (isRoot &&
      existsSync('/usr/bin/apt-get') &&
      run('apt-get', 'update') &&
      run('apt-get', 'install', '-y', '--no-install-recommends', 'chromium'))
  if (!isInstalled || !findChromium()) {
    console.error(
      'No Chromium could be installed. Install one and name it in CHROMIUM_PATH, then run this again.',
    )
    process.exit(1)
  }
}

if (import.meta.main) ensureChromium()
