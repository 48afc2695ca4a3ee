import { serveStatic } from '@hono/node-server/serve-static'
import type { MiddlewareHandler } from 'hono'
import { every } from 'hono/combine'
import { etag, RETAINED_304_HEADERS } from 'hono/etag'
import { backendPath } from '../../contract/endpoints.ts'
import { pageCaching } from '../../contract/page-headers.ts'
import { errorAnswer } from '../http/errors.ts'

export interface Dashboard {
  /** The folder of the build. It has an index.html, and compressed copies beside its files. */
  folder: string
  policy: string
  /** The address of the form on the page /contact. */
  contactFormUrl?: string
}

/** What configures the server and other hosts (build/security.ts), and the compressed copies. */
const internal = /\/\.|^\/(?:_headers|_redirects|nginx-headers\.conf)$|\.(?:br|gz)$/

/**
 * Matches addresses of files, and those that begin with a dot (RFC 8615). The page would be no answer to who looks for
 * `/robots.txt`, or for an asset of an older build. Only below `/connect` the dot may be of a provider's name.
 */
const ofFile = /^\/assets\/|\/\.|^\/(?!connect\/).*\.[^/]*$/

/** Serves the files. At every other address that is neither the backend's nor a file's, serves the page. */
export function serveDashboard({ folder, policy }: Dashboard): MiddlewareHandler {
  const file = serveStatic({ root: folder, precompressed: true })
  const page = serveStatic({ root: folder, path: 'index.html', precompressed: true })
  const nothing = async () => {}

  // A browser replaces the policy of the page that it has by that of a 304.
  const retainedHeaders = [...RETAINED_304_HEADERS, 'Content-Security-Policy']
  return every(etag({ retainedHeaders }), async (c, next) => {
    const { path } = c.req
    // A wrong address of the backend gets an error of the backend, not the page.
    if (backendPath.test(path) || internal.test(path)) return next()
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD') {
      const allow = { Allow: 'GET, HEAD' }
      return errorAnswer(c, 405, 'method_not_allowed', 'Only GET and HEAD are allowed.', allow)
    }
    const found = await file(c, nothing)
    const answer = found ?? (ofFile.test(path) ? undefined : await page(c, nothing))
    if (!(answer instanceof Response)) return next()
    answer.headers.set('Content-Security-Policy', policy)
    // Also for the uncompressed file. Otherwise a cache serves it to every client.
    answer.headers.set('Vary', 'Accept-Encoding')
    // Names of assets contain a hash, so caches may keep assets.
    answer.headers.set(
      'Cache-Control',
      path.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : pageCaching,
    )
    return answer
  })
}
