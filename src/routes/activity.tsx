import { createFileRoute, Link } from '@tanstack/react-router'
import type { ActivityState } from '../../contract/features/activity.ts'
import { ActivityChart } from '../activity/ActivityChart.tsx'
import { ActivityList } from '../activity/ActivityList.tsx'
import { useHasFeature } from '../api/health.ts'
import { usePerson } from '../api/person.ts'
import { useSummary } from '../api/summary.ts'
import { config } from '../config.ts'
import { NotFound } from '../shell/GenericError.tsx'
import { Boundary } from '../ui/Boundary.tsx'
import { buttonStyle } from '../ui/button-style.ts'
import { Screen } from '../ui/Screen.tsx'

interface ActivitySearch {
  state?: ActivityState | undefined
  rule?: string | undefined
  q?: string | undefined
  day?: string | undefined
}

export const Route = createFileRoute('/activity')({
  // The backend refuses what it does not know.
  validateSearch: ({ state, rule, q, day }: ActivitySearch): ActivitySearch => ({
    state,
    rule,
    q,
    day,
  }),
  staticData: { isPersonal: true },
  component: ActivityPage,
})

function ActivityPage() {
  // A backend that answers only §7 has no such page.
  const isOffered = useHasFeature('activity')
  // Any answer may be the first to say so.
  const isSignedOut = usePerson() === 'nobody'
  if (!isOffered) return <NotFound />
  return (
    <Screen title="Activity" lead={`What was sent to ${config.chat.name}, and what was not.`}>
      {isSignedOut ? (
        <SignedOut />
      ) : (
        <>
          <Boundary>
            <ActivityChart />
          </Boundary>
          <Boundary>
            <ActivityList />
          </Boundary>
        </>
      )}
    </Screen>
  )
}

/** Instead of a chart, filters and a list, whose numbers would be those of nobody. */
function SignedOut() {
  // Its answers say when another tab has signed in.
  useSummary()
  return (
    <div className="card items-start p-4 sm:p-6">
      <p className="text-muted">
        {`Connect ${config.crm.name} on the dashboard to see your messages.`}
      </p>
      <Link to="/" className={buttonStyle.secondary}>
        Go to the dashboard
      </Link>
    </div>
  )
}
