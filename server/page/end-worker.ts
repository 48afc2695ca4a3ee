import type { MiddlewareHandler } from 'hono'

/** Ends the worker that it replaces and itself. `navigate` loads each open page again, without a worker. */
const script = `self.addEventListener('install', () => self.skipWaiting())
self.addEventListener('activate', (event) => event.waitUntil(end()))
async function end() {
  await self.registration.unregister()
  const pages = await self.clients.matchAll({ type: 'window' })
  await Promise.allSettled(pages.map((page) => page.navigate(page.url)))
}
`

/**
 * Dealbell has no service worker. One of another project that was at this origin would show that project for ever,
 * because a browser keeps it if its script is missing. So whoever asks for the script of a worker, whatever its path,
 * gets one that ends it.
 */
export const endWorkers: MiddlewareHandler = async (c, next) => {
  if (c.req.header('Service-Worker') !== 'script') return next()
  return c.body(script, 200, {
    'Content-Type': 'text/javascript; charset=utf-8',
    // The scope of the other one may be wider than the folder of its script.
    'Service-Worker-Allowed': '/',
  })
}
