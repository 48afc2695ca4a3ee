import { type Context, Hono } from 'hono'
import * as v from 'valibot'
import { isLoopback } from '../../server/http/origin.ts'
import {
  type DealData,
  maySee,
  type PipedriveCompany,
  type StandInUser,
  standInCompany,
  standInPipelines,
} from './company.ts'
import { createGuard, type DailyBudget, type Env, pipedriveError } from './limits.ts'
import { maxWebhooksOfUser, type StandInWebhook, type StandInWebhooks } from './webhooks.ts'

const digits = v.pipe(v.string(), v.digits(), v.transform(Number))
/** Where a list goes on: what the last answer said. */
const cursor = v.pipe(
  v.optional(v.string(), ''),
  v.transform((text) => Number(Buffer.from(text, 'base64url').toString())),
  v.safeInteger(),
  v.minValue(0),
)
const page = { limit: v.pipe(v.optional(digits, '100'), v.minValue(1), v.maxValue(500)), cursor }
const listQuery = v.object({
  ...page,
  ids: v.optional(
    v.pipe(
      v.string(),
      v.transform((text) => text.split(',')),
      v.array(digits),
      v.maxLength(100),
    ),
  ),
  updated_since: v.optional(v.pipe(v.string(), v.isoTimestamp()), '1970-01-01T00:00:00Z'),
  sort_by: v.optional(v.picklist(['id', 'update_time', 'add_time']), 'id'),
  sort_direction: v.optional(v.picklist(['asc', 'desc']), 'asc'),
})
const optionalText = v.nullish(v.string(), null)
const webhookBody = v.object({
  subscription_url: v.pipe(v.string(), v.url()),
  event_action: v.picklist(['create', 'change', 'delete', '*']),
  event_object: v.literal('deal'),
  name: v.pipe(v.string(), v.maxLength(255)),
  // The stand-in plays only this version.
  version: v.optional(v.literal('2.0')),
  user_id: v.optional(v.number()),
  http_auth_user: optionalText,
  http_auth_password: optionalText,
})

/** Pipedrive's API for deals, as far as Dealbell calls it. */
export function createPipedriveApi(
  { users, deals }: PipedriveCompany,
  webhooks: StandInWebhooks,
  budget: DailyBudget,
): Hono<Env> {
  const guard = createGuard(users, budget)
  const startedAt = new Date().toISOString()

  /** A user does not learn that a hidden deal exists. */
  function dealOf(c: Context<Env>) {
    const deal = deals.get(Number(c.req.param('id')))
    return deal && maySee(c.var.user, deal.data) ? deal : undefined
  }

  return new Hono<Env>()
    .get('/v2/deals/:id{[0-9]+}', guard('deals:read', 1), (c) => {
      const deal = dealOf(c)
      if (deal === undefined) return pipedriveError(c, 404, 'Deal not found')
      return c.json({ success: true, data: dealAnswer(deal.data) })
    })
    .get('/v2/deals', guard('deals:read', 10), (c) => {
      const query = v.safeParse(listQuery, c.req.query())
      if (!query.success) return invalid(c, query.issues)
      const { ids, updated_since, sort_by, sort_direction } = query.output
      const since = Date.parse(updated_since)
      const found = deals
        .all()
        .map(({ data }) => data)
        .filter((deal) => maySee(c.var.user, deal))
        .filter(({ id }) => ids?.includes(id) ?? true)
        .filter(({ update_time }) => Date.parse(update_time) >= since)
        .sort((a, b) => order(a[sort_by], b[sort_by]) || a.id - b.id)
      return listAnswer(
        c,
        (sort_direction === 'asc' ? found : found.reverse()).map(dealAnswer),
        query.output,
      )
    })
    .get('/v2/stages', guard('deals:read', 5), (c) => {
      const stages = standInPipelines.flatMap(({ id: pipeline_id, stages }) =>
        stages.map(({ id, label: name }, order_nr) => ({
          id: Number(id),
          order_nr,
          name,
          is_deleted: false,
          deal_probability: 100,
          pipeline_id,
          is_deal_rot_enabled: false,
          days_to_rotten: null,
          add_time: startedAt,
          update_time: null,
        })),
      )
      return paged(c, stages)
    })
    .get('/v2/pipelines', guard('deals:read', 5), (c) => {
      const pipelines = standInPipelines.map(({ id, label: name }, order_nr) => ({
        id,
        name,
        order_nr,
        is_deleted: false,
        is_deal_probability_enabled: true,
        add_time: startedAt,
        update_time: null,
        is_selected: order_nr === 0,
      }))
      return paged(c, pipelines)
    })
    .get('/v1/deals/:id{[0-9]+}/changelog', guard('recents:read', 20), (c) => {
      const deal = dealOf(c)
      if (deal === undefined) return pipedriveError(c, 404, 'Deal not found')
      const text = (value: unknown) => (value === null ? null : String(value))
      // Whether the real one also lists what a deal was created with is not documented.
      const changes = deal.changes.toReversed().map(({ field, from, to, at }) => ({
        field_key: field,
        old_value: text(from),
        new_value: text(to),
        actor_user_id: users[0]?.id,
        time: new Date(at).toISOString().slice(0, 19).replace('T', ' '),
        change_source: 'app',
        change_source_user_agent: null,
        is_bulk_update_flag: false,
      }))
      return paged(c, changes)
    })
    .get('/v1/users/me', guard('base', 2), (c) => {
      const { id: company_id, name: company_name, domain: company_domain } = standInCompany
      const company = { company_id, company_name, company_domain }
      return c.json({ success: true, data: { ...userAnswer(c, c.var.user), ...company } })
    })
    .get('/v1/users/:id{[0-9]+}', guard('users:read', 2), (c) => {
      const user = users.find(({ id }) => `${id}` === c.req.param('id'))
      if (user === undefined) return pipedriveError(c, 404, 'User not found or not accessible.')
      return c.json({ success: true, data: userAnswer(c, user) })
    })
    .get('/v1/webhooks', guard('webhooks:full', 10), (c) => {
      const data = webhooks.of(c.var.user).map(webhookAnswer)
      return c.json({ status: 'ok', success: true, data })
    })
    .post('/v1/webhooks', guard('webhooks:full', 10), async (c) => {
      const body = v.safeParse(webhookBody, await c.req.json().catch(() => undefined))
      if (!body.success) return invalid(c, body.issues)
      const { subscription_url: url, user_id = c.var.user.id, ...wish } = body.output
      const { protocol, hostname } = new URL(url)
      if (!(protocol === 'https:' || isLoopback(hostname)) || !webhooks.isAllowed(url)) {
        const errors = { subscription_url: ['invalid or non-reachable URL'] }
        return c.json({ status: 'error', success: false, errors }, 400)
      }
      const user = users.find(({ id }) => id === user_id)
      if (user === undefined || !(user === c.var.user || c.var.user.isAdmin)) {
        return pipedriveError(c, 403, 'Forbidden')
      }
      if (webhooks.of(user).length >= maxWebhooksOfUser) {
        return pipedriveError(c, 422, 'Webhooks limit reached')
      }
      const { event_action: action, name, http_auth_user, http_auth_password } = wish
      const auth = { basicUser: http_auth_user, basicPassword: http_auth_password }
      const webhook = webhooks.add({ user, url, action, name, ...auth })
      return c.json({ status: 'ok', success: true, data: webhookAnswer(webhook) }, 201)
    })
    .delete('/v1/webhooks/:id{[0-9]+}', guard('webhooks:full', 6), (c) => {
      const webhook = webhooks.get(Number(c.req.param('id')))
      if (webhook === undefined) {
        return c.json({ status: 'error', success: false, errors: { id: ['not found'] } }, 404)
      }
      if (webhook.user !== c.var.user) return pipedriveError(c, 403, 'Forbidden')
      webhooks.delete(webhook.id)
      return c.json({ status: 'ok', success: true })
    })

  function userAnswer(c: Context<Env>, user: StandInUser) {
    const { id, name, email } = user
    return {
      id,
      name,
      email,
      default_currency: standInCompany.currency,
      active_flag: true,
      is_deleted: false,
      is_you: user === c.var.user,
      timezone_name: 'Europe/Berlin',
    }
  }
}

