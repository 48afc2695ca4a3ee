import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { setFlagsFromString } from 'node:v8'

/** The bytes that this process may use: as many as its container may, or else as the machine has. */
const availableBytes = () => Math.min(process.constrainedMemory() || totalmem(), totalmem())

/** With at least so many bytes of memory, V8 may optimize PGlite. */
const plentyBytes = 2 * 1024 ** 3

/**
 * With little memory, V8 compiles PGlite's WebAssembly only with its baseline compiler. The optimizing compiler needs 600 MB
 * for one function of PGlite. Without it, aggregates over many rows take longer (docs/performance.md). Both
 * flags are necessary. Set them before PGlite is compiled.
 */
export function saveMemory(): void {
  if (availableBytes() >= plentyBytes) return
  for (const flag of ['--no-wasm-tier-up', '--no-wasm-dynamic-tiering']) setFlagsFromString(flag)
}

/** What PGlite needs, in MiB, with everything else of a server. */
const needed = { first: 768, later: 384 }

/**
 * Says in a sentence that PGlite may need more memory than there is; undefined if there is enough.
 * @param isFirst whether the start makes the database.
 */
export function lackOfMemory(isFirst: boolean): string | undefined {
  const mib = Math.floor(availableBytes() / 1024 ** 2)
  if (mib >= (isFirst ? needed.first : needed.later)) return undefined
  return `This process may use ${mib} MB of memory. With PGlite, a first start needs ${needed.first} MB, and a later one, or that of a release, ${needed.later} MB. With less, the system may end it without a word. Give it more, or use PostgreSQL (DATABASE_URL).`
}

/**
 * Opens PGlite, and leaves a note beside its folder meanwhile. The system kills a process that uses too much memory, and
 * only the next start can say so.
 */
export async function noteOpening<Opened>(
  folder: string,
  warn: (sentence: string) => void,
  open: () => Promise<Opened>,
): Promise<Opened> {
  const note = `${folder}.opening`
  if (existsSync(note))
    warn(
      'The server was killed during its last start, while it opened the database. If nobody did that, the system may have killed it because memory ran out.',
    )
  writeFileSync(note, '')
  try {
    return await open()
  } finally {
    rmSync(note, { force: true })
  }
}
