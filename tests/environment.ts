import { builtinEnvironments, type Environment } from 'vitest/runtime'

const nodeOwn = ['fetch', 'Response', 'Headers', 'AbortController', 'AbortSignal'] as const

/**
 * happy-dom with Node's own fetch, since happy-dom's throws from afar when a body is cancelled and
 * does not say which credentials a request carries. Relative addresses are taken as in a browser.
 */
export default {
  ...builtinEnvironments['happy-dom'],
  name: 'happy-dom-with-fetch',
  async setup(global, options) {
    const { Request, console } = global
    const kept = nodeOwn.map((name) => [name, global[name]] as const)

    // Without a console of ours happy-dom is silent: it would complain that it loads no frames.
    global.console = undefined
    const environment = await builtinEnvironments['happy-dom'].setup(global, options)
    global.console = console

    for (const [name, value] of kept) global[name] = value
    global.Request = class extends Request {
      constructor(input: RequestInfo | URL, init?: RequestInit) {
        super(typeof input === 'string' ? new URL(input, global.location.href) : input, init)
      }
    }
    return environment
  },
} satisfies Environment
