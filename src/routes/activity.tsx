import { createFileRoute } from '@tanstack/react-router'
import { type ActivityState, activityEndpoints } from '../../contract/activity.ts'
import { useHasFeature } from '../api/health.ts'
import { GenericError } from '../components/GenericError.tsx'
import { config } from '../config.ts'
import { ActivityChart } from '../late/ActivityChart.tsx'
import { ActivityList } from '../late/ActivityList.tsx'
import { loadLateStyles, useLateParts } from '../late/load.ts'
import { Screen } from '../ui/Screen.tsx'

// Every address loads the code of `validateSearch`. So it uses only the type of the contract, whose
// schemas are in the script of this page.
const states: Record<ActivityState, true> = {
  sent: true,
  waiting: true,
  failed: true,
  skipped: true,
}
const isState = (text: unknown): text is ActivityState =>
  typeof text === 'string' && Object.hasOwn(states, text)

interface ActivitySearch {
  state?: ActivityState | undefined
  rule?: string | undefined
  q?: string | undefined
  day?: string | undefined
}

export const Route = createFileRoute('/activity')({
  // An unknown state counts as all. The page looks at the rest (late/activity-filter.ts).
  validateSearch: ({ state, rule, q, day }: ActivitySearch): ActivitySearch => ({
    state: isState(state) ? state : undefined,
    rule,
    q,
    day,
  }),
  loader: loadLateStyles,
  component: ActivityPage,
})

function ActivityPage() {
  // A backend that answers only §7 has no such page.
  const isOffered = useHasFeature(activityEndpoints.activity.feature)
  useLateParts(isOffered)
  if (!isOffered) return <GenericError />
  return (
    <Screen title="Activity" lead={`What was sent to ${config.chat.name}, and what was not.`}>
      <ActivityChart />
      <ActivityList />
    </Screen>
  )
}
