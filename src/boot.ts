/**
 * Runs before the main script. Starts the calls of this address, and the download of the script that the main one needs
 * last. It has no imports, so that it is one small script. build/boot.ts writes the addresses into its attributes
 * (docs/decisions.md, 301).
 */
const { last = '', calls = '', dashboardCalls = '' } = document.currentScript?.dataset ?? {}

// Here the main script is already on its way. A browser divides the bandwidth among scripts that it requests together.
document.head.append(
  Object.assign(document.createElement('link'), {
    rel: 'modulepreload',
    crossOrigin: '',
    href: last,
  }),
)

globalThis.startedCalls = new Map()
const addresses = location.pathname === '/' ? `${calls} ${dashboardCalls}` : calls
for (const address of addresses.split(' ')) {
  const { href } = new URL(address, location.origin)
  // The same options as in src/api/client.ts, which takes the response.
  const response = fetch(href, {
    credentials: 'include',
    cache: 'no-store',
    redirect: 'manual',
  })
  // A failure is an error only if the app makes this call.
  response.catch(() => {})
  globalThis.startedCalls.set(href, response)
}

// Another tab may change the person before the app listens. The app takes this channel over (src/api/person.ts).
try {
  globalThis.personChannel = new BroadcastChannel('dealbell-person')
  globalThis.personChannel.onmessage = () => globalThis.startedCalls?.clear()
} catch {
  // An old browser has none, and Firefox refuses it if the user blocks cookies.
}

// If the main script does not arrive, only this script can say so (§8). A browser extension or a CDN may add other modules.
document.querySelector('script[type=module][src^="/assets/"]')?.addEventListener('error', () => {
  const heading = document.querySelector('h1')
  if (heading !== null) heading.textContent = 'Something went wrong. Please try again later.'
})

// Makes this file a module for TypeScript; the build leaves no export behind.
export {}
