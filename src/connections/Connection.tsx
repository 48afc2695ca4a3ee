import type { ReactNode } from 'react'
import { authorizeUrl, useConnectionStatus, useDisconnect } from '../api/connections.ts'
import { keepDraft } from '../api/draft.ts'
import { useHasFeature, useStandInUrl } from '../api/health.ts'
import { shownPerson } from '../api/person.ts'
import type { Provider } from '../config.ts'
import { Below } from '../ui/Below.tsx'
import { Button } from '../ui/Button.tsx'
import { dateInWords, isTime } from '../ui/dates.ts'
import { Fact } from '../ui/foreign-names.tsx'
import { GreenCheck, RedCross } from '../ui/icons.tsx'
import { BrokenConnection } from './BrokenConnection.tsx'
import { UnsentMessages } from './UnsentMessages.tsx'

/** One service: whether it is connected, and a button to connect or disconnect it. */
export function Connection({
  provider,
  isNext,
  children,
}: {
  provider: Provider
  /** Whether connecting this service is the user's next step. */
  isNext: boolean
  /** What stands below it while it is connected. */
  children?: ReactNode
}) {
  const status = useConnectionStatus(provider)
  const disconnect = useDisconnect(provider)
  const isConnected = status.data?.connected === true
  const { account, channel, channelAsOf, late, reason, since } = status.data ?? {}
  const asOf = channel && isTime(channelAsOf) ? ` (as of ${dateInWords(channelAsOf)})` : ''
  const isBusy = isConnected && disconnect.isPending
  const hasActivity = useHasFeature('activity')
  // The words of a backend of §7 stay as they are.
  const saysBusy = hasActivity && isBusy
  const isStandIn = useStandInUrl(provider) !== undefined
  const isBroken = !isConnected && reason !== undefined

  return (
    <li className="flex flex-wrap items-center gap-2 py-3 sm:gap-3 first:pt-0 last:pb-0">
      {/* The basis is less than its text, so that the button stays at the right of the row. */}
      <div
        className={`flex min-w-0 flex-1 basis-32 items-center gap-2 sm:gap-3 ${isBroken ? 'max-sm:basis-full' : ''}`}
      >
        <span className="grid size-9 shrink-0 place-items-center rounded-full border border-line bg-canvas">
          {isConnected ? <GreenCheck /> : <RedCross />}
        </span>
        {/* The live region includes the name: 'Not connected' alone does not name the service. */}
        <div role="status" className="min-w-0">
          <p className="font-semibold wrap-anywhere">{provider.name}</p>
          <p className={`text-sm wrap-anywhere ${isBroken ? 'text-bad' : 'text-muted'}`}>
            {isBroken ? (
              <BrokenConnection provider={provider} reason={reason} since={since} />
            ) : (
              <span>{isConnected ? 'Connected' : 'Not connected'}</span>
            )}
            <Fact>{isStandIn && !isBroken && 'stand-in on this server'}</Fact>
            {isConnected && (account || channel) && (
              <span className="names">
                <Fact>{account && <bdi>{account}</bdi>}</Fact>
                <Fact>{channel && <bdi>{channel}</bdi>}</Fact>
                {asOf && <span>{asOf}</span>}
              </span>
            )}
          </p>
          {isConnected && late && <p className="text-muted text-sm wrap-anywhere">{late}</p>}
        </div>
      </div>
      {/* One button for both actions, so that it keeps the focus when its text changes. */}
      <Button
        kind={isConnected || !isNext ? 'secondary' : 'primary'}
        busy={isBusy}
        label={`${saysBusy ? 'Disconnecting…' : isConnected ? 'Disconnect' : 'Connect'} ${provider.name}`}
        onClick={(event) => {
          // Ignore the second click of a double click: the button's text may have changed.
          if (event.detail > 1) return
          if (isConnected) return disconnect.mutate()
          keepDraft(shownPerson())
          window.location.assign(authorizeUrl(provider))
        }}
      >
        {saysBusy ? 'Disconnecting…' : isConnected ? 'Disconnect' : 'Connect'}
      </Button>
      <Below>{hasActivity && isBroken && <UnsentMessages provider={provider.name} />}</Below>
      {isConnected && children}
    </li>
  )
}
