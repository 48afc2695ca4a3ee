import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { ActivityState } from '../../contract/features/activity.ts'
import type { ActivityFilter } from '../api/activity.ts'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'
import { buttonStyle } from '../ui/button-style.ts'

/** In place of an empty list. */
export function NoMessages({
  filter: { state, rule, q, day },
  standInLinks,
}: {
  filter: ActivityFilter
  standInLinks: ReactNode
}) {
  const canSendTest = useHasFeature('test-message')
  if (rule !== undefined || q !== undefined || day !== undefined) {
    return (
      <div className="card items-start p-4 sm:p-6">
        <p className="text-muted">No message matches.</p>
        <Link to="/activity" search={{}} resetScroll={false} className={buttonStyle.secondary}>
          Show all messages
        </Link>
      </div>
    )
  }
  if (state !== undefined) return <p className="text-muted">{noneOf[state]}</p>
  return (
    <div className="card items-start p-4 sm:p-6">
      <div>
        <p className="font-semibold">No messages yet</p>
        <p className="text-muted">
          {`Move a deal in ${config.crm.name}${canSendTest ? ', or send a test message' : ''}.`}
        </p>
      </div>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2 text-sm">
        <Link to="/" className={buttonStyle.secondary}>
          Go to the dashboard
        </Link>
        {standInLinks}
      </div>
    </div>
  )
}

const noneOf: Record<ActivityState, string> = {
  sent: 'No message has been sent yet.',
  waiting: 'No message is waiting.',
  failed: 'No message has failed.',
  skipped: 'No message has been skipped.',
}
