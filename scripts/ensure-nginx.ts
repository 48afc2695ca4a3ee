import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'

function findNginx(): string | undefined {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  return [process.env.NGINX_PATH ?? '', ...folders.map((folder) => join(folder, 'nginx'))].find(
    (path) => path !== '' && existsSync(path),
  )
}

function run(command: string, ...args: string[]): boolean {
  console.log(`> ${command} ${args.join(' ')}`)
  return spawnSync(command, args, { stdio: 'inherit' }).status === 0
}

/**
 * The path of an nginx: NGINX_PATH, one that is there, or one that is installed now.
 * @throws Error that says what to do when there is none and none can be installed.
 */
export function ensureNginx(): string {
  const found = findNginx()
  if (found !== undefined) return found
  console.log('No nginx here: installing one for the test of the headers on another host.')
  const install = ['install', '-y', '--no-install-recommends', 'nginx-light']
  if (process.getuid?.() === 0 && existsSync('/usr/bin/apt-get')) {
    // Without an index of packages the first try fails.
    if (!run('apt-get', ...install)) run('apt-get', 'update') && run('apt-get', ...install)
  }
  const installed = findNginx()
  if (installed !== undefined) return installed
  throw new Error(
    'No nginx could be installed. Install one, or name one in NGINX_PATH, then run this again.',
  )
}
