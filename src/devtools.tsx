import { ReactQueryDevtools } from '@tanstack/react-query-devtools'
import { TanStackRouterDevtools } from '@tanstack/react-router-devtools'
import { createRoot } from 'react-dom/client'
// biome-ignore lint/style/noRestrictedImports: the page has loaded main.tsx before this script.
import { router } from './main.tsx'

// Shows the panels of Query and Router. Only build/devtools.ts loads this script.
const place = document.body.appendChild(document.createElement('div'))
createRoot(place).render(
  <>
    <ReactQueryDevtools client={router.options.context.queryClient} />
    <TanStackRouterDevtools router={router} />
  </>,
)
