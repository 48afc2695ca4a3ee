import * as v from 'valibot'
import { visibleText } from './visible.ts'

// What several answers of contract/features/ consist of.

/** A number of messages or days. */
export const count = v.pipe(v.number(), v.integer(), v.minValue(0))

/** A time in ISO 8601. */
export const time = v.pipe(v.string(), v.isoTimestamp())

/** A text, or null if there is none. One of which a reader sees nothing counts as null. */
export const shownText = v.pipe(
  v.nullable(v.string()),
  v.transform((text) => visibleText(text) ?? null),
)
