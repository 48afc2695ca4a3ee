import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { pagePolicy } from '../../contract/page-headers.ts'
import { fingerprintOf } from './fingerprint.ts'
import { type Dashboard, readDashboard } from './serve.ts'

const projectRoot = join(import.meta.dirname, '../..')

// The build writes this file about itself (build/build-info.ts).
const buildInfoFile = '.build.json'
const buildInfo = v.object({
  fingerprint: v.string(),
  apiUrl: v.string(),
  contactFormUrl: v.string(),
})

/**
 * Builds the dashboard if `dist/` does not match the sources and the VITE_ settings.
 * @param log gets a sentence before a build starts, because a build takes seconds.
 * @throws Error if the build fails.
 */
export async function ensurePageBuilt(
  log: (sentence: string) => void,
  { root = projectRoot, build = runVite } = {},
): Promise<void> {
  const built = await readBuildInfo(join(root, 'dist'))
  // A release may contain dist/ without the sources.
  if (built !== undefined && !existsSync(join(root, 'index.html'))) return
  if (built?.fingerprint === (await fingerprintOf(root))) return
  log(
    `Building the dashboard, because ${
      built === undefined ? 'this version is not built yet' : 'its sources or settings have changed'
    } …`,
  )
  await build(root)
}

/** Reads the built page. Its policy fits the settings of the build. */
export async function readBuiltPage(folder = join(projectRoot, 'dist')): Promise<Dashboard> {
  const built = await readBuildInfo(folder)
  if (built === undefined) {
    throw new Error(`${folder} has no build of this version. Run npm run build.`)
  }
  return readDashboard(folder, (path) => pagePolicy(built, path))
}

async function readBuildInfo(folder: string) {
  const path = join(folder, buildInfoFile)
  if (!existsSync(path)) return undefined
  const { success, output } = v.safeParse(buildInfo, JSON.parse(await readFile(path, 'utf8')))
  return success ? output : undefined
}

// Runs the build in a separate process, so that the system gets its memory back.
async function runVite(root: string): Promise<void> {
  const program = join(root, 'node_modules/vite/bin/vite.js')
  const vite = spawn(process.execPath, [program, 'build', '--configLoader', 'native'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  vite.on('error', reject)
  vite.on('exit', resolve)
  if ((await promise) !== 0) throw new Error('The dashboard could not be built; see above.')
}
