import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Plugin } from 'vite'
import { renameWhenFree } from '../server/database/rename.ts'
import type { Config } from '../src/parse-config.ts'
import { precompress } from './precompress.ts'

/** What the build says of itself: its settings, for the project's server (server/page/build.ts), and its files. */
const infoFile = '.build.json'

const keepMs = 3 * 24 * 3_600_000
const unfinished = '.new-'

/**
 * Builds in a folder of its own inside the folder of the build, and then renames each file to its place. So a server
 * always has a whole page, and builds at once do not meet. A page that is open during an upgrade still finds its later
 * parts: assets of former builds stay for three days.
 */
export function publish({ crm, chat, ...config }: Config): Plugin {
  let to: string
  let from: string
  return {
    name: 'dealbell:publish',
    apply: 'build',
    config({ root = '.', build }) {
      to = resolve(root, build?.outDir ?? 'dist')
      from = join(to, `${unfinished}${process.pid}-${Date.now()}`)
      return { build: { outDir: from, emptyOutDir: false } }
    },
    writeBundle: {
      // After all plugins that write or change a file.
      order: 'post',
      sequential: true,
      async handler() {
        await precompress(from)
        // The page comes after all that it needs.
        const files = (await filesIn(from)).toSorted(
          (a, b) => Number(isPage(a)) - Number(isPage(b)),
        )
        const former = await formerFiles(to)
        const info = { ...config, crmName: crm.name, chatName: chat.name, files }
        await writeFile(join(from, infoFile), JSON.stringify(info))
        // With this file, the build is complete. So it comes last.
        for (const file of [...files, infoFile]) {
          await mkdir(dirname(join(to, file)), { recursive: true })
          await renameWhenFree(join(from, file), join(to, file))
        }
        await clearUp(to, new Set([...files, infoFile]), former)
      },
    },
    // Also after a build that failed.
    closeBundle: () => rm(from, { recursive: true, force: true, maxRetries: 5 }),
  }
}

const isPage = (file: string) => file.startsWith('index.html')

/** The paths of the files in a folder, with slashes. Those of a build that still runs are none of them. */
async function filesIn(folder: string, under = ''): Promise<string[]> {
  const files: string[] = []
  for (const entry of await readdir(join(folder, under), { withFileTypes: true })) {
    const path = under + entry.name
    if (entry.isFile()) files.push(path)
    else if (!entry.name.startsWith(unfinished)) files.push(...(await filesIn(folder, `${path}/`)))
  }
  return files
}

/** The files of the build that is replaced. */
async function formerFiles(folder: string): Promise<ReadonlySet<string>> {
  const info = await readFile(join(folder, infoFile), 'utf8').catch(() => '{"files":[]}')
  return new Set(JSON.parse(info).files)
}

/**
 * Deletes what is not of this build. The three days of an asset begin when a build replaces it, however old it is then.
 * Another build may do the same at this moment.
 */
async function clearUp(
  folder: string,
  files: ReadonlySet<string>,
  former: ReadonlySet<string>,
): Promise<void> {
  const now = new Date()
  const isOld = async (path: string) => {
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }))
    return now.getTime() - mtimeMs > keepMs
  }
  for (const file of (await filesIn(folder)).filter((each) => !files.has(each))) {
    const path = join(folder, file)
    const isAsset = file.startsWith('assets/')
    if (isAsset && former.has(file)) await utimes(path, now, now).catch(() => {})
    else if (!isAsset || (await isOld(path))) await rm(path, { force: true })
  }
  // A build that was killed could not clear up.
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    if (name.startsWith(unfinished) && (await isOld(path))) {
      await rm(path, { recursive: true, force: true })
    }
  }
}
