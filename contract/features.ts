import type { Feature, FeatureCall } from './endpoints.ts'
import { activity } from './features/activity.ts'
import { activitySearch } from './features/activity-search.ts'
import { preview } from './features/preview.ts'
import { retryAll } from './features/retry-all.ts'
import { sessions } from './features/sessions.ts'
import { testMessage } from './features/test-message.ts'

// The dashboard imports only types of this file, because it loads what goes beyond §7 later.

/** All that a backend may offer beyond §7. */
export const features = [
  activity,
  activitySearch,
  preview,
  retryAll,
  sessions,
  testMessage,
] as const satisfies readonly Feature[]

export type FeatureName = (typeof features)[number]['name']

/** What `health` lists of a backend that offers everything. */
export const featureNames: readonly FeatureName[] = features.map(({ name }) => name)

/** Every call beyond §7. */
export const featureCalls: readonly FeatureCall[] = features.flatMap(({ calls }: Feature) => calls)
