import { basicAuth } from '../../server/providers/basic-auth.ts'

// Pipedrive as this server meets it: tokens of one user each, deals that some users may not see, changelogs, and
// webhooks that each user's token makes. A code of a consent page is `company:user`.

/** A deal that has been opened in the first stage, and has changed once at most. */
export interface PipedriveDeal {
  company: string
  /** Those of the company who may not see it. */
  hiddenFrom?: ReadonlySet<string>
  linked?: boolean
  /** Where it has moved, and when by Pipedrive's clock, in ms since 1970: in its fields, and in its changelog. */
  moved?: { to: 'next' | 'w1'; at: number; inHistoryAt: number }
  /** Before this time, a list of changed deals lacks the deal. */
  listedAtMs?: number
}

export interface PipedriveWebhook {
  id: number
  company: string
  user_id: number
  is_active: number
  name?: string
  subscription_url: string
  http_auth_user: string
  http_auth_password: string
  /** How many first tries have failed, and until when events are lost for that. */
  failures?: number
  bannedUntil?: number
  [field: string]: unknown
}

export interface PipedriveCall {
  method: string
  path: string
  /** What a Bearer token, a refresh token or a code is. */
  token: string
  body: string
}

export interface PipedriveAnswer {
  status: number
  body?: object
  headers?: Record<string, string>
}

const ofPipedriveToken = /-(\d+)-(\d+)-\d+$/
export const pipedrivePath = '/pipedrive'

const longAgo = '2020-01-01T00:00:00Z'
const wholeSeconds = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z/, 'Z')

export const noSuchGrant: PipedriveAnswer = {
  status: 400,
  body: {
    success: false,
    error: 'invalid_grant',
    message: 'Invalid grant: refresh_token is invalid',
  },
}

export const noScope: PipedriveAnswer = {
  status: 403,
  body: { success: false, error: 'Scope and URL mismatch' },
}

