import type { Plugin } from 'vite'
import { backendPath, navigations, pathOf } from '../contract/endpoints.ts'

const authorizePath = new RegExp(`^${pathOf(navigations.authorize, '([^/]+)')}$`)

/**
 * Lets the page answer its own calls (tests/msw/mock.ts), so that `npm run dev -- --mock` needs no server.
 * A page cannot answer where the browser navigates. So this answers the authorization, without a consent page.
 */
export function mock(): Plugin {
  return {
    name: 'dealbell:mock',
    apply: 'serve',
    transformIndexHtml: (_html, { path }) =>
      // The frames of tests/states have backends of their own. In the head, it runs before the app.
      path === '/index.html'
        ? [{ tag: 'script', attrs: { type: 'module', src: '/tests/msw/mock.ts' } }]
        : [],
    configureServer({ middlewares }) {
      middlewares.use(({ method, url = '' }, response, next) => {
        const { pathname } = new URL(url, 'http://localhost')
        if (!backendPath.test(pathname)) return next()
        const provider = authorizePath.exec(pathname)?.[1]
        if (provider !== undefined) {
          const Location = `${pathOf(navigations.callbackPage, provider)}?code=mock`
          return response.writeHead(302, { Location }).end()
        }
        response.writeHead(501, { 'Content-Type': 'text/plain; charset=utf-8' })
        response.end(
          `The mock does not answer ${method} ${pathname}. tests/msw/ has what it answers.\n`,
        )
      })
    },
  }
}
