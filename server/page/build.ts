import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { pagePolicy } from '../../contract/page-headers.ts'
import { defaultNames } from '../../contract/provider-names.ts'
import { fingerprintOf } from './fingerprint.ts'
import { type Dashboard, readDashboard } from './serve.ts'

const projectRoot = join(import.meta.dirname, '../..')

// The build writes this file about itself (build/build-info.ts).
const buildInfoFile = '.build.json'
const buildInfo = v.object({
  fingerprint: v.string(),
  apiUrl: v.string(),
  contactFormUrl: v.string(),
  crmName: v.string(),
  chatName: v.string(),
})

/**
 * Builds the dashboard if `dist/` does not match the sources and the VITE_ settings.
 * @param log gets a sentence before a build starts, because a build takes seconds.
 * @throws Error if the build fails. Or if the sources are missing and the settings are not those of the
 * build.
 */
export async function ensurePageBuilt(
  log: (sentence: string) => void,
  { root = projectRoot, build = runVite } = {},
): Promise<void> {
  const built = await readBuildInfo(join(root, 'dist'))
  // A release may contain dist/ without the sources.
  if (built !== undefined && !existsSync(join(root, 'index.html'))) {
    assertSettingsOf(built)
    return
  }
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
  return readDashboard(folder, pagePolicy(built))
}

/** A release without sources cannot be built again with other settings. */
function assertSettingsOf(built: v.InferOutput<typeof buildInfo>): void {
  const settings = {
    VITE_API_URL: built.apiUrl,
    VITE_CRM_NAME: built.crmName,
    VITE_CHAT_NAME: built.chatName,
    VITE_CONTACT_FORM_URL: built.contactFormUrl,
  }
  // This server answers for the default services if it serves their dashboard and no names are set.
  const unset: Readonly<Record<string, string>> = built.apiUrl === '' ? defaultNames : {}
  const problems = Object.entries(settings).flatMap(([name, built]) => {
    const set = process.env[name]?.trim().replace(/\/+$/, '') || unset[name]
    const differs = set !== undefined && set !== built.replace(/\/+$/, '')
    return differs ? [`- ${name} is '${set}', but dist/ was built with '${built}'.`] : []
  })
  if (problems.length > 0) {
    throw new Error(
      `${problems.join('\n')}\nCorrect these settings, or build dist/ with them where the sources are (npm run build).`,
    )
  }
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
  if (!existsSync(program)) {
    throw new Error('Vite is not installed, so the dashboard cannot be built. Run npm ci.')
  }
  const vite = spawn(process.execPath, [program, 'build', '--configLoader', 'native'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  vite.on('error', reject)
  vite.on('exit', resolve)
  if ((await promise) !== 0) {
    throw new Error(
      'The dashboard could not be built; see above. Without the dashboard, the server starts with SERVE_DASHBOARD=false.',
    )
  }
}
