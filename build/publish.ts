import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Plugin } from 'vite'
import { renameWhenFree } from '../server/database/rename.ts'

/** The build lists its files in it. */
const listFile = '.files.json'

const keepMs = 3 * 24 * 3_600_000
const unfinished = '.new-'

/**
 * Builds in a folder of its own inside the folder of the build, and then renames each file to its place. So a server
 * always has a whole page, and builds at once do not meet. A page that is open during an upgrade still finds its later
 * parts: assets of former builds stay for three days.
 */
export function publish(): Plugin {
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
      // After all plugins that write a file.
      order: 'post',
      sequential: true,
      async handler() {
        const files = (await filesIn(from)).toSorted((a, b) => rank(a) - rank(b))
        const former = await formerFiles(to)
        await writeFile(join(from, listFile), JSON.stringify(files))
        for (const file of [...files, listFile]) {
          await mkdir(dirname(join(to, file)), { recursive: true })
          await renameWhenFree(join(from, file), join(to, file))
        }
        await clearUp(to, new Set([...files, listFile]), former)
      },
    },
    // Also after a build that failed.
    closeBundle: () => rm(from, { recursive: true, force: true, maxRetries: 5 }),
  }
}

/** The page comes after all that it needs, and what says that the build is complete comes last. */
function rank(file: string): number {
  if (file.startsWith('assets/')) return 0
  if (file === '.build.json') return 3
  return file.startsWith('index.html') ? 2 : 1
}

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

/** A build of a former version has no list. Then all files are of it. */
async function formerFiles(folder: string): Promise<ReadonlySet<string>> {
  const list = await readFile(join(folder, listFile), 'utf8').catch(() => undefined)
  return new Set(list === undefined ? await filesIn(folder) : JSON.parse(list))
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
