import { useEffect } from 'react'
import {
  noticeAuthorization,
  useConnectionStatus,
  useFailedAuthorization,
  useIsConnected,
} from '../api/connections.ts'
import { useHasFeature } from '../api/health.ts'
import { useHasNotice, usePerson } from '../api/person.ts'
import { useReach } from '../api/reach.ts'
import { config, type Provider } from '../config.ts'
import { Warning } from '../ui/Warning.tsx'

/**
 * Above everything: why the services may look disconnected although nobody disconnected them, and what the last
 * authorization failed with.
 */
export const PageNotice = () => useHasFeature('activity') && <Notice />

function Notice() {
  const { crm, chat } = config
  const reach = useReach()
  const isNobody = usePerson() === 'nobody'
  const wasNotSaved = useHasNotice('not saved')
  const hasEnded = useHasNotice('session ended') || (wasNotSaved && isNobody)
  // Do not use isError: without data, it is false during each new attempt.
  const haveFailed = [useConnectionStatus(crm), useConnectionStatus(chat)].every(
    ({ errorUpdatedAt, dataUpdatedAt }) => errorUpdatedAt > dataUpdatedAt,
  )
  const old = 'The connections below may be out of date.'
  return (
    <>
      {/* It is always there, because screen readers announce only what changes in it. */}
      <div role="status" className="col-span-full flex flex-col gap-2 text-bad empty:absolute">
        {reach === 'offline' && <p>{`You are offline. ${old}`}</p>}
        {reach === 'unanswered' && haveFailed && <p>{`The server could not be reached. ${old}`}</p>}
        {hasEnded && (
          <p>{`Your session has ended. Connect ${crm.name} to find your settings again.`}</p>
        )}
      </div>
      <Failed provider={crm} />
      <Failed provider={chat} />
    </>
  )
}

function Failed({ provider }: { provider: Provider }) {
  const message = useFailedAuthorization(provider)
  const isConnected = useIsConnected(provider)
  // A later disconnect must not show it again.
  useEffect(() => {
    if (isConnected) noticeAuthorization(provider)
  }, [isConnected, provider])
  return (
    <Warning isShown={message !== undefined && !isConnected} title={message ?? ''}>
      {`Press Connect beside ${provider.name} to try again.`}
    </Warning>
  )
}
