/**
 * Runs before the main script and starts the calls and scripts that this address needs. It has no
 * imports, so that it is one small script. build/preload.ts puts it and its links into the page
 * (docs/decisions/0301-one-page-and-a-boot-script.md).
 */
globalThis.startedCalls = new Map()
for (const link of document.querySelectorAll<HTMLLinkElement>('link[rel=boot]')) {
  const paths = link.dataset.at
  // Use a pattern because the router also accepts other letter cases and a trailing slash.
  if (paths !== undefined && !new RegExp(`^(${paths})/?$`, 'i').test(location.pathname)) continue
  if (link.as === 'fetch') {
    const abort = new AbortController()
    // The same credentials as in src/api/client.ts, which takes the response.
    const response = fetch(link.href, { credentials: 'include', signal: abort.signal })
    // A failure is an error only if the app makes this call.
    response.catch(() => {})
    globalThis.startedCalls.set(link.href, { response, startedAt: Date.now(), abort })
  } else {
    link.rel = link.as === 'style' ? 'preload' : 'modulepreload'
  }
}

// Another tab may change the person before the app listens. The app takes this channel over (src/api/person.ts).
globalThis.endStartedCalls = () => {
  for (const { abort } of globalThis.startedCalls?.values() ?? []) abort.abort()
  globalThis.startedCalls?.clear()
}
try {
  globalThis.personChannel = new BroadcastChannel('dealbell-person')
  globalThis.personChannel.onmessage = globalThis.endStartedCalls
} catch {
  // An old browser has none, and Firefox refuses it if the user blocks cookies.
}

// If the main script does not arrive, only this script can say so (§8).
document.addEventListener(
  'error',
  ({ target }) => {
    // Browser extensions and proxies add scripts too. Only the main script is a module of this address.
    if (!(target instanceof HTMLScriptElement) || target.type !== 'module') return
    if (!target.src.startsWith(`${location.origin}/`)) return
    const heading = document.querySelector('h1')
    if (heading !== null) heading.textContent = 'Something went wrong. Please try again later.'
    // No app takes the responses, and an unread one stays open.
    globalThis.endStartedCalls?.()
  },
  // An error of a resource does not bubble.
  { capture: true },
)

// Makes this file a module for TypeScript; the build leaves no export behind.
export {}
