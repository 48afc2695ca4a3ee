import { createFileRoute } from '@tanstack/react-router'
import { Screen } from '../ui/Screen.tsx'

interface Search {
  state?: string | undefined
}

export const Route = createFileRoute('/activity')({
  validateSearch: ({ state }: Search): Search => ({ state }),
  component: ActivityPage,
})

function ActivityPage() {
  return <Screen title="Activity">{null}</Screen>
}
