// Not all of Drizzle: wrong settings are reported at once.
import { DrizzleQueryError } from 'drizzle-orm/errors'
import { FolderInUse, lockFolder, UnusableFolder } from '../database/lock.ts'
import { Refused } from '../database/refused.ts'
import { NoRoom } from '../database/room.ts'
import { errorCode } from '../log.ts'
import { databasePlace } from './database-url.ts'
import type { Settings } from './settings.ts'

// Each function turns the failure to open what a setting names into an error that names the setting and the remedy.
// A code alone, such as ECONNREFUSED, says neither.

/** @throws FolderInUse if another process holds the folder, or an Error that names the setting and the remedy. */
export function lockDataDir(settings: Pick<Settings, 'dataDir'>) {
  try {
    return lockFolder(settings.dataDir)
  } catch (error) {
    throw error instanceof FolderInUse ? error : dataDirError(settings, error)
  }
}

/** The data folder, or the database or the key in it, could not be opened. */
export function dataDirError({ dataDir }: Pick<Settings, 'dataDir'>, cause: unknown): Error {
  if (cause instanceof Refused) return cause
  const { code, errcode } = codesOf(cause)
  const say = (problem: string) => new Error(`DATA_DIR is ${dataDir}, but ${problem}`, { cause })
  if (cause instanceof UnusableFolder) {
    return say(
      `${cause.message}. Restore the whole folder from a backup, or set DATA_DIR to an empty folder to begin without data.`,
    )
  }
  // 13 is SQLite's FULL.
  if (cause instanceof NoRoom || code === 'ENOSPC' || errcode === 13) {
    const why = cause instanceof NoRoom ? cause.message : 'its disk is full'
    return say(`${why}. Make room on the disk, or set DATA_DIR to a folder on another disk.`)
  }
  // SQLite's result codes for a lock file that it cannot write: 8 READONLY, 14 CANTOPEN. On a disk that can only be read,
  // Node's mkdir finds nothing.
  const forbidden = ['EACCES', 'EPERM', 'EROFS'].includes(code) || [8, 14].includes(errcode ?? 0)
  if (forbidden || (code === 'ENOENT' && Object(cause).syscall === 'mkdir')) {
    return say(
      'this process may not write to it. Give its user the right to do so, or set DATA_DIR to another folder.',
    )
  }
  if (code === 'EEXIST' || code === 'ENOTDIR') {
    return say('a file has that path or a part of it. Set DATA_DIR to a folder.')
  }
  const openFiles = mostOpenFiles()
  if (openFiles < 256) {
    return say(
      `a process may have only ${openFiles} open files here, and its database needs up to 256. Raise the limit (ulimit -n, or LimitNOFILE in a unit of systemd).`,
    )
  }
  return say(
    `it could not be opened: ${messageOf(cause)}. Repair it, or set DATA_DIR to another folder.`,
  )
}

/** PGlite says 'File exists' when the limit is reached, so the error does not tell. Node has raised it as far as it may. */
function mostOpenFiles(): number {
  const { userLimits } = Object(process.report.getReport())
  const { soft } = Object(userLimits?.open_files)
  return typeof soft === 'number' ? soft : Number.POSITIVE_INFINITY
}

/** PostgreSQL could not be reached or refused. The message never contains the password. */
export function databaseUrlError(databaseUrl: string, failure: unknown): Error {
  if (failure instanceof Refused) return failure
  const { host, at, database } = databasePlace(databaseUrl)
  // Drizzle wraps the error of a failed query.
  const cause = failure instanceof Error && failure.cause ? failure.cause : failure
  const nobodyListens = `no PostgreSQL listens at ${at}. Start it, or correct the host and the port.`
  const unknownHost = `the host ${host} is unknown. Correct it, or check the name service.`
  const noPassword = `PostgreSQL at ${at} refuses the user or the password. Correct them, and write special characters as in a URL (@ is %40).`
  const unknownAuthority = `the certificate of PostgreSQL at ${at} is from an unknown authority. Set DATABASE_CA_FILE to the file with the authority's certificate.`
  const problems: Readonly<Record<string, string>> = {
    ECONNREFUSED: nobodyListens,
    ENOENT: nobodyListens,
    ENOTFOUND: unknownHost,
    EAI_AGAIN: unknownHost,
    '28P01': noPassword,
    '28000': noPassword,
    '3D000': `PostgreSQL at ${at} has no database named ${database}. Create it, or correct the name.`,
    '53300': `PostgreSQL at ${at} has no connection left (${messageOf(cause)}). Raise its max_connections or the CONNECTION LIMIT of the role or the database, whichever that is, or lower the DATABASE_POOL_SIZE of its servers.`,
    DEPTH_ZERO_SELF_SIGNED_CERT: unknownAuthority,
    SELF_SIGNED_CERT_IN_CHAIN: unknownAuthority,
    UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownAuthority,
    UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownAuthority,
    '42501': `its user may not create tables in the database ${database} at ${at}. Make the user the owner of the database.`,
    '25006': `the database at ${at} can only be read. Name the primary, and not a standby.`,
  }
  const problem =
    problems[codesOf(cause).code] ??
    `the database at ${at} could not be opened: ${messageOf(cause)}. Check that PostgreSQL runs there and accepts connections.`
  return new Error(`DATABASE_URL: ${problem}`, { cause })
}

export function listenError(
  { port, hosts: [host] }: Pick<Settings, 'port' | 'hosts'>,
  cause: unknown,
) {
  const say = (problem: string) => new Error(problem, { cause })
  switch (codesOf(cause).code) {
    case 'EADDRINUSE':
      return say(`Port ${port} is taken. Set PORT to another one, or to 0 for a free one.`)
    case 'EACCES':
      return say(
        `PORT is ${port}, but this process may not listen on it: ports below 1024 need more rights. Set PORT to 1024 or higher, and put a proxy in front (docs/hosting.md).`,
      )
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
      return say(
        `HOST is ${host}, but this machine does not have that address. Correct HOST, or remove it to listen on all addresses.`,
      )
    default:
      return cause
  }
}

function codesOf(error: unknown): { code: string; errcode: number | undefined } {
  const { code, errcode } = Object(error)
  return {
    code: typeof code === 'string' ? code : '',
    errcode: typeof errcode === 'number' ? errcode : undefined,
  }
}

/** What a command prints of the error that ended it. */
export function shownError(error: unknown): string {
  // Drizzle's message quotes the rows.
  const shown = error instanceof DrizzleQueryError ? error.cause : error
  const text = shown instanceof Error ? shown.message : String(shown)
  // An AggregateError, one for each address of a host, has an empty message.
  return text || (errorCode(shown) ?? 'unknown reason')
}

const messageOf = (error: unknown) => shownError(error).replace(/\.$/, '')

/** A command ends without a word when its reader has gone, such as `head`. */
export function endWithReader(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => process.exit())
}
