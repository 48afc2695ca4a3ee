import { Link } from '@tanstack/react-router'
import { useHasFeature } from '../api/health.ts'
import { config } from '../config.ts'
import { buttonStyle } from '../ui/button-style.ts'
import { useFilter } from './activity-filter.ts'

/** In place of an empty list. */
export function NoMessages() {
  const { state, rule, q, day } = useFilter()
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
  if (state !== undefined) return <p className="text-muted">{`No ${state} messages.`}</p>
  return (
    <div className="card items-start p-4 sm:p-6">
      <div>
        <p className="font-semibold">No messages yet</p>
        <p className="text-muted">
          {`Move a deal in ${config.crm.name}${canSendTest ? ', or send a test message' : ''}.`}
        </p>
      </div>
      <Link to="/" className={buttonStyle.secondary}>
        Go to the dashboard
      </Link>
    </div>
  )
}
