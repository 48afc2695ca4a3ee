import fs from 'node:fs'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'

interface Stream {
  /** The file's descriptor. A folder has none. */
  nfd?: number
  node: unknown
}

/** What this file uses of Emscripten's file system for folders of Node. PGlite has no type for it. */
interface NodeFolders {
  realPath(node: unknown): string
  stream_ops: { fsync?: (stream: Stream) => number }
}

/**
 * PGlite's folder, with a working fsync. Without this class, Emscripten ignores the database's request to write to
 * the disk. A power cut could then lose acknowledged events or break the folder.
 */
class SyncedFolder extends NodeFS {
  override async init(...args: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(...args)
    const addSync = (module: unknown) => {
      // PGlite's own class reads NODEFS from the same module.
      const { NODEFS } = module as { NODEFS: NodeFolders }
      NODEFS.stream_ops.fsync = ({ nfd, node }) => {
        if (nfd === undefined) syncPath(NODEFS.realPath(node))
        else fs.fsyncSync(nfd)
        return 0
      }
    }
    return {
      emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), addSync] },
    }
  }
}

// PGlite's own parameters turn fsync off. Emscripten also ignores fdatasync.
const startParams = [
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
  '-c',
  'wal_sync_method=fsync',
]

/** Opens a folder so that a power cut loses nothing that was committed. */
export async function openSynced(folder: string): Promise<PGlite> {
  return await PGlite.create({ fs: new SyncedFolder(folder), startParams })
}

/** Writes everything in a new folder to the disk. PGlite does not do it when it creates a database. */
export function syncFolder(folder: string): void {
  for (const entry of fs.readdirSync(folder, { recursive: true, withFileTypes: true })) {
    syncPath(join(entry.parentPath, entry.name))
  }
  syncPath(folder)
  syncPath(join(folder, '..'))
}

function syncPath(path: string): void {
  const isFolder = fs.statSync(path).isDirectory()
  // Windows writes folders by itself.
  if (isFolder && process.platform === 'win32') return
  const descriptor = fs.openSync(path, isFolder ? 'r' : 'r+')
  try {
    fs.fsyncSync(descriptor)
  } finally {
    fs.closeSync(descriptor)
  }
}
