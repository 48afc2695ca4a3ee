import { msw } from 'msw/vite'
import type { Plugin } from 'vite'

/**
 * Serves `/states` in development. This page shows every state of every component, with the mock
 * backend of the tests (tests/states). `/states/NAME` shows one of them. The build contains neither the
 * page nor MSW's worker.
 */
export function states(): Plugin[] {
  return [
    { ...msw({ mode: 'worker-only' }), apply: 'serve' },
    {
      name: 'dealbell:states',
      apply: 'serve',
      configureServer({ middlewares }) {
        middlewares.use((request, _response, next) => {
          if (/^\/states([/?]|$)/.test(request.url ?? '')) request.url = '/tests/states/index.html'
          next()
        })
      },
    },
  ]
}
