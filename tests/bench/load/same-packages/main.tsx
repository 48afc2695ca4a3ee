import {
  QueryClient,
  QueryClientProvider,
  queryOptions,
  useMutation,
  useQuery,
  useQueryClient,
} from '@tanstack/react-query'
import { createRootRoute, createRoute, createRouter, RouterProvider } from '@tanstack/react-router'
import ky from 'ky'
import { type FormEvent, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { ruleCatalogue } from '../../../../contract/rules.ts'

// The least that React, Query, Router and ky cost: the same page in one script, without what Dealbell does beyond it.
const http = ky.create({ prefix: '/', credentials: 'include', retry: 0 })

const queryOf = <Answer,>(path: string) =>
  queryOptions({ queryKey: [path], queryFn: () => http.get(path).json<Answer>() })
const health = queryOf('health')
const statusOf = (id: string) => queryOf<{ connected: boolean }>(`api/${id}/status`)
const rulesQuery = queryOf<{ rules: string[] }>('api/notifications/rules')

function Connection({ name, id }: { name: string; id: string }) {
  const queryClient = useQueryClient()
  const isConnected = useQuery(statusOf(id)).data?.connected === true
  const disconnect = useMutation({
    mutationFn: () => http.delete(`api/${id}/disconnect`),
    onSuccess: () => queryClient.setQueryData(statusOf(id).queryKey, { connected: false }),
  })
  const onClick = () =>
    isConnected ? disconnect.mutate() : window.location.assign(`/api/${id}/auth`)
  return (
    <li>
      <span>
        {isConnected ? '✓' : '✗'} {name}: {isConnected ? 'Connected' : 'Not connected'}
      </span>
      <button type="button" onClick={onClick}>
        {isConnected ? 'Disconnect' : 'Connect'}
      </button>
    </li>
  )
}

function RuleForm() {
  const saved = useQuery(rulesQuery).data?.rules ?? []
  const [ticked, setTicked] = useState<string[]>()
  const selected = ticked ?? saved
  const save = useMutation({
    mutationFn: () => http.post('api/notifications/rules', { json: { rules: selected } }),
  })
  function onSubmit(event: FormEvent) {
    event.preventDefault()
    save.mutate()
  }
  return (
    <form onSubmit={onSubmit}>
      {ruleCatalogue.map((category) => (
        <fieldset key={category.name} disabled={!category.available}>
          <legend>{category.name}</legend>
          {category.rules.map(({ id, when }) => (
            <label key={id}>
              <input
                type="checkbox"
                checked={selected.includes(id)}
                onChange={({ target }) =>
                  setTicked(
                    target.checked ? [...selected, id] : selected.filter((other) => other !== id),
                  )
                }
              />
              Notify me when {when}
            </label>
          ))}
        </fieldset>
      ))}
      <button type="submit">Save</button>
      <p role="status">
        {save.isSuccess && '✅ Rules saved successfully!'}
        {save.isError && '❌ Failed to save rules.'}
      </p>
    </form>
  )
}

function Dashboard() {
  const isHealthy = useQuery(health).isSuccess
  return (
    <>
      <header>Dealbell</header>
      <main>
        {isHealthy ? (
          <>
            <h1>Deal notifications</h1>
            <section>
              <h2>Connections</h2>
              <ul>
                <Connection name="HubSpot" id="hubspot" />
                <Connection name="Slack" id="slack" />
              </ul>
            </section>
            <section>
              <h2>Notification Rules</h2>
              <RuleForm />
            </section>
          </>
        ) : (
          <p role="status">Loading…</p>
        )}
      </main>
      <footer>
        Need Help?{' '}
        <a href="/contact" target="_blank" rel="noopener">
          Contact Support
        </a>
      </footer>
    </>
  )
}

const queryClient = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } })
const rootRoute = createRootRoute()
const indexRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: '/',
  loader: () => {
    void queryClient.prefetchQuery(health)
    void queryClient.prefetchQuery(statusOf('hubspot'))
    void queryClient.prefetchQuery(statusOf('slack'))
    void queryClient.prefetchQuery(rulesQuery)
  },
  component: Dashboard,
})
const router = createRouter({ routeTree: rootRoute.addChildren([indexRoute]) })

const root = document.getElementById('root')
if (root) {
  createRoot(root).render(
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  )
}
