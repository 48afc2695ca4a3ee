import { readdir, readFile, writeFile } from 'node:fs/promises'
import { extname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip, constants as zlib } from 'node:zlib'
import type { Plugin } from 'vite'

const compressible = new Set(['.css', '.html', '.js', '.json', '.svg', '.txt', '.webmanifest'])

/**
 * Writes a .br and a .gz beside every file of the build that gains by it: the smallest that each can be
 * takes seconds, which no visitor should wait for. Any static host that looks for such files serves them.
 */
export function precompress(): Plugin {
  let folder = ''
  return {
    name: 'dealbell:precompress',
    apply: 'build',
    configResolved: ({ root, build }) => {
      folder = resolve(root, build.outDir)
    },
    closeBundle: {
      // After everything that still changes a file.
      order: 'post',
      sequential: true,
      async handler(error) {
        if (error) return
        for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
          if (entry.isFile() && compressible.has(extname(entry.name))) {
            await compressBeside(join(entry.parentPath, entry.name))
          }
        }
      },
    },
  }
}

async function compressBeside(path: string): Promise<void> {
  const body = await readFile(path)
  const params = {
    [zlib.BROTLI_PARAM_QUALITY]: zlib.BROTLI_MAX_QUALITY,
    [zlib.BROTLI_PARAM_SIZE_HINT]: body.length,
  }
  const made = {
    br: await promisify(brotliCompress)(body, { params }),
    gz: await promisify(gzip)(body, { level: zlib.Z_BEST_COMPRESSION }),
  }
  for (const [extension, compressed] of Object.entries(made)) {
    if (compressed.length < body.length) await writeFile(`${path}.${extension}`, compressed)
  }
}
