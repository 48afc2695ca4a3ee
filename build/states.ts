import { msw } from 'msw/vite'
import type { Plugin } from 'vite'

/**
 * Serves `/states` in development. This page shows every state of every component, with the mock
 * backend of the tests (tests/states). The build contains neither the page nor MSW's worker.
 */
export function states(): Plugin[] {
  return [
    { ...msw({ mode: 'worker-only' }), apply: 'serve' },
    {
      name: 'dealbell:states',
      apply: 'serve',
      configureServer({ middlewares }) {
        middlewares.use((request, _response, next) => {
          if (request.url === '/states') request.url = '/tests/states/index.html'
          next()
        })
      },
    },
  ]
}
