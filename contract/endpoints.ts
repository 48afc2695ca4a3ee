import * as v from 'valibot'
import { visibleText } from './visible.ts'

/**
 * The first segments of all paths that the backend answers. No address of the dashboard begins with
 * one of them, and no provider has one of them as its name.
 */
export const backendRoots = [
  'api',
  'health',
  'sandbox',
  'webhooks',
  'relay',
  'ready',
  'metrics',
] as const

/** Matches the path of every address that the backend answers. */
export const backendPath = new RegExp(`^/(${backendRoots.join('|')})(/|$)`)

/** Every call of §7. `:provider` stands for the lowercase name of CRM or chat; see `pathOf`. */
export const endpoints = {
  health: { method: 'GET', path: '/health' },
  status: { method: 'GET', path: '/api/:provider/status' },
  rules: { method: 'GET', path: '/api/notifications/rules' },
  saveRules: { method: 'POST', path: '/api/notifications/rules' },
  disconnect: { method: 'DELETE', path: '/api/:provider/disconnect' },
  callback: { method: 'GET', path: '/api/:provider/callback' },
} as const

/**
 * What a backend may offer beyond §7. Its answer of `health` lists what it offers. Each file of contract/features/
 * describes one.
 */
export interface Feature {
  /** What `health` lists. */
  name: string
  /** What the dashboard shows with it. docs/backend.md says so. */
  shows: string
  calls: readonly FeatureCall[]
}

export interface FeatureCall {
  /** A client makes this call only if `health` lists its feature. */
  call: { method: 'GET' | 'POST' | 'DELETE'; path: string; feature: string }
  /** The schema of the answer. Without one, the answer is not read. */
  answer?: v.GenericSchema
  /** One answer, which the backend of the tests gives. */
  example?: unknown
}

/**
 * The code of a callback that the provider has refused, or that was not begun here. The sentence of such a refusal says what to do, and contains
 * nothing of the call.
 */
export const exchangeRefused = 'exchange_refused'

/**
 * A header that a backend may add to its answers. It names the person of the session with a short opaque
 * text, or `nobody` without a session. While the CRM has not said who it is, the name begins with `nobody-`: what this
 * browser ticks then belongs to whoever it becomes. The dashboard sends the name that its page shows with each
 * call that changes something. The backend refuses the call with 409 if its session has another name.
 */
export const personHeader = 'Dealbell-Person'

/** The addresses that the browser navigates to while it connects a provider (§7). */
export const navigations = {
  /** The backend redirects from here to the provider's consent page. */
  authorize: { path: '/api/:provider/auth' },
  /** The dashboard's page that the provider redirects back to. */
  callbackPage: { path: '/:provider/callback' },
} as const

/** Returns the path of an endpoint or navigation for one provider. */
export function pathOf(
  { path }: { path: `${string}:provider${string}` },
  providerId: string,
): string {
  return path.replace(':provider', () => providerId)
}

/** An optional text that §7 does not name. Anything of which a reader sees nothing counts as absent. */
const extraText = v.optional(v.pipe(v.unknown(), v.transform(visibleText)))

/** The answer of `health`. Any other answer means that the service is unavailable. */
export const healthAnswer = v.object({
  status: v.unknown(),
  /** What the backend can do beyond §7. Anything but a list of texts counts as absent. */
  features: v.optional(v.fallback(v.optional(v.array(v.string())), undefined)),
  /**
   * The services that the backend only plays, by their ids, with the path of a page on which a person can use
   * each. What is no such path is left out.
   */
  standIns: v.optional(v.pipe(v.unknown(), v.transform(pathsIn))),
  /** The origin at which people must open the dashboard, because services redirect to it. */
  appUrl: extraText,
})
export type Health = v.InferOutput<typeof healthAnswer>

/**
 * The answer of `status`. If `connected` is no boolean, the call has failed.
 * §7 does not name the other fields, so a backend may leave them out.
 */
export const connectionStatusAnswer = v.object({
  connected: v.boolean(),
  /** The name of the account or workspace. */
  account: extraText,
  /** The channel that messages go to. */
  channel: extraText,
  /** When the channel had this name, in ISO 8601. It may have another one by now. */
  channelAsOf: extraText,
  /** A sentence that says that messages may be late although it is connected. */
  late: extraText,
  /** A sentence that says why an earlier connection no longer works. */
  reason: extraText,
  /** The time at which it stopped working, in ISO 8601. */
  since: extraText,
})
export type ConnectionStatus = v.InferOutput<typeof connectionStatusAnswer>

/**
 * The answer of `rules`. If `rules` is no array, it counts as empty. Items that are no strings, and
 * duplicates, are dropped.
 */
export const rulesAnswer = v.object({
  rules: v.pipe(
    v.optional(v.unknown(), null),
    v.transform((rules) => [...new Set(Array.isArray(rules) ? rules.filter(isString) : [])]),
  ),
})
export type Rules = v.InferOutput<typeof rulesAnswer>

/** The body of `saveRules`. */
export const saveRulesBody = v.object({ rules: v.array(v.string()) })
export type SaveRulesBody = v.InferOutput<typeof saveRulesBody>

/** The body of an answer with an error status. Users may see the message. */
export const errorBody = v.object({ error: v.object({ code: v.string(), message: v.string() }) })

/** The values that are paths on the backend's own origin. They become links. */
function pathsIn(value: unknown): Record<string, string> {
  const paths = Object.entries(value ?? {}).filter(
    (entry): entry is [string, string] => isString(entry[1]) && /^(\/[\w.-]+)+$/.test(entry[1]),
  )
  return Object.fromEntries(paths)
}

function isString(value: unknown): value is string {
  return typeof value === 'string'
}
