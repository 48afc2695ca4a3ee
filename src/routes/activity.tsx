import { createFileRoute } from '@tanstack/react-router'
import { type ActivityState, activityEndpoints, activityStates } from '../../contract/activity.ts'
import { useHasFeature } from '../api/health.ts'
import { ActivityChart } from '../components/ActivityChart.tsx'
import { ActivityList } from '../components/ActivityList.tsx'
import { GenericError } from '../components/GenericError.tsx'
import { config } from '../config.ts'
import { Screen } from '../ui/Screen.tsx'

interface Search {
  state?: ActivityState | undefined
}

export const Route = createFileRoute('/activity')({
  validateSearch: ({ state }: Search): Search => ({ state }),
  component: ActivityPage,
})

function ActivityPage() {
  // An unknown state counts as all. Checked here, so that the dashboard's script has no list of states.
  const wanted = Route.useSearch({ select: (search) => search.state })
  const state = activityStates.find((each) => each === wanted)
  // A backend that answers only §7 has no such page.
  const isOffered = useHasFeature(activityEndpoints.activity.feature)
  if (!isOffered) return <GenericError />
  return (
    <Screen title="Activity" lead={`What became of the messages to ${config.chat.name}.`}>
      <ActivityChart />
      <ActivityList state={state} />
    </Screen>
  )
}
