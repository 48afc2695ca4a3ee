import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import * as v from 'valibot'
import { pagePolicy } from '../../contract/page-headers.ts'
import { type Dashboard, readDashboard } from './serve.ts'

/** The project's folder. */
const projectRoot = join(import.meta.dirname, '../..')
const distFolder = join(projectRoot, 'dist')

// What the page is made of, beside the VITE_ settings.
const sources = [
  'src',
  'build',
  'contract',
  'public',
  'index.html',
  'vite.config.ts',
  'tailwind.config.ts',
  'postcss.config.js',
  'package-lock.json',
]

// Beside the page, so that it goes where the page goes. Never served: its name begins with a dot.
const settingsFile = 'dist/.settings.json'

/**
 * The VITE_ settings of a build that starts now, from the files and in the order in which Vite reads
 * them. Vite's own function is not asked, since a server that has built has no use for Vite.
 */
async function pageSettings(root = projectRoot): Promise<Record<string, string>> {
  const settings: Record<string, string> = {}
  const add = (from: NodeJS.Dict<string>) => {
    for (const [name, value] of Object.entries(from)) {
      if (name.startsWith('VITE_') && value !== undefined) settings[name] = value
    }
  }
  for (const name of ['.env', '.env.local', '.env.production', '.env.production.local']) {
    const path = join(root, name)
    if (existsSync(path)) add(parseEnv(await readFile(path, 'utf8')))
  }
  add(process.env)
  return settings
}

/**
 * Builds the page when it is missing, older than its sources or made with other settings.
 * @param say is told before a build begins, since it takes seconds.
 */
export async function ensurePageBuilt(
  say: (sentence: string) => void,
  { root = projectRoot, build = runVite } = {},
): Promise<void> {
  const reason = await whyBuild(root)
  if (reason === undefined) return
  say(`Building the dashboard, because ${reason} …`)
  await build(root)
  await writeFile(join(root, settingsFile), written(await pageSettings(root)))
}

// What the build says of itself (build/security.ts).
const pageOrigins = v.object({ apiUrl: v.string(), contactFormUrl: v.string() })

/** The page as it was built, with the policy for the settings that it was built with. */
export async function readBuiltPage(folder = distFolder): Promise<Dashboard> {
  const said = await readFile(join(folder, '.origins.json'), 'utf8').catch(() => {
    throw new Error(`${folder} was made by another version: run npm run build.`)
  })
  const origins = v.parse(pageOrigins, JSON.parse(said))
  return readDashboard(folder, (path) => pagePolicy(origins, path))
}

async function whyBuild(root: string): Promise<string | undefined> {
  const page = join(root, 'dist', 'index.html')
  if (!existsSync(page)) return 'it was not built yet'
  // A release may come as the built page alone.
  if (!existsSync(join(root, 'index.html'))) return undefined

  const builtAt = (await stat(page)).mtimeMs
  const times = await Promise.all(sources.map((source) => newestTime(join(root, source))))
  if (Math.max(...times) > builtAt) return 'its sources are newer'

  // A build by hand leaves no note of its settings, and is taken as it was meant.
  const note = join(root, settingsFile)
  if (!existsSync(note)) return undefined
  const builtWith = await readFile(note, 'utf8')
  return builtWith === written(await pageSettings(root))
    ? undefined
    : 'the VITE_ settings have changed'
}

async function newestTime(path: string): Promise<number> {
  if (!existsSync(path)) return 0
  const found = await stat(path)
  if (!found.isDirectory()) return found.mtimeMs
  const within = await readdir(path)
  const times = await Promise.all(within.map((name) => newestTime(join(path, name))))
  // The folder's own time tells of a file that was removed.
  return Math.max(found.mtimeMs, ...times)
}

// A process of its own, so that what the build needs is given back when it ends.
async function runVite(root: string): Promise<void> {
  const vite = spawn(process.execPath, [join(root, 'node_modules/vite/bin/vite.js'), 'build'], {
    cwd: root,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const { promise, resolve, reject } = Promise.withResolvers<number | null>()
  vite.on('error', reject)
  vite.on('exit', resolve)
  if ((await promise) !== 0) throw new Error('The dashboard could not be built; see above.')
}

function written(settings: Record<string, string>): string {
  return JSON.stringify(Object.entries(settings).sort())
}
