import type { Plugin } from 'vite'

/**
 * Adds the panels of Query and Router to the page of `npm run dev`. Nothing else refers to their script,
 * so the build contains nothing of it, and a production install builds without the packages.
 */
export function devtools(): Plugin {
  return {
    name: 'dealbell:devtools',
    apply: 'serve',
    config: () => ({
      // Otherwise Vite finds the packages while the page loads, and reloads it.
      optimizeDeps: {
        include: ['@tanstack/react-query-devtools', '@tanstack/react-router-devtools'],
      },
    }),
    transformIndexHtml: (_html, { path }) =>
      // The frames of /states are pages of their own.
      path === '/index.html'
        ? [{ tag: 'script', attrs: { type: 'module', src: '/src/devtools.tsx' }, injectTo: 'body' }]
        : [],
  }
}
