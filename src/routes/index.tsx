import { createFileRoute } from '@tanstack/react-router'
import { connectionStatusQuery } from '../api/connections.ts'
import { rulesQuery } from '../api/rules.ts'
import { Dashboard } from '../components/Dashboard.tsx'
import { config } from '../config.ts'

export const Route = createFileRoute('/')({
  loader: ({ context: { queryClient } }) => {
    // All at once and none awaited; the query cache logs what fails.
    queryClient.query(connectionStatusQuery(config.crm)).catch(() => {})
    queryClient.query(connectionStatusQuery(config.chat)).catch(() => {})
    queryClient.query(rulesQuery).catch(() => {})
  },
  component: Dashboard,
})
