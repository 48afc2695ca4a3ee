import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { extname, join, sep } from 'node:path'
import type { MiddlewareHandler } from 'hono'
import { backendPath } from '../../contract/endpoints.ts'
import { errorAnswer } from '../http/errors.ts'

interface Representation {
  body: Uint8Array<ArrayBuffer>
  etag: string
}

interface StaticFile extends Representation {
  contentType: string
  /** The compressed copies that the build wrote, by content coding. */
  compressed: Readonly<Partial<Record<Coding, Representation>>>
}

// The smallest coding first. build/precompress.ts writes the copies with these extensions.
const codings = { br: '.br', gzip: '.gz' } as const
type Coding = keyof typeof codings

/** The built dashboard, read once. The server serves only files in the map. */
export interface Dashboard {
  /** By path, such as `/assets/main.js`. */
  files: ReadonlyMap<string, StaticFile>
  page: StaticFile
  /** The Content-Security-Policy of every file. */
  policy: string
}

const contentTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.map': 'application/json',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
}

// These files configure other hosts (build/security.ts). The server does not serve them.
const configurations = new Set(['_headers', '_redirects', 'nginx-headers.conf'])

/** Reads all files of a build. @throws Error if the folder has no index.html. */
export async function readDashboard(folder: string, policy: string): Promise<Dashboard> {
  const files = new Map<string, StaticFile>()
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    // A name with a leading dot is internal, such as .build.json.
    if (!entry.isFile() || entry.name.startsWith('.') || configurations.has(entry.name)) continue
    if (Object.values(codings).some((extension) => entry.name.endsWith(extension))) continue
    const path = join(entry.parentPath, entry.name)
    files.set(path.slice(folder.length).split(sep).join('/'), await readStatic(path))
  }
  const page = files.get('/index.html')
  if (page === undefined) throw new Error(`There is no index.html in ${folder}.`)
  return { files, page, policy }
}

/**
 * Matches addresses of files, and those that begin with a dot (RFC 8615). The page would be no answer to who looks for
 * `/robots.txt`, or for an asset of an older build. Only below `/connect` the dot may be of a provider's name.
 */
const ofFile = /^\/assets\/|\/\.|^\/(?!connect\/).*\.[^/]*$/

/** Serves the files. At every other address that is neither the backend's nor a file's, serves the page. */
export function serveDashboard(dashboard: Dashboard): MiddlewareHandler {
  return async (c, next) => {
    const { path } = c.req
    // A wrong address of the backend gets an error of the backend, not the page.
    if (backendPath.test(path)) return next()
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD') {
      const allow = { Allow: 'GET, HEAD' }
      return errorAnswer(c, 405, 'method_not_allowed', 'Only GET and HEAD are allowed.', allow)
    }

    const found = dashboard.files.get(path)
    if (found === undefined && ofFile.test(path)) return next()
    const file = found ?? dashboard.page
    const coding = preferredCoding(file, c.req.header('Accept-Encoding'))
    const { body, etag } = (coding && file.compressed[coding]) ?? file
    const headers: Record<string, string> = {
      // Names of assets contain a hash, so caches may keep assets. Do not use `no-store` for the
      // page: it would disable the back-forward cache.
      'Cache-Control': path.startsWith('/assets/')
        ? 'public, max-age=31536000, immutable'
        : 'no-cache',
      ETag: etag,
      // Set Vary on the uncompressed answer too. Otherwise a cache serves that answer to every
      // client.
      ...(Object.keys(file.compressed).length > 0 && { Vary: 'Accept-Encoding' }),
      'Content-Security-Policy': dashboard.policy,
    }
    if (matches(c.req.header('If-None-Match'), etag)) return c.body(null, 304, headers)
    if (coding !== undefined) headers['Content-Encoding'] = coding
    headers['Content-Type'] = file.contentType
    headers['Content-Length'] = String(body.length)
    return c.body(body, 200, headers)
  }
}

/** Reads a file and its compressed copies. */
async function readStatic(path: string): Promise<StaticFile> {
  const compressed: StaticFile['compressed'] = Object.fromEntries(
    await Promise.all(
      Object.entries(codings)
        .filter(([, extension]) => existsSync(path + extension))
        .map(async ([coding, extension]) => [coding, await readRepresentation(path + extension)]),
    ),
  )
  return {
    ...(await readRepresentation(path)),
    contentType: contentTypes[extname(path)] ?? 'application/octet-stream',
    compressed,
  }
}

// Each representation needs its own strong ETag (RFC 9110 §8.8.3.3).
async function readRepresentation(path: string): Promise<Representation> {
  const body = new Uint8Array(await readFile(path))
  return {
    body,
    etag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`,
  }
}

/** The smallest coding that the client accepts; undefined means uncompressed (RFC 9110 §12.5.3). */
function preferredCoding(file: StaticFile, acceptEncoding = ''): Coding | undefined {
  const weights = new Map(
    acceptEncoding.split(',').map((item) => {
      const [name = '', ...parameters] = item.split(';').map((part) => part.trim().toLowerCase())
      const weight = parameters.find((parameter) => parameter.startsWith('q='))?.slice(2)
      return [name, weight === undefined ? 1 : Number(weight)]
    }),
  )
  const accepts = (coding: Coding) => (weights.get(coding) ?? weights.get('*') ?? 0) > 0
  return (['br', 'gzip'] as const).find((coding) => file.compressed[coding] && accepts(coding))
}

// Ignores W/ (RFC 9110 §13.1.2), because a proxy that compresses an answer adds W/ to its ETag.
function matches(ifNoneMatch: string | undefined, etag: string): boolean {
  const tags = ifNoneMatch?.split(',').map((tag) => tag.trim().replace(/^W\//, '')) ?? []
  return tags.includes(etag) || tags.includes('*')
}
