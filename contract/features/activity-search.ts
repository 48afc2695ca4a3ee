import type { Feature } from '../endpoints.ts'
import { activityAnswer, activityCall } from './activity.ts'

/**
 * The list of the activity with further parameters, in any combination: `q`, a part of the deal's name in any case, up
 * to 100 characters; `rule`, the id of a rule; `day`, such as `2026-11-21`, and the `zone` in which it begins;
 * `counts=true`, to count what the same parameters find in each state.
 *
 * A backend may look at so many messages alone that it answers fast, and then answers fewer than `limit`, or
 * none, with a `next` and `searchedTo`. The `next` goes on from there.
 */
const searchCall = {
  method: 'GET',
  path: activityCall.path,
  feature: 'activity-search',
} as const

const none = { count: 0, more: false }

export const activitySearch = {
  name: 'activity-search',
  shows: 'on /activity a search, a filter by rule and day, and how many messages are in each state',
  calls: [
    {
      call: searchCall,
      answer: activityAnswer,
      example: {
        items: [],
        next: null,
        counts: { sent: none, waiting: none, failed: none, skipped: none },
      },
    },
  ],
} as const satisfies Feature
