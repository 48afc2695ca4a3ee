import { basicAuth } from '../../server/providers/basic-auth.ts'

// Pipedrive as this server meets it: tokens of one user each, deals that some users may not see, changelogs, and
// webhooks that each user's token makes. A code of a consent page is `company:user`.

/** A deal that has been opened in the first stage. */
export interface PipedriveDeal {
  company: string
  /** Those of the company who may not see it. */
  hiddenFrom?: ReadonlySet<string>
  linked?: boolean
  /** Where it has moved, and when by Pipedrive's clock, in ms since 1970: in its fields, and in its changelog. */
  moves?: ReadonlyArray<{ to: Stage; at: number; inHistoryAt: number }>
  /** Before this time, a list of changed deals lacks the deal. */
  listedAtMs?: number
}

type Stage = 'start' | 'next' | 'w1'

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

interface Version {
  status: string
  stage_id: number
  update_time: string
  stage_change_time: string | null
  won_time: string | null
  close_time: string | null
}
const created: Version = {
  ...{ status: 'open', stage_id: 1, update_time: longAgo },
  ...{ stage_change_time: null, won_time: null, close_time: null },
}

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

  /** The fields that moves change, at the creation and after each move. */
  function versionsOf(id: number): Version[] {
    const versions = [created]
    for (const { to, at, inHistoryAt } of deals.get(id)?.moves ?? []) {
      const { stage_id: stage, stage_change_time } = versions.at(-1) ?? created
      // A deal that is won keeps its stage.
      const stage_id = { start: 1, next: 2, w1: stage }[to]
      const time = wholeSeconds(inHistoryAt)
      const wonAt = to === 'w1' ? time : null
      versions.push({
        ...{ status: wonAt ? 'won' : 'open', stage_id, update_time: wholeSeconds(at) },
        stage_change_time: stage_id === stage ? stage_change_time : time,
        ...{ won_time: wonAt, close_time: wonAt },
      })
    }
    return versions
  }

  function fieldsOf(id: number, version = versionsOf(id).at(-1) ?? created) {
    const { linked = true } = deals.get(id) ?? {}
    return {
      id,
      title: `Deal ${id}`,
      value: null,
      currency: 'EUR',
      pipeline_id: 1,
      owner_id: null,
      person_id: linked ? 1 : null,
      org_id: null,
      add_time: longAgo,
      lost_time: null,
      expected_close_date: null,
      ...version,
    }
  }

  /** The newest change first. */
  function changelogOf(id: number) {
    const { moves = [] } = deals.get(id) ?? {}
    const versions = versionsOf(id)
    const entries = moves.flatMap(({ inHistoryAt }, at) => {
      const [before, after] = [versions[at] ?? created, versions[at + 1] ?? created]
      const time = wholeSeconds(inHistoryAt).replace('T', ' ').replace('Z', '')
      return (['status', 'stage_id'] as const)
        .filter((field) => before[field] !== after[field])
        .map((field_key) => ({
          ...{ field_key, time },
          ...{ old_value: String(before[field_key]), new_value: String(after[field_key]) },
        }))
    })
    return entries.toReversed()
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
    /** The request that Pipedrive sends to a webhook when a deal moves. It tells the deal as it was then. */
    eventFor(webhook: PipedriveWebhook, { deal: dealId, to }: { deal: number; to: Stage }) {
      const { company, user_id, id, http_auth_user, http_auth_password } = webhook
      const at = deals.get(dealId)?.moves?.findIndex((move) => move.to === to) ?? 0
      const [before = created, after = created] = versionsOf(dealId).slice(at, at + 2)
      const now: Readonly<Record<string, unknown>> = { ...after }
      const changed = Object.entries(before).filter(([field, value]) => value !== now[field])
      const body = {
        meta: {
          ...{ action: 'change', entity: 'deal', entity_id: String(dealId), company_id: company },
          ...{
            user_id: String(user_id),
            id: `${id}-${dealId}-${at}`,
            version: '2.0',
            webhook_id: String(id),
          },
        },
        data: fieldsOf(dealId, after),
        previous: Object.fromEntries(changed),
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
