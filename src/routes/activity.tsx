import { createFileRoute } from '@tanstack/react-router'
import { type ActivityState, activityEndpoints } from '../../contract/activity.ts'
import { useHasFeature } from '../api/health.ts'
import { ActivityChart } from '../components/ActivityChart.tsx'
import { ActivityList } from '../components/ActivityList.tsx'
import { GenericError } from '../components/GenericError.tsx'
import { useInsights } from '../components/use-insights.ts'
import { config } from '../config.ts'
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

export const Route = createFileRoute('/activity')({
  // An unknown state counts as all.
  validateSearch: ({ state }: { state?: unknown }): { state?: ActivityState | undefined } => ({
    state: isState(state) ? state : undefined,
  }),
  component: ActivityPage,
})

function ActivityPage() {
  const { state } = Route.useSearch()
  // A backend that answers only §7 has no such page.
  const isOffered = useHasFeature(activityEndpoints.activity.feature)
  useInsights(isOffered)
  if (!isOffered) return <GenericError />
  return (
    <Screen title="Activity" lead={`What was sent to ${config.chat.name}, and what was not.`}>
      <ActivityChart />
      <ActivityList state={state} />
    </Screen>
  )
}
