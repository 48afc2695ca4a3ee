import { eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import * as v from 'valibot'
import { endpoints, type Rules, saveRulesBody } from '../../contract/endpoints.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import type { Context } from '../context.ts'
import { rules } from '../database/schema.ts'
import { ApiError } from '../http/errors.ts'
import { routeOf } from '../people/routes.ts'

const maxBodyBytes = 64 * 1024

/** The rules that a user has saved (§7). */
export function ruleRoutes({ database, sessions, now }: Context) {
  async function savedRules(userId: string): Promise<string[]> {
    const [row] = await database
      .select({ ruleIds: rules.ruleIds })
      .from(rules)
      .where(eq(rules.userId, userId))
    return row?.ruleIds ?? []
  }

  return new Hono()
    .get(endpoints.rules.path, async (c) => {
      const session = await sessions.find(c)
      const saved = session === undefined ? [] : await savedRules(session.userId)
      return c.json({ rules: saved } satisfies Rules)
    })
    .post(
      endpoints.saveRules.path,
      async (c, next) => {
        // A form on another site can send three content types. JSON is not one of them.
        if (!/^application\/json\s*(;|$)/i.test(c.req.header('Content-Type') ?? '')) {
          throw new ApiError(415, 'not_json', 'The body must be application/json.')
        }
        await next()
      },
      bodyLimit({
        maxSize: maxBodyBytes,
        onError: () => {
          throw new ApiError(413, 'too_large', 'The body must not be over 64 KiB.')
        },
      }),
      async (c) => {
        const json = await c.req.json<unknown>().catch(() => {
          throw new ApiError(400, 'invalid_json', 'The body is not JSON.')
        })
        const body = v.safeParse(saveRulesBody, json)
        if (!body.success) {
          throw new ApiError(400, 'invalid_body', 'The body must be {"rules": [rule ids]}.')
        }
        const ruleIds = [...new Set(body.output.rules)]

        const session = await sessions.find(c)
        // A broken connection counts: it may have broken a moment ago, and the choice must not be lost.
        const { crm, chat } = await routeOf(database, session?.userId)
        if (session === undefined || crm === undefined || chat === undefined) {
          throw new ApiError(409, 'not_connected', 'A CRM and a chat must be connected.')
        }
        const { userId } = session
        // An id that we do not offer is kept if it is already stored, because an older client saves
        // back what a newer one set. Nobody can add such an id.
        const others = ruleIds.filter((id) => !availableRuleIds.has(id))
        const stored = new Set(others.length > 0 ? await savedRules(userId) : [])
        if (!others.every((id) => stored.has(id))) {
          throw new ApiError(400, 'unknown_rule', 'The rules hold an id that is not offered.')
        }

        await database
          .insert(rules)
          .values({ userId, ruleIds, savedAt: now() })
          .onConflictDoUpdate({ target: rules.userId, set: { ruleIds, savedAt: now() } })
        return c.body(null, 204)
      },
    )
}
