import type { IncomingMessage } from 'node:http'
import { readBlocks } from '../../stand-ins/slack/blocks.ts'
import { listen } from './listen.ts'

/** A call to chat.postMessage, when it arrived. */
interface Post {
  channel: string
  token: string
  text: string
  blocks: string
  /** Its own id, if it has one. */
  id?: string | undefined
  atMs: number
}

export interface OutsideDeal {
  name?: string
  amount?: string | null
  currency?: string | null
  linked?: boolean
  ownerId?: string | null
  url?: string
  history?: Array<{ value: string; timestamp: string }>
  /** Only the tokens of this account find the deal. By default, all do. */
  account?: string
  /** A search does not find the deal before this time, in ms since 1970. */
  searchableAtMs?: number
}

/** How Slack answers one call; `hang` never does. */
type SlackAnswer =
  | { status: number; body?: string; headers?: Record<string, string> }
  | 'hang'
  | undefined

type HubspotAnswer =
  | { status: number; body?: unknown; headers?: Record<string, string> }
  | undefined

/**
 * HubSpot and Slack as the relay meets them, in the test's own process: they outlive every kill, and
 * remember what they accepted. A code is `hub:user` for HubSpot and `team:channel` for Slack.
 */
export class Outside {
  readonly hubspotUrl: string
  readonly slackUrl: string
  /** What Slack accepted, in order of arrival. */
  posts: Post[] = []
  /** Every call for a post, whatever the answer. */
  calls: Post[] = []
  /** Slack takes a message once that comes twice with one id. */
  knowsIds = false
  /** Slack's answer; undefined accepts. */
  answerPost: (call: Post) => SlackAnswer | Promise<SlackAnswer> = () => undefined
  deals = new Map<string, OutsideDeal>()
  /** Deals that were deleted in HubSpot. */
  missing = new Set<string>()
  /** Deals that were merged: their ids, and the id of the deal that has replaced them. */
  merged = new Map<string, string>()
  /** The most results of a search, in all its pages. */
  mostFound = 10_000
  /** How far HubSpot's clock is ahead of ours. */
  hubspotAheadMs = 0
  /** How many calls HubSpot's headers allow in ten seconds; undefined: they do not say. */
  callLimit: number | undefined
  /** HubSpot's answer to a read; undefined is the usual one. */
  answerRead: (path: string, token: string) => HubspotAnswer | Promise<HubspotAnswer> = () =>
    undefined
  reads: string[] = []
  /** Slack's members: their ids, by e-mail address. */
  members = new Map<string, string>()
  /** Refresh tokens that were used. */
  refreshes: string[] = []
  /** Is called before a code is exchanged. The exchange waits for the result. */
  beforeExchange: (code: string) => Promise<void> | void = () => undefined
  answerRefresh: (token: string) => HubspotAnswer | Promise<undefined> = () => undefined
  revoked: string[] = []
  /** Access tokens with which the app was uninstalled. */
  uninstalled: string[] = []
  /** What things are called now. Without a name, Slack does not tell it. */
  names: { account?: string; workspace?: string; channel?: string } = { account: 'acme.example' }
  close: () => Promise<void> = async () => undefined
  readonly #waiting = new Set<() => void>()

  constructor(base: string) {
    this.hubspotUrl = `${base}/hubspot`
    this.slackUrl = `${base}/slack`
  }

  /** Slack accepts a message. */
  accept(post: Post): void {
    this.posts.push(post)
    for (const look of this.#waiting) look()
  }

  /** Resolves when Slack has accepted what `isEnough` asks for. */
  async accepted(isEnough: (posts: readonly Post[]) => boolean, withinMs = 20_000): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const look = () => {
      if (isEnough(this.posts)) resolve()
    }
    const timer = setTimeout(() => {
      reject(new Error(`Slack accepted only ${this.posts.length} messages in ${withinMs} ms.`))
    }, withinMs)
    this.#waiting.add(look)
    look()
    await promise.finally(() => {
      clearTimeout(timer)
      this.#waiting.delete(look)
    })
  }
}

interface SearchRequest {
  filterGroups: Array<{ filters: Array<{ value: string }> }>
  limit: number
  after: string
}

