import type { Plugin } from 'vite'

/**
 * Serves `/states` in development. This page shows every state of every component, with the mock
 * backend of the tests (tests/states). `/states/NAME` shows one of them. The build does not contain the page.
 */
export function states(): Plugin {
  return {
    name: 'dealbell:states',
    apply: 'serve',
    configureServer({ middlewares }) {
      middlewares.use((request, _response, next) => {
        if (/^\/states([/?]|$)/.test(request.url ?? '')) request.url = '/tests/states/index.html'
        next()
      })
    },
  }
}
