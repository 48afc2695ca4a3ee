import { builtinEnvironments, type Environment } from 'vitest/runtime'

const keptFromNode = ['fetch', 'Response', 'Headers', 'AbortController', 'AbortSignal'] as const

/**
 * happy-dom with Node's fetch. happy-dom's own fetch throws an unhandled error when a body is cancelled,
 * and its requests do not tell their credentials. Relative addresses work as in a browser. jsdom would forbid to replace
 * `location.assign`.
 */
export default {
  ...builtinEnvironments['happy-dom'],
  name: 'happy-dom-with-fetch',
  async setup(global, options) {
    const { Request, console } = global
    const kept = keptFromNode.map((name) => [name, global[name]] as const)

    // Without a console happy-dom is silent. It would log that it loads no frames.
    global.console = undefined
    const environment = await builtinEnvironments['happy-dom'].setup(global, {
      ...options,
      // happy-dom loads no style sheet. It says that it has, so that the app goes on.
      happyDOM: { settings: { handleDisabledFileLoadingAsSuccess: true } },
    })
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
