import { createFileRoute } from '@tanstack/react-router'
import { connectionStatusQuery } from '../api/connections.ts'
import { expireRules, rulesQuery } from '../api/rules.ts'
import { config } from '../config.ts'
import { Dashboard } from '../dashboard/Dashboard.tsx'

export const Route = createFileRoute('/')({
  loader: ({ cause, context: { queryClient } }) => {
    // §4: the rules load when the dashboard opens. Another tab may have saved since the last time.
    if (cause === 'enter') void expireRules(queryClient)
    // Start all calls at the same time, and do not await them. The query cache logs failures. The boot script starts
    // them even earlier (build/boot.ts).
    queryClient.query(connectionStatusQuery(config.crm)).catch(() => {})
    queryClient.query(connectionStatusQuery(config.chat)).catch(() => {})
    queryClient.query(rulesQuery).catch(() => {})
  },
  staticData: { isPersonal: true },
  component: Dashboard,
})
