import { type Context, Hono, type MiddlewareHandler } from 'hono'
import * as v from 'valibot'
import { countCalls } from '../tokens.ts'
import {
  currency,
  dailyTokens,
  maySee,
  type PipedriveCompany,
  type StandInUser,
  standInPipelines,
} from './company.ts'
import { type StandInWebhook, type StandInWebhooks, webhookBody } from './webhooks.ts'

interface Env {
  Variables: { user: StandInUser }
}

const burst = { calls: 80, intervalMs: 2_000 }
const maxWebhooks = 40

const digits = v.pipe(v.string(), v.digits(), v.transform(Number))
const page = {
  limit: v.pipe(v.optional(digits, '100'), v.minValue(1), v.maxValue(500)),
  /** What the last answer said. */
  cursor: v.pipe(
    v.optional(v.string(), btoa('0')),
    v.transform((text) => Buffer.from(text, 'base64').toString()),
    digits,
  ),
}
const dealsQuery = v.object({
  ...page,
  ids: v.optional(v.pipe(v.string(), v.regex(/^\d+(,\d+){0,99}$/))),
  updated_since: v.optional(v.pipe(v.string(), v.isoTimestamp()), '1970-01-01T00:00:00Z'),
  sort_by: v.optional(v.picklist(['id', 'update_time']), 'id'),
  sort_direction: v.optional(v.literal('asc')),
})

