import { readdir, readFile, writeFile } from 'node:fs/promises'
import { extname, join } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, gzip, constants as zlib } from 'node:zlib'

const compressible = new Set(['.css', '.html', '.js', '.json', '.svg', '.txt', '.webmanifest'])

/**
 * Writes a .br and a .gz file next to every file that compression makes smaller. The best
 * compression takes too long to do it at each request. The project's server and many hosts serve
 * these files.
 */
export async function precompress(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isFile() && compressible.has(extname(entry.name))) {
      await compressBeside(join(entry.parentPath, entry.name))
    }
  }
}

async function compressBeside(path: string): Promise<void> {
  const body = await readFile(path)
  const params = {
    [zlib.BROTLI_PARAM_QUALITY]: zlib.BROTLI_MAX_QUALITY,
    [zlib.BROTLI_PARAM_SIZE_HINT]: body.length,
  }
  const copies = {
    br: await promisify(brotliCompress)(body, { params }),
    gz: await promisify(gzip)(body, { level: zlib.Z_BEST_COMPRESSION }),
  }
  for (const [extension, compressed] of Object.entries(copies)) {
    if (compressed.length < body.length) await writeFile(`${path}.${extension}`, compressed)
  }
}
