import { QueryClientProvider } from '@tanstack/react-query'
import { renderHook } from '@testing-library/react'
import type { ReactNode } from 'react'
import { makeQueryClient, startBackend } from '../render.tsx'

/**
 * Starts the backend in this state, and renders a hook as the app does: in StrictMode, and with the app's own query
 * client. `renderAgain` renders it in another component of the same page.
 */
export function openHook<Result, Given>(
  hook: (given: Given) => Result,
  initial?: Parameters<typeof startBackend>[0],
  given?: Given,
) {
  const backend = startBackend(initial)
  const queryClient = makeQueryClient()
  const wrapper = ({ children }: { children: ReactNode }) => (
    <QueryClientProvider client={queryClient}>{children}</QueryClientProvider>
  )
  const renderAgain = () =>
    renderHook(hook, { wrapper, initialProps: given as Given, reactStrictMode: true })
  return { ...backend, ...renderAgain(), renderAgain }
}
