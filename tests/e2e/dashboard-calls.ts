/** The calls that the dashboard makes when it opens, besides the health check. */
export const dashboardCalls = [
  '/api/hubspot/status',
  '/api/notifications/rules',
  '/api/slack/status',
]