/** Pipedrive's API for deals, as far as Dealbell calls it. */
export function createPipedriveApi(
  { users, deals, budget, about }: PipedriveCompany,
  webhooks: StandInWebhooks,
): Hono<Env> {
  const limits = new Map(users.map((user) => [user, countCalls(burst)]))

  /** The guard of the calls that need a scope and cost tokens. A call over a limit costs nothing. */
  function guard(scope: string, tokens: number): MiddlewareHandler<Env> {
    return async (c, next) => {
      const given = c.req.header('Authorization')?.replace('Bearer ', '') ?? ''
      const user = users.find(({ tokens }) => typeof tokens.read(given) !== 'string')
      const token = user?.tokens.read(given) ?? 'invalid'
      if (user === undefined || typeof token === 'string' || token.use !== 'access') {
        return refused(c, 401, 'unauthorized access')
      }
      const remaining = limits.get(user)?.()
      const isWithin = remaining !== undefined && budget.take(tokens)
      c.header('x-ratelimit-limit', `${burst.calls}`)
      c.header('x-ratelimit-remaining', `${remaining ?? 0}`)
      c.header('x-ratelimit-reset', `${burst.intervalMs / 1000}`)
      // Not documented, but sent.
      c.header('x-daily-ratelimit-token-limit', `${dailyTokens}`)
      c.header('x-daily-ratelimit-token-remaining', `${dailyTokens - budget.used}`)
      if (!isWithin) return refused(c, 429, 'request over limit')
      if (!token.scopes?.includes(scope)) return refused(c, 403, 'Scope and URL mismatch')
      c.set('user', user)
      return await next()
    }
  }

  /** A user does not learn that a hidden deal exists. */
  function dealOf(c: Context<Env>) {
    const deal = deals.get(c.req.param('id') ?? '')
    return deal && maySee(c.var.user, deal.data) ? deal : undefined
  }

  function userAnswer(c: Context<Env>, { id, name, email }: StandInUser, more?: object) {
    const isYou = c.var.user.id === id
    const always = { default_currency: currency, active_flag: true, is_deleted: false }
    return c.json({ success: true, data: { id, name, email, ...always, is_you: isYou, ...more } })
  }

  /** How a ban looks here is not documented. */
  function webhookAnswer({ failedFirstTries: _, bannedUntil: __, ...webhook }: StandInWebhook) {
    const owner = { company_id: about.company_id, owner_id: webhook.user_id }
    return { ...webhook, ...owner, is_active: 1, type: 'application', remove_reason: null }
  }

  return new Hono<Env>()
    .get('/v2/deals/:id{[0-9]+}', guard('deals:read', 1), (c) => {
      const deal = dealOf(c)
      if (deal === undefined) return refused(c, 404, 'Deal not found')
      return c.json({ success: true, data: deal.data })
    })
    .get('/v2/deals', guard('deals:read', 10), (c) => {
      const query = v.safeParse(dealsQuery, c.req.query())
      if (!query.success) return invalid(c, query.issues)
      const { ids, updated_since, sort_by } = query.output
      const asked = ids?.split(',').map(Number)
      const found = deals
        .all()
        .map(({ data }) => data)
        .filter((deal) => maySee(c.var.user, deal) && (asked?.includes(deal.id) ?? true))
        .filter(({ update_time }) => Date.parse(update_time) >= Date.parse(updated_since))
        // They are stored by id, and sorting keeps the order of equal ones.
        .sort((a, b) => (a[sort_by] < b[sort_by] ? -1 : a[sort_by] > b[sort_by] ? 1 : 0))
      return listed(c, found)
    })
    .get('/v2/pipelines', guard('deals:read', 5), (c) => {
      const named = standInPipelines.map(({ id, label: name }) => ({ id, name }))
      return listed(c, inOrder(named))
    })
    .get('/v2/stages', guard('deals:read', 5), (c) => {
      const stages = standInPipelines.flatMap(({ id: pipeline_id, stages }) =>
        inOrder(stages.map(({ id, label: name }) => ({ id: Number(id), name, pipeline_id }))),
      )
      return listed(c, stages)
    })
    .get('/v1/deals/:id{[0-9]+}/changelog', guard('recents:read', 20), (c) => {
      const deal = dealOf(c)
      if (deal === undefined) return refused(c, 404, 'Deal not found')
      const text = (value: unknown) => (value === null ? null : String(value))
      // Whether the real one also lists what a deal was created with is not documented.
      const changes = deal.changes.toReversed().map(({ field, from, to, at }) => ({
        field_key: field,
        old_value: text(from),
        new_value: text(to),
        actor_user_id: users[0].id,
        time: new Date(at).toISOString().slice(0, 19).replace('T', ' '),
        change_source: 'app',
        is_bulk_update_flag: false,
      }))
      return listed(c, changes)
    })
    .get('/v1/users/me', guard('base', 2), (c) => userAnswer(c, c.var.user, about))
    .get('/v1/users/:id{[0-9]+}', guard('users:read', 2), (c) => {
      const user = users.find(({ id }) => `${id}` === c.req.param('id'))
      if (user === undefined) return refused(c, 404, 'User not found or not accessible.')
      return userAnswer(c, user)
    })
    .get('/v1/webhooks', guard('webhooks:full', 10), (c) =>
      c.json({ status: 'ok', success: true, data: webhooks.of(c.var.user).map(webhookAnswer) }),
    )
    .post('/v1/webhooks', guard('webhooks:full', 10), async (c) => {
      const body = v.safeParse(webhookBody, await c.req.json().catch(() => undefined))
      if (!body.success) return wrong(c, 400, v.getDotPath(body.issues[0]) ?? 'body', 'invalid')
      const { user } = c.var
      if (!webhooks.isAllowed(body.output.subscription_url)) {
        return wrong(c, 400, 'subscription_url', 'invalid or non-reachable URL')
      }
      if (webhooks.of(user).length >= maxWebhooks) return refused(c, 422, 'Too many webhooks')
      const data = webhookAnswer(webhooks.add({ ...body.output, user_id: user.id }))
      return c.json({ status: 'ok', success: true, data }, 201)
    })
    .delete('/v1/webhooks/:id{[0-9]+}', guard('webhooks:full', 6), (c) => {
      const webhook = webhooks.all.get(Number(c.req.param('id')))
      if (webhook === undefined) return wrong(c, 404, 'id', 'not found')
      if (webhook.user_id !== c.var.user.id) {
        return c.json({ success: false, message: 'Forbidden' }, 403)
      }
      webhooks.all.delete(webhook.id)
      return c.json({ status: 'ok', success: true })
    })
}

const inOrder = (items: readonly object[]) =>
  items.map((item, order_nr) => ({ ...item, order_nr, is_deleted: false }))

/** The part of a list that a call wants. */
function listed(c: Context, items: readonly object[]): Response {
  const query = v.safeParse(v.object(page), c.req.query())
  if (!query.success) return invalid(c, query.issues)
  const { cursor, limit } = query.output
  const end = cursor + limit
  const additional_data = { next_cursor: end < items.length ? btoa(`${end}`) : null }
  return c.json({ success: true, data: items.slice(cursor, end), additional_data })
}

const invalid = (c: Context, issues: [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]]) =>
  refused(c, 400, `Parameter validation failed: ${v.getDotPath(issues[0])}`)

/** Errors of webhooks have a form of their own. */
const wrong = (c: Context, status: 400 | 404, field: string, why: string) =>
  c.json({ success: false, status: 'error', errors: { [field]: why } }, status)

function refused(c: Context, status: 400 | 401 | 403 | 404 | 422 | 429, error: string): Response {
  return c.json({ success: false, error, errorCode: status }, status)
}