/** @param base is the address that its users call. */
export function createPipedriveOutside(base: string) {
  const apiDomain = `${base}${pipedrivePath}`
  const deals = new Map<number, PipedriveDeal>()
  const webhooks: PipedriveWebhook[] = []
  let made = 0
  const sees = (id: number, company: string, user: string) => {
    const deal = deals.get(id)
    return deal?.company === company && !deal.hiddenFrom?.has(user)
  }

  function fieldsOf(id: number) {
    const { linked = true, moved } = deals.get(id) ?? {}
    const movedAt = moved && wholeSeconds(moved.inHistoryAt)
    return {
      id,
      title: `Deal ${id}`,
      value: null,
      currency: 'EUR',
      status: moved?.to === 'w1' ? 'won' : 'open',
      stage_id: moved?.to === 'next' ? 2 : 1,
      pipeline_id: 1,
      owner_id: null,
      person_id: linked ? 1 : null,
      org_id: null,
      add_time: longAgo,
      update_time: moved ? wholeSeconds(moved.at) : longAgo,
      stage_change_time: moved?.to === 'next' ? movedAt : null,
      won_time: moved?.to === 'w1' ? movedAt : null,
      lost_time: null,
      close_time: moved?.to === 'w1' ? movedAt : null,
      expected_close_date: null,
    }
  }

  function changelogOf(id: number) {
    const { moved } = deals.get(id) ?? {}
    if (moved === undefined) return []
    const time = wholeSeconds(moved.inHistoryAt).replace('T', ' ').replace('Z', '')
    return [
      moved.to === 'w1'
        ? { field_key: 'status', old_value: 'open', new_value: 'won', time }
        : { field_key: 'stage_id', old_value: '1', new_value: '2', time },
    ]
  }

  function tokensFor(company: string, user: string, refresh?: string): PipedriveAnswer {
    return found({
      access_token: `pipedrive-access-secret-${company}-${user}-${++made}`,
      refresh_token: refresh ?? `pipedrive-refresh-secret-${company}-${user}-${++made}`,
      token_type: 'bearer',
      expires_in: 3599,
      scope: 'base,deals:read,users:read,recents:read,webhooks:full',
      api_domain: apiDomain,
    })
  }

  const found = (body: object): PipedriveAnswer => ({ status: 200, body })
  const data = (items: unknown) => found({ success: true, data: items })
  const refused = (status: number, error: string): PipedriveAnswer => ({
    status,
    body: { success: false, error },
  })
  /** A deal that is hidden, or that does not exist. */
  const notForYou = (id: number) =>
    id % 2 === 0 ? refused(403, 'Forbidden') : refused(404, 'Deal not found')

  function uninstall(company: string, user: string): void {
    for (const webhook of webhooks.filter((each) => isOf(each, company, user))) remove(webhook)
  }
  const isOf = (webhook: PipedriveWebhook, company: string, user: string) =>
    webhook.company === company && String(webhook.user_id) === user
  const remove = (webhook: PipedriveWebhook) => webhooks.splice(webhooks.indexOf(webhook), 1)

  function oauth({ path, body }: PipedriveCall): PipedriveAnswer {
    const form = new URLSearchParams(body)
    const token = form.get('refresh_token') ?? form.get('token') ?? ''
    const [, company = '', user = ''] = ofPipedriveToken.exec(token) ?? []
    if (path.endsWith('/revoke')) {
      // The access token ends only itself.
      if (token.includes('-refresh-')) uninstall(company, user)
      return found({})
    }
    if (form.get('grant_type') === 'refresh_token') return tokensFor(company, user, token)
    const [ofCode = '', by = ''] = (form.get('code') ?? '').split(':')
    return tokensFor(ofCode, by)
  }

  function answerWebhooks(call: PipedriveCall, company: string, user: string): PipedriveAnswer {
    const own = webhooks.filter((each) => isOf(each, company, user))
    const id = Number(/\/webhooks\/(\d+)$/.exec(call.path)?.[1])
    if (call.method === 'GET') return data(own)
    if (call.method === 'POST') {
      const json: Record<string, string> = JSON.parse(call.body)
      const { subscription_url = '', http_auth_user = '', http_auth_password = '' } = json
      const webhook = {
        ...json,
        ...{ id: ++made, company, user_id: Number(user), is_active: 1 },
        ...{ subscription_url, http_auth_user, http_auth_password },
      }
      webhooks.push(webhook)
      return { status: 201, body: { success: true, data: webhook } }
    }
    const webhook = own.find((each) => each.id === id)
    if (webhook === undefined) return refused(404, 'Webhook not found')
    remove(webhook)
    return data({ id })
  }

  function answer(call: PipedriveCall): PipedriveAnswer {
    const { pathname, searchParams } = new URL(call.path, base)
    if (pathname.startsWith(`${pipedrivePath}/oauth/`)) return oauth(call)
    const [, company = '', user = ''] = ofPipedriveToken.exec(call.token) ?? []
    const path = pathname.replace(`${pipedrivePath}/api/`, '')
    if (path === 'v1/users/me') {
      return data({ id: Number(user), company_id: Number(company), company_domain: 'acme' })
    }
    if (path.startsWith('v1/webhooks')) return answerWebhooks(call, company, user)
    if (path === 'v2/pipelines') return data([{ id: 1, name: 'Sales', order_nr: 1 }])
    if (path === 'v2/stages') {
      return data([
        { id: 1, name: 'Appointment', order_nr: 1, pipeline_id: 1 },
        { id: 2, name: 'Proposal sent', order_nr: 2, pipeline_id: 1 },
      ])
    }
    const id = Number(/^v[12]\/deals\/(\d+)/.exec(path)?.[1])
    if (!Number.isNaN(id)) {
      if (!sees(id, company, user)) return notForYou(id)
      return data(path.endsWith('/changelog') ? changelogOf(id) : fieldsOf(id))
    }
    if (path !== 'v2/deals') return refused(404, 'Unknown method')
    const since = Date.parse(searchParams.get('updated_since') ?? longAgo)
    const ids = searchParams.get('ids')?.split(',').map(Number)
    const isListed = ({ listedAtMs = 0 }: PipedriveDeal) =>
      ids !== undefined || listedAtMs <= Date.now()
    const visible = [...deals]
      .filter(([each, deal]) => sees(each, company, user) && isListed(deal))
      .map(([each]) => fieldsOf(each))
      .filter((deal) => ids?.includes(deal.id) ?? Date.parse(deal.update_time) >= since)
      .sort((a, b) => (a.update_time < b.update_time ? -1 : 1))
    return data(visible)
  }

  return {
    deals,
    webhooks,
    apiDomain,
    sees,
    uninstall,
    remove,
    answer,
    /** The request that Pipedrive sends to a webhook when a deal moves. */
    eventFor(webhook: PipedriveWebhook, dealId: number) {
      const { company, user_id, id, http_auth_user, http_auth_password } = webhook
      const { moved } = deals.get(dealId) ?? {}
      const body = {
        meta: {
          ...{ action: 'change', entity: 'deal', entity_id: String(dealId), company_id: company },
          ...{
            user_id: String(user_id),
            id: `${id}-${dealId}`,
            version: '2.0',
            webhook_id: String(id),
          },
        },
        data: fieldsOf(dealId),
        previous: {
          ...(moved?.to === 'w1' ? { status: 'open' } : { stage_id: 1 }),
          update_time: longAgo,
        },
      }
      const auth = basicAuth(http_auth_user, http_auth_password)
      return {
        method: 'POST',
        headers: { 'Content-Type': 'application/json', Authorization: auth },
        body: JSON.stringify(body),
      }
    },
  }
}
