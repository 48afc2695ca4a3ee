import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { open } from 'node:fs/promises'
import * as v from 'valibot'
import type { Vault } from '../people/vault.ts'
import { fieldsOf } from './ask.ts'

// The file of `npm run data`. Each line is a JSON object: first a header, then each row of each table, and at the end
// a hash of all lines before. Tokens stay encrypted as in the database. The key is not in the file.

const header = v.object({
  format: v.literal('dealbell'),
  version: v.number(),
  /** The last migration of the database. */
  migration: v.string(),
  createdAt: v.string(),
  /** A sealed value that tells whether the reader has the key. */
  key: v.string(),
})
type Header = v.InferOutput<typeof header>

const end = v.object({
  /** The SHA-256 of all lines before. It is sealed, so that only who has the key can change the file. */
  hash: v.string(),
})

const version = 1
/** A sealed value opens only in its own place. */
const places = { key: 'export.key', hash: 'export.hash' }
/** The database writes and reads the row. JavaScript would round large numbers. */
// JSON leaves U+2028 as it is, and `.` matches it only with the flag s.
const rowLine = /^\{"table":"(\w+)","row":(\{.*\})\}$/s
const rowsAtOnce = 1_000
/** A line of an export is much shorter. A longer one would fill the memory. */
const longestLine = 2 ** 24

/** Begins a file that only its owner can read. @throws Error with the code EEXIST if the file exists. */
export async function createDataFile(path: string, vault: Vault, migration: string) {
  const file = await open(path, 'wx', 0o600)
  const hash = createHash('sha256')

  async function write(text: string): Promise<void> {
    hash.update(text)
    await file.appendFile(text)
  }
  const first: Header = {
    format: 'dealbell',
    version,
    migration,
    createdAt: new Date().toISOString(),
    key: vault.seal('', places.key),
  }
  await write(`${JSON.stringify(first)}\n`)

  return {
    /** @param json one object for each row. */
    async write(table: string, json: readonly string[]): Promise<void> {
      await write(json.map((row) => `{"table":"${table}","row":${row}}\n`).join(''))
    },
    /** Writes the end, and resolves when the disk has everything. */
    async end(): Promise<void> {
      const sealed = vault.seal(hash.digest('base64url'), places.hash)
      const last: v.InferOutput<typeof end> = { hash: sealed }
      await file.appendFile(`${JSON.stringify(last)}\n`)
      await file.sync()
      await file.close()
    },
  }
}

/**
 * Reads a file from the beginning to the end. What it finds before the end is certain only when it has resolved.
 * @param onRows gets the rows of a table, as one JSON array.
 * @returns the number of rows.
 * @throws Error if the file is no export, was made with another key, is cut off or was changed.
 */
export async function readDataFile(
  path: string,
  vault: Vault,
  {
    onHeader,
    onRows,
  }: {
    onHeader?: (header: Header) => void
    onRows?: (table: string, json: string, count: number) => Promise<void>
  },
): Promise<number> {
  const hash = createHash('sha256')
  let count = 0
  let isFirst = true
  /** The line before, which may be the last one. */
  let held: string | undefined
  let table = ''
  let rows: string[] = []

  async function flush(): Promise<void> {
    if (rows.length > 0) await onRows?.(table, `[${rows.join()}]`, rows.length)
    rows = []
  }
  for await (const lines of linesOf(path)) {
    for (const line of lines) {
      if (isFirst) {
        const first = readHeader(path, line, vault)
        onHeader?.(first)
        hash.update(`${line}\n`)
        isFirst = false
        continue
      }
      if (held !== undefined) {
        const [, ofTable, row] = rowLine.exec(held) ?? []
        if (ofTable === undefined || row === undefined) throw changed(path)
        if (ofTable !== table || rows.length === rowsAtOnce) await flush()
        table = ofTable
        rows.push(row)
        count += 1
        hash.update(`${held}\n`)
      }
      held = line
    }
  }
  if (isFirst) throw noExport(path)
  await flush()

  const last = v.safeParse(end, fieldsOf(held ?? ''))
  if (!last.success) {
    throw new Error(`${path} is cut off: its last line is missing. Take another copy of the file.`)
  }
  if (opened(vault, last.output.hash, places.hash) !== hash.digest('base64url')) throw changed(path)
  return count
}

function readHeader(path: string, line: string, vault: Vault): Header {
  const first = v.safeParse(header, fieldsOf(line))
  if (!first.success) throw noExport(path)
  if (first.output.version !== version) {
    throw new Error(`${path} is of a newer Dealbell. Import it with that release.`)
  }
  if (!vault.holdsKeyOf(first.output.key)) {
    throw new Error(
      `${path} was made with another encryption key. Set ENCRYPTION_KEY to that key, or copy the file encryption.key of its DATA_DIR into this DATA_DIR.`,
    )
  }
  if (opened(vault, first.output.key, places.key) === undefined) throw changed(path)
  return first.output
}

function opened(vault: Vault, sealed: string, place: string): string | undefined {
  try {
    return vault.open(sealed, place)
  } catch {
    return undefined
  }
}

const noExport = (path: string) => new Error(`${path} was not made by 'npm run data -- export'.`)
const changed = (path: string) =>
  new Error(`${path} was changed after it was made. Take another copy of the file.`)

/** Yields the lines of a file, many at once. `node:readline` would also split at U+2028, which JSON may hold. */
async function* linesOf(path: string): AsyncGenerator<string[]> {
  let rest = ''
  for await (const chunk of createReadStream(path, { encoding: 'utf8', highWaterMark: 2 ** 20 })) {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > longestLine) {
      throw new Error(`${path} has a line that is longer than any of an export. Take another file.`)
    }
    yield lines
  }
  if (rest !== '') yield [rest]
}
