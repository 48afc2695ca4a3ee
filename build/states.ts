import { msw } from 'msw/vite'
import type { Plugin } from 'vite'

/**
 * `/states` while developing: every state of every component on the tests' backend (tests/states).
 * Only the development server has it, and MSW's worker: of neither is anything in the build.
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
