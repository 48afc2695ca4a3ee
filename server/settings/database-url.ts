import { isAbsolute } from 'node:path'

// A URL with a user needs a host, but the driver accepts an address without one.
const noHost = 'no-host.invalid'

function parse(databaseUrl: string): URL {
  const isUrl = URL.canParse(databaseUrl)
  return new URL(isUrl ? databaseUrl : databaseUrl.replace('@/', `@${noHost}/`))
}

/** Where the driver looks for PostgreSQL: at a host, or at a socket in a folder. @throws Error if this is no address */
export function databasePlace(databaseUrl: string): { host: string; at: string; database: string } {
  const { protocol, hostname, port: ofHost, pathname, searchParams } = parse(databaseUrl)
  const isSocket = protocol === 'socket:'
  const named = isSocket ? pathname : searchParams.get('host') || hostname.replace(noHost, '')
  // The driver's defaults.
  const { PGHOST = 'localhost', PGPORT = '5432' } = process.env
  const host = decodeURIComponent(named) || PGHOST
  const port = searchParams.get('port') || ofHost || PGPORT
  const database = isSocket ? (searchParams.get('db') ?? '') : pathname.slice(1)
  return { host, at: isAbsolute(host) ? `${host}/.s.PGSQL.${port}` : `${host}:${port}`, database }
}

export function isDatabaseUrl(text: string): boolean {
  try {
    return databasePlace(text) !== undefined
  } catch {
    return false
  }
}

/** What the driver would do otherwise than PostgreSQL's own programs, without a word. Undefined if there is nothing. */
export function databaseUrlProblem(databaseUrl: string): string | undefined {
  if (!isDatabaseUrl(databaseUrl)) return undefined
  const { searchParams } = parse(databaseUrl)
  const mode = searchParams.get('sslmode') ?? ''
  if (['prefer', 'allow'].includes(mode)) {
    return `has sslmode=${mode}, but Dealbell does not encrypt only where it can. Write sslmode=verify-full, or sslmode=disable if the connection does not leave the machine`
  }
  const schema = ['schema', 'currentSchema', 'search_path'].find((name) => searchParams.has(name))
  return (
    schema &&
    `has ${schema}=…, but Dealbell uses the schema public. Remove it, and name a database of its own`
  )
}

/** With the CA's certificate, the driver encrypts, and checks certificate and host of PostgreSQL. */
export function withCertificate(databaseUrl: string, caFile: string): string {
  const url = parse(databaseUrl)
  url.searchParams.set('sslmode', 'verify-full')
  url.searchParams.set('sslrootcert', caFile)
  return url.href.replace(`@${noHost}/`, '@/')
}
