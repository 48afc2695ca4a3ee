import fs from 'node:fs'
import { PGlite } from '@electric-sql/pglite'
import { NodeFS } from '@electric-sql/pglite/nodefs'
import { logToStderr } from '../log.ts'

interface Node {
  name: string
  parent: Node
}

interface Stream {
  /** The file's descriptor. A folder has none. */
  nfd?: number
  node: Node
}

/** What this file uses of Emscripten's file system for folders of Node. PGlite has no type for it. */
interface NodeFolders {
  realPath(node: Node): string
  node_ops: { mknod: (parent: Node, ...rest: unknown[]) => unknown }
  stream_ops: {
    write: (
      stream: Stream,
      buffer: unknown,
      offset: number,
      length: number,
      position: number,
    ) => number
    fsync?: (stream: Stream) => number
  }
}

/**
 * PGlite's folder, with a working fsync. Without this class, Emscripten ignores the database's request to write to
 * the disk. A power cut could then lose acknowledged events or break the folder.
 */
export class SyncedFolder extends NodeFS {
  override async init(...args: Parameters<NodeFS['init']>): ReturnType<NodeFS['init']> {
    const { emscriptenOpts } = await super.init(...args)
    const addSync = (module: unknown) => {
      // PGlite's own class reads NODEFS from the same module.
      const { NODEFS } = module as { NODEFS: NodeFolders }
      const { node_ops: nodes, stream_ops: streams } = NODEFS
      const { mknod } = nodes
      const { write } = streams

      function orEnd<Result>(node: Node, work: () => Result): Result {
        try {
          return work()
        } catch (error) {
          if ([node.name, node.parent.name].includes('pg_wal')) endWithoutLog(error)
          throw error
        }
      }
      nodes.mknod = (parent, ...rest) => orEnd(parent, () => mknod(parent, ...rest))
      streams.write = (stream, buffer, offset, length, position) =>
        orEnd(stream.node, () => {
          let written = 0
          // On a nearly full disk, the system writes a part. Only the next write says why.
          do {
            written += write(stream, buffer, offset + written, length - written, position + written)
          } while (written < length)
          return written
        })
      streams.fsync = ({ nfd, node }) => {
        orEnd(node, () => (nfd === undefined ? syncPath(NODEFS.realPath(node)) : fs.fsyncSync(nfd)))
        return 0
      }
    }
    return {
      emscriptenOpts: { ...emscriptenOpts, preRun: [...(emscriptenOpts.preRun ?? []), addSync] },
    }
  }
}

/**
 * Ends the process, because the database's log (pg_wal) could not be written. PGlite would repeat the next
 * statement for ever, and nothing could stop it. The next start repeats what the log holds.
 */
function endWithoutLog(error: unknown): never {
  const { code, errno } = Object(error)
  logToStderr.error('stopped: the database could not write its log', {
    code: code ?? errno,
    remedy: 'Make room on the disk of DATA_DIR, or repair it. Nothing that was confirmed is lost.',
  })
  process.exit(1)
}

export const startParams = [
  // PGlite's own parameters turn fsync off. Emscripten also ignores fdatasync.
  ...PGlite.defaultStartParams.filter((parameter) => parameter !== '-F'),
  '-c',
  'wal_sync_method=fsync',
  // After a checkpoint, the database keeps old files of its log up to this size. The default is 1 GB.
  '-c',
  'max_wal_size=128MB',
  // PGlite's memory is resident with all of these buffers from the start. The default is 128 MB.
  '-c',
  'shared_buffers=32MB',
  // A table is analyzed on the thread that answers requests. The default reads ten times as many of its rows.
  '-c',
  'default_statistics_target=10',
]

export function syncPath(path: string): void {
  const isFolder = fs.statSync(path).isDirectory()
  // Windows writes folders by itself.
  if (isFolder && process.platform === 'win32') return
  const descriptor = fs.openSync(path, isFolder ? 'r' : 'r+')
  try {
    fs.fsyncSync(descriptor)
  } catch (error) {
    // Some file systems cannot sync a folder, such as those of a network or of VirtualBox. PostgreSQL goes on, too.
    if (!isFolder || Object(error).code !== 'EINVAL') throw error
  } finally {
    fs.closeSync(descriptor)
  }
}
