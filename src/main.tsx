import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createQueryClient } from './api/query-client.ts'
import { createAppRouter } from './router.tsx'
import './styles.css'

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no element with the id root')

const queryClient = createQueryClient()
// The browser extension 'TanStack Query Devtools' looks for it here.
if (import.meta.env.DEV) Object.assign(window, { __TANSTACK_QUERY_CLIENT__: queryClient })

const router = createAppRouter(queryClient)
start(root).catch((error: unknown) => {
  console.error('The page did not load.', error)
  // Without react-dom only the HTML of index.html can show this.
  const heading = root.querySelector('h1')
  if (heading !== null) heading.textContent = 'Something went wrong. Please try again later.'
})

// A top-level await would never end: the script of a route imports this one, and both would wait.
async function start(root: HTMLElement) {
  // react-dom is half of the bytes and needed last. It is a separate script, which downloads while the
  // rest already runs. Until both are ready, the 'Loading…' of index.html stays.
  const [{ createRoot }] = await Promise.all([import('react-dom/client'), router.load()])
  createRoot(root).render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  )
}
