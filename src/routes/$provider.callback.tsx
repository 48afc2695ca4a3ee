import { createFileRoute, notFound } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import type { AuthorizationResponse } from '../api/oauth.ts'
import { OAuthCallback } from '../components/OAuthCallback.tsx'
import { config } from '../config.ts'

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

function CallbackPage() {
  const provider = Route.useLoaderData()
  const search = Route.useSearch()
  const navigate = Route.useNavigate()
  const [response] = useState(search)

  // The code is a secret: remove it from the address bar and the history at once.
  useEffect(() => {
    void navigate({ search: {}, replace: true })
  }, [navigate])

  return <OAuthCallback provider={provider} response={response} />
}
