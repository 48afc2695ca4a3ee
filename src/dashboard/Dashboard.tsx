import { PageNotice } from '../account/PageNotice.tsx'
import { FailedMessages } from '../activity/SendAllAgain.tsx'
import { useConnectionStatus } from '../api/connections.ts'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'
import { Connection } from '../connections/Connection.tsx'
import { StandInLink } from '../connections/StandInLink.tsx'
import { TestMessage } from '../connections/TestMessage.tsx'
import { RuleSettings } from '../rules/RuleSettings.tsx'
import { Below } from '../ui/Below.tsx'
import { Boundary } from '../ui/Boundary.tsx'
import { Card } from '../ui/Card.tsx'
import { Screen } from '../ui/Screen.tsx'
import { Warning } from '../ui/Warning.tsx'

export function Dashboard() {
  const { crm, chat } = config
  const crmStatus = useConnectionStatus(crm)
  const chatStatus = useConnectionStatus(chat)
  const isCrmConnected = crmStatus.data?.connected === true
  // Do not use isPending: a failed status is pending again at each new attempt.
  const areKnown = crmStatus.isFetched && chatStatus.isFetched
  const areConnected = isCrmConnected && chatStatus.data?.connected === true
  const hasActivity = useHasFeature('activity')
  return (
    <Screen
      title="Deal notifications"
      lead={`Choose which ${crm.name} deal events ${chat.name} reports.`}
    >
      <Boundary>
        <PageNotice />
      </Boundary>
      <Warning isShown={areKnown && !areConnected} title="Connections required">
        {`Please connect both ${crm.name} and ${chat.name} so that notifications work.`}
      </Warning>
      {areKnown ? (
        <>
          <Card heading="Connections">
            <ul className="divide-y divide-line">
              <Connection provider={crm} isNext>
                <Below>
                  <StandInLink provider={crm} />
                  {/* What a disconnect also does: server/api/status-and-disconnect.ts. */}
                  {hasActivity && <p>Disconnect also clears the deal names in Activity.</p>}
                </Below>
              </Connection>
              <Connection provider={chat} isNext={isCrmConnected}>
                <Below>
                  <StandInLink provider={chat} />
                  <TestMessage />
                </Below>
                <Below>{hasActivity && isCrmConnected && <FailedMessages />}</Below>
              </Connection>
            </ul>
          </Card>
          <Card heading="Notification Rules">
            <RuleSettings />
          </Card>
          <div className="after-rules">
            <Card heading="AI rules (future)">
              <textarea
                disabled
                aria-label="AI rules (future)"
                placeholder="Type a rule in your own words, for example: notify me when a deal over 50k closes"
                rows={3}
                className="field-sizing-content min-h-22 w-full resize-none rounded-lg border border-line bg-canvas p-3 text-sm text-muted placeholder:text-muted"
              />
            </Card>
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
