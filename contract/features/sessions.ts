import type { Feature } from '../endpoints.ts'

/** Ends this browser's session, or with the query `others=true` all other sessions of its user. */
export const endSessionCall = {
  method: 'DELETE',
  path: '/api/session',
  feature: 'sessions',
} as const

export const sessions = {
  name: 'sessions',
  shows: "in the header's menu, both ways to sign out",
  calls: [{ call: endSessionCall }],
} as const satisfies Feature
