import { fstatSync } from 'node:fs'

/** Writes one line about an event. Fields hold ids and codes, never tokens, secrets or users' texts. */
type Write = (
  event: string,
  // Each line already has these. A field of the same name would overwrite it.
  fields?: Readonly<Record<string, unknown> & { time?: never; level?: never; event?: never }>,
) => void

/** Called itself, it writes at the level `info`. */
export interface Log extends Write {
  /** The server, or its database, does not do what it must. */
  error: Write
  /** A message did not come, or somebody has to look at a connection, a setting or a limit. */
  warn: Write
  /** One line for each delivery, of which a bulk edit has thousands. */
  debug: Write
}

/** The most important first. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const
export type LogLevel = (typeof logLevels)[number]

export function logTo(write: (level: LogLevel, ...line: Parameters<Write>) => void): Log {
  const at =
    (level: LogLevel): Write =>
    (...line) =>
      write(level, ...line)
  return Object.assign(at('info'), { error: at('error'), warn: at('warn'), debug: at('debug') })
}

/** Writes each line at most once a minute: a flood must not fill the log. */
export function atMostOnceAMinute(write: Write): Write {
  const writtenAt = new Map<string, number>()
  return (event, fields) => {
    const line = event + JSON.stringify(fields)
    const now = performance.now()
    if (now - (writtenAt.get(line) ?? Number.NEGATIVE_INFINITY) < 60_000) return
    writtenAt.set(line, now)
    write(event, fields)
  }
}

/** sd-daemon(3): the journal of systemd takes the priority from the begin of a line. */
const priorities = { error: '<3>', warn: '<4>', info: '<6>', debug: '<7>' }

export function writeLines(level: LogLevel, text: string): void {
  const { JOURNAL_STREAM: journal } = process.env
  // A program that the server's unit starts may write elsewhere.
  const isJournal = journal !== undefined && journal === ownStream()
  process.stderr.write(`${isJournal ? text.replaceAll(/^/gm, priorities[level]) : text}\n`)
}

function ownStream(): string {
  const { dev, ino } = fstatSync(2)
  return `${dev}:${ino}`
}

/**
 * Creates the log: JSON lines on standard error. Standard output is for the person who starts the server.
 * @param least leaves out what is less important.
 */
export function createLog(least: LogLevel): Log {
  return logTo((level, event, fields) => {
    if (logLevels.indexOf(level) > logLevels.indexOf(least)) return
    const line = { time: new Date().toISOString(), level, event, ...fields }
    writeLines(level, JSON.stringify(line))
  })
}

/** For what happens before the settings are known, or as the process dies. */
export const logToStderr = createLog('debug')

/** The errors of PostgreSQL's driver that have no code. */
const codesOfDriver: ReadonlyMap<unknown, string> = new Map([
  ['Connection terminated unexpectedly', 'CONNECTION_LOST'],
  ['Client has encountered a connection error and is not queryable', 'CONNECTION_LOST'],
  ['timeout expired', 'CONNECT_TIMEOUT'],
  ['Connection terminated due to connection timeout', 'CONNECT_TIMEOUT'],
  // Each connection of the pool is in use, or a new one takes too long.
  ['timeout exceeded when trying to connect', 'POOL_TIMEOUT'],
  ['Query read timeout', 'QUERY_TIMEOUT'],
])

/**
 * The code of what caused an error, such as `ECONNREFUSED`, or `57P01` of PostgreSQL. It quotes nothing. Drizzle, fetch
 * and other clients wrap an error, and Node puts one for each address of a host into one.
 */
export function errorCode(error: unknown, depth = 0): string | undefined {
  // An error may be its own cause.
  if (depth > 5) return undefined
  const { name, message, code, cause, errors } = Object(error)
  const isCode = typeof code === 'string' && /^\w{1,64}$/.test(code)
  const own = isCode ? code : name === 'TimeoutError' ? 'TIMEOUT' : undefined
  const inner = [cause, ...(Array.isArray(errors) ? errors : [])]
    .map((each) => errorCode(each, depth + 1))
    .find((each) => each !== undefined)
  // Of undici, whose own code says nothing.
  const [, ofProxy] = /^Proxy response \((\d{3})\)/.exec(message) ?? []
  return codesOfDriver.get(message) ?? (ofProxy && `PROXY_${ofProxy}`) ?? inner ?? own
}

/** What may be logged of an error: its name, its code and our own lines. Its message may quote data of users. */
export function errorFields(error: unknown): {
  error: string
  code: string | undefined
  at: string[]
} {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  return {
    error: error instanceof Error ? error.name : typeof error,
    code: errorCode(error),
    at: stack
      .split('\n')
      .filter((line) => line.startsWith('    at '))
      .slice(0, 8),
  }
}