/** A deal as webhooks and API v2 tell it. */
export const dealAnswer = (deal: DealData) => ({
  ...deal,
  creator_user_id: deal.owner_id,
  currency: standInCompany.currency,
  is_archived: false,
  is_deleted: false,
  probability: null,
  lost_reason: null,
  expected_close_date: null,
  label_ids: [],
  custom_fields: {},
})

function webhookAnswer({ id, user, ...webhook }: StandInWebhook) {
  return {
    id,
    company_id: standInCompany.id,
    owner_id: user.id,
    user_id: user.id,
    event_action: webhook.action,
    event_object: 'deal',
    subscription_url: webhook.url,
    version: '2.0',
    // How a ban looks here is not documented.
    is_active: 1,
    add_time: webhook.addTime,
    remove_time: null,
    type: 'application',
    http_auth_user: webhook.basicUser,
    http_auth_password: webhook.basicPassword,
    remove_reason: null,
    last_delivery_time: webhook.lastTime,
    last_http_status: webhook.lastStatus,
    admin_id: user.id,
    name: webhook.name,
  }
}

const order = (a: string | number, b: string | number) => (a < b ? -1 : Number(a > b))

/** The answer to a call that only says which part of a list it wants. */
function paged(c: Context, items: readonly object[]): Response {
  const query = v.safeParse(v.object(page), c.req.query())
  return query.success ? listAnswer(c, items, query.output) : invalid(c, query.issues)
}

function listAnswer(
  c: Context,
  items: readonly object[],
  { cursor, limit }: { cursor: number; limit: number },
): Response {
  const end = cursor + limit
  const next_cursor = end < items.length ? Buffer.from(`${end}`).toString('base64url') : null
  return c.json({
    success: true,
    data: items.slice(cursor, end),
    additional_data: { next_cursor },
  })
}

function invalid(c: Context, issues: [v.BaseIssue<unknown>, ...v.BaseIssue<unknown>[]]): Response {
  return pipedriveError(c, 400, `Parameter validation failed: ${v.getDotPath(issues[0])}`)
}
