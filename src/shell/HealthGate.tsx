import { type ReactNode, useEffect, useRef } from 'react'
import { useHealth } from '../api/health.ts'
import { Button } from '../ui/Button.tsx'
import { focusHeading } from '../ui/focus.ts'
import { WarningSign } from '../ui/icons.tsx'
import { Loading } from '../ui/Loading.tsx'
import { Screen } from '../ui/Screen.tsx'

/** Renders the app only after the backend is available. Until then, nothing uses up a code. */
export function HealthGate({ children }: { children: ReactNode }) {
  const health = useHealth()
  const isAvailable = health.data !== undefined
  const wasUnavailable = useRef(false)

  // The button 'Try again' had the focus and has disappeared. Focus the heading instead.
  useEffect(() => {
    if (isAvailable && wasUnavailable.current) focusHeading()
    wasUnavailable.current = health.isFetched && !isAvailable
  }, [isAvailable, health.isFetched])

  if (isAvailable) return children
  // Do not use isPending: after a failure, it is true again at each new attempt.
  if (!health.isFetched) return <Loading />
  return (
    <Screen title="Service Unavailable" icon={<WarningSign />}>
      <div>
        <p role="alert">Backend service is unavailable.</p>
        <p className="text-muted">This page goes on by itself as soon as the service is back.</p>
      </div>
      <div>
        <Button busy={health.isFetching} onClick={() => void health.refetch()}>
          {health.isFetching ? 'Trying…' : 'Try again'}
        </Button>
      </div>
    </Screen>
  )
}
