import { useConnectionStatus } from '../api/connections.ts'
import { config } from '../config.ts'
import { Card } from '../ui/Card.tsx'
import { Screen } from '../ui/Screen.tsx'
import { Warning } from '../ui/Warning.tsx'
import { Connection } from './Connection.tsx'
import { RuleSettings } from './RuleSettings.tsx'
import { SignOut } from './SignOut.tsx'

export function Dashboard() {
  const { crm, chat } = config
  const crmStatus = useConnectionStatus(crm)
  const chatStatus = useConnectionStatus(chat)
  const areConnected = crmStatus.data?.connected === true && chatStatus.data?.connected === true

  return (
    <Screen
      title="Deal notifications"
      lead={`Choose which ${crm.name} events ${chat.name} hears of.`}
    >
      {/* Do not use isPending: a failed status is pending again at each new attempt. */}
      {crmStatus.isFetched && chatStatus.isFetched ? (
        <>
          {!areConnected && (
            <Warning title="Connections required">
              Please connect both {crm.name} and {chat.name} so that notifications work.
            </Warning>
          )}
          <Card heading="Connections">
            <ul className="divide-y divide-line">
              <Connection provider={crm} />
              <Connection provider={chat} />
            </ul>
          </Card>
          <Card heading="Notification Rules">
            <RuleSettings
              canSave={areConnected}
              isChecking={crmStatus.isFetching || chatStatus.isFetching}
            />
          </Card>
          <div className="after-rules flex flex-col gap-6">
            <Card heading="AI rules (future)">
              <textarea
                disabled
                aria-label="AI rules (future)"
                placeholder="Type a rule in your own words, for example: notify me when a deal over 50k closes"
                rows={3}
                className="field-sizing-content min-h-22 w-full resize-none rounded-lg border border-line bg-canvas p-3 text-sm text-muted placeholder:text-muted"
              />
            </Card>
            <SignOut />
          </div>
        </>
      ) : (
        <p role="status" className="loading-dashboard">
          Loading dashboard...
        </p>
      )}
    </Screen>
  )
}