/** The account and the user in an access token. */
const introspected = /-(\d+)-(\d+)-\d+$/
const longAgo = '2020-01-01T00:00:00.000Z'
const notFound = { status: 'error', category: 'OBJECT_NOT_FOUND', message: 'Object not found.' }
const tooMany = { status: 'error', category: 'VALIDATION_ERROR', message: 'Too many inputs.' }

const usualStages = [
  { id: 'start', label: 'Appointment', metadata: { isClosed: 'false', probability: '0.2' } },
  { id: 'next', label: 'Proposal sent', metadata: { isClosed: 'false', probability: '0.6' } },
  { id: 'w1', label: 'Signed', metadata: { isClosed: 'true', probability: '1.0' } },
  { id: 'l1', label: 'Gone', metadata: { isClosed: 'true', probability: '0.0' } },
]

/** What `answer` reads of a request. */
export type OutsideRequest = Pick<IncomingMessage, 'url' | 'method' | 'headers'> &
  AsyncIterable<Buffer>
/** What `answer` calls of a response. */
export interface OutsideResponse {
  writeHead(status: number, headers?: Record<string, string | number>): OutsideResponse
  end(body?: string): unknown
}

/** Opens the outside world at an address of this machine. */
export async function openOutside(): Promise<Outside> {
  let answer: ReturnType<typeof createOutside>['answer'] | undefined
  const { url, close } = await listen((request, response) => {
    answer?.(request, response).catch((error) => {
      response.writeHead(500).end(String(error))
    })
  })
  const world = createOutside(url)
  answer = world.answer
  world.outside.close = close
  return world.outside
}

