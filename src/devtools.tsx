import { ReactQueryDevtools } from '@tanstack/react-query-devtools'
import { TanStackRouterDevtools } from '@tanstack/react-router-devtools'

/** The panels of Query and Router, in `npm run dev`. */
export const Devtools = () => (
  <>
    <ReactQueryDevtools />
    <TanStackRouterDevtools />
  </>
)
