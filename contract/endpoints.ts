import * as v from 'valibot'

/** GET /health (§7). Any other answer means that the service is unavailable. */
export const healthAnswer = v.object({ status: v.string() })

/** A text that a backend may add to an answer; anything else counts as absent. */
const extraText = v.optional(v.fallback(v.optional(v.string()), undefined))

/**
 * GET /api/{provider}/status (§7). Only `true` is connected; anything but a boolean is a failed call.
 * The rest is more than §7 asks for, and a backend may leave it out.
 */
export const connectionStatusAnswer = v.object({
  connected: v.boolean(),
  /** The account's or workspace's name. */
  account: extraText,
  /** The channel that messages go to. */
  channel: extraText,
  /** Why a connection that was made is not honoured any more, as a sentence. */
  reason: extraText,
  /** Since when, in ISO 8601. */
  since: extraText,
})
export type ConnectionStatus = v.InferOutput<typeof connectionStatusAnswer>

/**
 * GET /api/notifications/rules (§7): a non-array is empty, entries that are no strings are
 * dropped, and an id counts once.
 */
export const rulesAnswer = v.object({
  rules: v.pipe(
    v.optional(v.unknown(), null),
    v.transform((rules) => [...new Set(Array.isArray(rules) ? rules.filter(isString) : [])]),
  ),
})
export type Rules = v.InferOutput<typeof rulesAnswer>

/** The body of POST /api/notifications/rules (§7). */
export const saveRulesBody = v.object({ rules: v.array(v.string()) })
export type SaveRulesBody = v.InferOutput<typeof saveRulesBody>

/** Every call of §7 by method and path; `:provider` is the lowercase name of the CRM or of the chat. */
export const endpoints = {
  health: { method: 'GET', path: '/health' },
  status: { method: 'GET', path: '/api/:provider/status' },
  rules: { method: 'GET', path: '/api/notifications/rules' },
  saveRules: { method: 'POST', path: '/api/notifications/rules' },
  disconnect: { method: 'DELETE', path: '/api/:provider/disconnect' },
  callback: { method: 'GET', path: '/api/:provider/callback' },
} as const

function isString(value: unknown): value is string {
  return typeof value === 'string'
}