/** The outside world without an address. @param base is the address that its users call. */
export function createOutside(base: string) {
  const outside = new Outside(base)
  let tokens = 0

  async function answer(request: OutsideRequest, response: OutsideResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString('utf8')
    const path = request.url ?? ''
    const isJson = request.headers['content-type']?.includes('json')
    const form = new URLSearchParams(isJson ? '' : body)
    const token = (request.headers.authorization ?? '').replace('Bearer ', '')
    const json = (status: number, value: unknown, headers: Record<string, string> = {}) => {
      const limits = outside.callLimit !== undefined && {
        'X-HubSpot-RateLimit-Max': outside.callLimit,
        'X-HubSpot-RateLimit-Interval-Milliseconds': 10_000,
      }
      const date = new Date(Date.now() + outside.hubspotAheadMs).toUTCString()
      response.writeHead(status, {
        'Content-Type': 'application/json',
        Date: date,
        ...limits,
        ...headers,
      })
      response.end(JSON.stringify(value))
    }

    if (path.startsWith('/slack/api/chat.postMessage')) {
      const call: Post = {
        channel: form.get('channel') ?? '',
        text: form.get('text') ?? '',
        blocks: form.get('blocks') ?? '',
        id: form.get('client_msg_id') ?? undefined,
        token,
        atMs: performance.now(),
      }
      outside.calls.push(call)
      const special = await outside.answerPost(call)
      if (special === 'hang') return
      if (special !== undefined) {
        response.writeHead(special.status, {
          'Content-Type': 'application/json',
          ...special.headers,
        })
        response.end(special.body ?? '')
        return
      }
      const read = readBlocks(call.text, call.blocks)
      if (!Array.isArray(read)) return json(200, { ok: false, error: read.error })
      const isKnown = ({ id, channel }: Post) => id === call.id && channel === call.channel
      const isRepeated = outside.knowsIds && call.id !== undefined && outside.posts.some(isKnown)
      if (!isRepeated) outside.accept(call)
      return json(200, { ok: true, channel: call.channel, ts: '1.1' })
    }
    if (path === '/slack/api/oauth.v2.access') {
      const code = form.get('code') ?? ''
      await outside.beforeExchange(code)
      const [team = 'T1', channel = 'C1'] = code.split(':')
      return json(200, {
        ok: true,
        access_token: `xoxb-secret-${team}-${++tokens}`,
        team: { id: team, name: `Workspace ${team}` },
        authed_user: { id: 'U1' },
        incoming_webhook: {
          channel: `#${channel}`,
          channel_id: channel,
          url: `${base}/slack/services/secret-${team}/${channel}`,
        },
      })
    }
    if (path.startsWith('/slack/services/')) {
      const channel = path.split('/').at(-1) ?? ''
      const { text = '', blocks } = JSON.parse(body)
      const read = readBlocks(text, blocks)
      if (!Array.isArray(read)) {
        response.writeHead(400).end(read.error)
        return
      }
      outside.accept({ channel, token: 'webhook', text, blocks: '', atMs: performance.now() })
      response.writeHead(200).end('ok')
      return
    }
    if (path === '/slack/api/auth.revoke') {
      outside.revoked.push(token)
      return json(200, { ok: true, revoked: true })
    }
    if (path === '/hubspot/oauth/2026-03/token') {
      if (form.get('grant_type') === 'refresh_token') {
        const used = form.get('refresh_token') ?? ''
        outside.refreshes.push(used)
        const special = await outside.answerRefresh(used)
        if (special !== undefined) return json(special.status, special.body ?? {})
        const [, hub = '1', user = '1'] = introspected.exec(used) ?? []
        return json(200, { ...hubspotToken(hub, user), refresh_token: used })
      }
      const code = form.get('code') ?? ''
      await outside.beforeExchange(code)
      const [hub = '1', user = '1'] = code.split(':')
      const refresh_token = `hubspot-refresh-secret-${hub}-${user}-${++tokens}`
      // As from the real one, no user_id.
      return json(200, { ...hubspotToken(hub, user), refresh_token, hub_id: Number(hub) })
    }
    if (path === '/hubspot/oauth/2026-03/token/introspect') {
      const [, hub, user] = introspected.exec(form.get('token') ?? '') ?? []
      return json(200, {
        active: true,
        hub_domain: outside.names.account,
        hub_id: Number(hub ?? 1),
        user_id: Number(user ?? 1),
      })
    }
    if (path === '/hubspot/oauth/2026-03/token/revoke') {
      outside.revoked.push(form.get('token') ?? '')
      return json(200, {})
    }
    if (path === '/hubspot/appinstalls/2026-03/external-install' && request.method === 'DELETE') {
      outside.uninstalled.push(token)
      response.writeHead(204).end()
      return
    }

    outside.reads.push(path)
    const special = await outside.answerRead(path, token)
    if (special !== undefined) return json(special.status, special.body ?? {}, special.headers)
    if (path === '/slack/api/auth.test') {
      const scopes = { 'x-oauth-scopes': 'incoming-webhook,chat:write' }
      return json(200, { ok: true, team: outside.names.workspace }, scopes)
    }
    if (path === '/slack/api/conversations.info') {
      const name = outside.names.channel
      return json(
        200,
        name ? { ok: true, channel: { name } } : { ok: false, error: 'missing_scope' },
      )
    }
    if (path === '/slack/api/users.lookupByEmail') {
      const id = outside.members.get(form.get('email') ?? '')
      return json(200, id ? { ok: true, user: { id } } : { ok: false, error: 'users_not_found' })
    }
    const { pathname } = new URL(path, base)
    const times = { createdAt: longAgo, updatedAt: longAgo }
    if (pathname === '/hubspot/account-info/2026-03/details') {
      return json(200, { portalId: 1, companyCurrency: 'EUR' })
    }
    if (pathname === '/hubspot/crm/pipelines/2026-03/deals') {
      const stages = usualStages.map((stage) => ({ ...stage, ...times, archived: false }))
      return json(200, { results: [{ id: 'default', label: 'Sales', stages, ...times }] })
    }
    if (pathname === '/hubspot/crm/objects/2026-03/0-3/batch/read') {
      const { inputs, propertiesWithHistory } = JSON.parse(body)
      if (propertiesWithHistory.length > 0 && inputs.length > 50) return json(400, tooMany)
      const ids: string[] = inputs.map(({ id }: { id: string }) => id)
      const known = ids.filter((id) => !outside.missing.has(id))
      const results = [...new Set(known.map(idNow))].map((id) => dealAnswer(id))
      return json(...batchAnswer(results, known.length === ids.length ? 0 : 1))
    }
    const linkType = pathname.match(
      /^\/hubspot\/crm\/associations\/2026-03\/0-3\/(0-[12])\/batch\/read$/,
    )?.[1]
    if (linkType !== undefined) {
      const { inputs } = JSON.parse(body)
      if (inputs.length > 100) return json(400, tooMany)
      const linked = inputs.filter(({ id }: { id: string }) => linkType === '0-1' && isLinked(id))
      const results = linked.map(({ id }: { id: string }) => ({
        from: { id },
        to: [{ toObjectId: '1', associationTypes: [{ category: 'HUBSPOT_DEFINED', typeId: 3 }] }],
      }))
      return json(...batchAnswer(results, inputs.length - linked.length))
    }
    if (pathname === '/hubspot/crm/objects/2026-03/0-3/search') {
      const search: SearchRequest = JSON.parse(body)
      const isTooFar = Number(search.after) + search.limit > outside.mostFound
      return isTooFar ? json(400, tooMany) : json(200, searchAnswer(search, token))
    }
    const dealId = pathname.match(/^\/hubspot\/crm\/objects\/2026-03\/0-3\/(\d+)$/)?.[1]
    if (dealId === undefined) return json(403, { status: 'error', category: 'MISSING_SCOPES' })
    if (outside.missing.has(dealId)) return json(404, notFound)
    return json(200, {
      ...dealAnswer(idNow(dealId)),
      ...(isLinked(dealId) && {
        associations: { contacts: { results: [{ id: '1', type: 'deal_to_contact' }] } },
      }),
    })
  }

  const idNow = (id: string) => outside.merged.get(id) ?? id
  /** A merged deal has its links only under the new id. */
  const isLinked = (id: string) =>
    !outside.merged.has(id) && outside.deals.get(id)?.linked !== false

  function batchAnswer(results: object[], numErrors: number): [status: number, body: object] {
    const completed = { status: 'COMPLETE', startedAt: longAgo, completedAt: longAgo, results }
    if (numErrors === 0) return [200, completed]
    const errors = Array.from({ length: numErrors }, () => notFound)
    return [207, { ...completed, numErrors, errors }]
  }

  function dealAnswer(id: string) {
    const deal = outside.deals.get(id) ?? {}
    return {
      id,
      properties: {
        dealname: deal.name ?? `Deal ${id}`,
        amount: deal.amount ?? null,
        deal_currency_code: deal.currency ?? null,
        hubspot_owner_id: deal.ownerId ?? null,
      },
      propertiesWithHistory: {
        dealstage: deal.history ?? [{ value: 'start', timestamp: '2020-01-01T00:00:00Z' }],
      },
      createdAt: longAgo,
      updatedAt: longAgo,
      archived: false,
      ...(deal.url !== undefined && { url: deal.url }),
    }
  }

  /** Deals by the time of their last change, which is that of the newest value in their history. */
  function searchAnswer({ filterGroups, limit, after }: SearchRequest, token: string) {
    const since = Number(filterGroups[0]?.filters[0]?.value)
    const account = introspected.exec(token)?.[1]
    const changed = [...outside.deals]
      .filter(([, deal]) => deal.account === undefined || deal.account === account)
      .filter(([, { searchableAtMs = 0 }]) => searchableAtMs <= Date.now())
      .map(([id, { history = [] }]) => ({
        id,
        at: Math.max(...history.map(({ timestamp }) => Date.parse(timestamp))),
      }))
      .filter(({ at }) => at >= since)
      .sort((a, b) => a.at - b.at)
    const start = Number(after)
    const page = changed.slice(start, start + limit)
    const more = start + limit < changed.length
    return {
      total: changed.length,
      results: page.map(({ id, at }) => ({
        ...dealAnswer(id),
        properties: { hs_lastmodifieddate: new Date(at).toISOString() },
      })),
      ...(more && { paging: { next: { after: String(start + limit) } } }),
    }
  }

  function hubspotToken(hub: string, user: string) {
    return {
      access_token: `hubspot-access-secret-${hub}-${user}-${++tokens}`,
      expires_in: 1800,
      token_type: 'bearer',
      token_use: 'access_token',
      scopes: ['oauth', 'crm.objects.deals.read', 'crm.objects.owners.read'],
    }
  }
  return { outside, answer }
}
