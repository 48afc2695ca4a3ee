import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createQueryClient } from './api/query-client.ts'
import { createAppRouter } from './router.tsx'
import './styles.css'

const root = document.getElementById('root')
if (root === null) throw new Error('index.html has no element with the id root')

const router = createAppRouter(createQueryClient())
start(root).catch((error: unknown) => {
  console.error('The page did not load.', error)
  // What renders did not arrive, so the page's own words say it.
  const words = root.querySelector('h1')
  if (words !== null) words.textContent = 'Something went wrong. Please try again later.'
})

// No top-level await: a route's script imports from this one, and each would wait for the other.
async function start(root: HTMLElement) {
  // React's DOM half is as large as all the rest and needed last. As a script of its own it comes in
  // while the rest already runs, and the page's own 'Loading…' stays until both are there.
  const [{ createRoot }] = await Promise.all([import('react-dom/client'), router.load()])
  createRoot(root).render(
    <StrictMode>
      <RouterProvider router={router} />
    </StrictMode>,
  )
}
