import type { QueryClient } from '@tanstack/react-query'

/**
 * The key of a call. What is about a person begins with `personKey`, or the next person would see it. What is about
 * their connections beyond §7 begins with `featuresKey`, or it stays after a disconnect.
 */
export type CallKey =
  | readonly [...typeof personKey, ...unknown[]]
  | readonly [...typeof callbackKey, ...unknown[]]
  | typeof healthKey

// What begins with one of these keys is loaded again, or forgotten, together.
export const healthKey = ['health'] as const
export const personKey = ['person'] as const
export const statusKey = [...personKey, 'status'] as const
export const rulesKey = [...personKey, 'rules'] as const
/** What a backend says beyond §7. */
export const featuresKey = [...personKey, 'features'] as const
/** Messages, and how many there are. */
export const activityKey = [...featuresKey, 'activity'] as const
/** What was asked with the codes of providers. */
export const callbackKey = ['oauth-callback'] as const

/** The sign-out of this browser. */
export const endSessionKey = ['end-session', 'own'] as const

/** Loads both connection statuses again: now if they are on screen, otherwise when they are shown. */
export const reloadStatuses = (queryClient: QueryClient) =>
  queryClient.invalidateQueries({ queryKey: statusKey })
