import { createFileRoute, notFound, useLocation } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import type { AuthorizationResponse } from '../api/oauth.ts'
import { config } from '../config.ts'
import { OAuthCallback } from '../dashboard/OAuthCallback.tsx'

export const Route = createFileRoute('/$provider/callback')({
  validateSearch: ({ code, state, error }: AuthorizationResponse): AuthorizationResponse => ({
    code,
    state,
    error,
  }),
  loader: ({ params }) => {
    const provider = [config.crm, config.chat].find(({ id }) => id === params.provider)
    if (!provider) throw notFound()
    return provider
  },
  component: CallbackPage,
})

declare module '@tanstack/react-router' {
  interface HistoryState {
    /** The page has sent the code that was in its address. */
    wasSent?: true
  }
}

function CallbackPage() {
  const provider = Route.useLoaderData()
  const search = Route.useSearch()
  const { wasSent } = useLocation().state
  const navigate = Route.useNavigate()
  const [response] = useState({ ...search, wasSent })

  // The code is a secret: remove it from the address bar and the history at once. After a reload, the history still
  // knows that there was one.
  const isSent = response.wasSent ?? (response.code && response.error === undefined)
  useEffect(() => {
    void navigate({ search: {}, replace: true, state: isSent ? { wasSent: true } : {} })
  }, [navigate, isSent])

  return <OAuthCallback provider={provider} response={response} />
}
