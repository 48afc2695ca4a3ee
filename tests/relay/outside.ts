import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'

/** A call to chat.postMessage, when it arrived. */
interface Post {
  channel: string
  token: string
  text: string
  blocks: string
  atMs: number
}

interface OutsideDeal {
  name?: string
  amount?: string | null
  currency?: string | null
  linked?: boolean
  ownerId?: string | null
  history?: Array<{ value: string; timestamp: string }>
}

/** How Slack answers one call; `hang` never does. */
type SlackAnswer =
  | { status: number; body?: string; headers?: Record<string, string> }
  | 'hang'
  | undefined

interface SlackAccess {
  team: string
  channel: string
}

/**
 * HubSpot and Slack as the relay meets them, in the test's own process: they outlive every kill, and
 * remember what they accepted. A code is `hub:user` for HubSpot and `team:channel` for Slack.
 */
export interface Outside {
  hubspotUrl: string
  slackUrl: string
  /** What Slack accepted, in order of arrival. */
  posts: Post[]
  /** Resolves when Slack has accepted what `isEnough` asks for. */
  accepted(isEnough: (posts: readonly Post[]) => boolean, withinMs?: number): Promise<void>
  /** Every call for a post, whatever the answer. */
  calls: Post[]
  /** Slack's answer; undefined accepts. */
  answerPost: (call: Post) => SlackAnswer | Promise<SlackAnswer>
  deals: Map<string, OutsideDeal>
  /** HubSpot's answer to a read; undefined is the usual one. */
  answerRead: (
    path: string,
    token: string,
  ) =>
    | { status: number; body?: unknown; headers?: Record<string, string> }
    | undefined
    | Promise<undefined>
  stages: Array<{ id: string; label: string; metadata: Record<string, string> }>
  reads: string[]
  /** Refresh tokens that were used. */
  refreshes: string[]
  answerRefresh: (
    token: string,
  ) => { status: number; body: unknown } | undefined | Promise<undefined>
  revoked: string[]
  expiresInS: number
  close(): Promise<void>
}

/**
 * The repeats that no kill explains: only one that comes after Slack's yes and before our note of it
 * may make a message be said again. Times are of `performance.now()`.
 */
export function unexplainedRepeats(posts: readonly Post[], kills: readonly number[]): Post[] {
  return [...Map.groupBy(posts, ({ text }) => text).values()].flatMap((copies) =>
    copies.slice(1).filter((copy, before) => {
      const first = copies[before]?.atMs ?? 0
      return !kills.some((kill) => first - 50 < kill && kill < first + 1_000 && kill < copy.atMs)
    }),
  )
}

export const usualStages = [
  { id: 'start', label: 'Appointment', metadata: { isClosed: 'false', probability: '0.2' } },
  { id: 'next', label: 'Proposal sent', metadata: { isClosed: 'false', probability: '0.6' } },
  { id: 'w1', label: 'Signed', metadata: { isClosed: 'true', probability: '1.0' } },
  { id: 'l1', label: 'Gone', metadata: { isClosed: 'true', probability: '0.0' } },
]

export async function openOutside(): Promise<Outside> {
  const waiting = new Set<() => void>()
  const slackAccess = new Map<string, SlackAccess>()
  let tokens = 0

  const server = createServer((request, response) => {
    answer(request, response).catch((error) => {
      response.writeHead(500).end(String(error))
    })
  })
  server.keepAliveTimeout = 60_000
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port was given.')
  const base = `http://127.0.0.1:${address.port}`

  const outside: Outside = {
    hubspotUrl: `${base}/hubspot`,
    slackUrl: `${base}/slack`,
    posts: [],
    calls: [],
    reads: [],
    refreshes: [],
    revoked: [],
    answerPost: () => undefined,
    answerRead: () => undefined,
    answerRefresh: () => undefined,
    deals: new Map(),
    stages: usualStages,
    expiresInS: 1800,
    async accepted(isEnough, withinMs = 20_000) {
      if (isEnough(outside.posts)) return
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(look)
          reject(
            new Error(`Slack accepted only ${outside.posts.length} messages in ${withinMs} ms.`),
          )
        }, withinMs)
        const look = () => {
          if (!isEnough(outside.posts)) return
          clearTimeout(timer)
          waiting.delete(look)
          resolve()
        }
        waiting.add(look)
      })
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString('utf8')
    const path = request.url ?? ''
    const token = (request.headers.authorization ?? '').replace('Bearer ', '')
    const json = (status: number, value: unknown, headers: Record<string, string> = {}) => {
      response.writeHead(status, { 'Content-Type': 'application/json', ...headers })
      response.end(JSON.stringify(value))
    }

    if (path.startsWith('/slack/api/chat.postMessage')) {
      const form = new URLSearchParams(body)
      const call: Post = {
        channel: form.get('channel') ?? '',
        text: form.get('text') ?? '',
        blocks: form.get('blocks') ?? '',
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
      outside.posts.push(call)
      json(200, { ok: true, channel: call.channel, ts: '1.1' })
      for (const look of waiting) look()
      return
    }
    if (path === '/slack/api/oauth.v2.access') {
      const [team = 'T1', channel = 'C1'] = (new URLSearchParams(body).get('code') ?? '').split(':')
      const accessToken = `xoxb-secret-${team}-${++tokens}`
      slackAccess.set(accessToken, { team, channel })
      return json(200, {
        ok: true,
        access_token: accessToken,
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
      const { text = '' } = JSON.parse(body)
      outside.posts.push({ channel, token: 'webhook', text, blocks: '', atMs: performance.now() })
      response.writeHead(200).end('ok')
      for (const look of waiting) look()
      return
    }
    if (path === '/slack/api/auth.revoke') {
      outside.revoked.push(token)
      return json(200, { ok: true, revoked: true })
    }
    if (path === '/hubspot/oauth/2026-03/token') {
      const form = new URLSearchParams(body)
      if (form.get('grant_type') === 'refresh_token') {
        const used = form.get('refresh_token') ?? ''
        outside.refreshes.push(used)
        const special = await outside.answerRefresh(used)
        if (special !== undefined) return json(special.status, special.body)
        return json(200, { ...hubspotToken(), refresh_token: used })
      }
      const [hub = '1', user = '1'] = (form.get('code') ?? '').split(':')
      const refresh_token = `hubspot-refresh-secret-${hub}-${user}-${++tokens}`
      return json(200, {
        ...hubspotToken(),
        refresh_token,
        hub_id: Number(hub),
        user_id: Number(user),
      })
    }
    if (path === '/hubspot/oauth/2026-03/token/introspect') {
      return json(200, { active: true, hub_domain: 'acme.example' })
    }
    if (path === '/hubspot/oauth/2026-03/token/revoke') {
      outside.revoked.push(new URLSearchParams(body).get('token') ?? '')
      return json(200, {})
    }

    outside.reads.push(path)
    const special = await outside.answerRead(path, token)
    if (special !== undefined) return json(special.status, special.body ?? {}, special.headers)
    if (path.startsWith('/hubspot/crm/v3/pipelines/deals')) {
      return json(200, { results: [{ id: 'default', label: 'Sales', stages: outside.stages }] })
    }
    const dealId = path.match(/^\/hubspot\/crm\/v3\/objects\/0-3\/(\d+)/)?.[1]
    if (dealId === undefined) return json(403, { status: 'error', category: 'MISSING_SCOPES' })
    const deal = outside.deals.get(dealId) ?? {}
    return json(200, {
      id: dealId,
      properties: {
        dealname: deal.name ?? `Deal ${dealId}`,
        amount: deal.amount ?? null,
        deal_currency_code: deal.currency ?? null,
        hubspot_owner_id: deal.ownerId ?? null,
      },
      propertiesWithHistory: {
        dealstage: deal.history ?? [{ value: 'start', timestamp: '2020-01-01T00:00:00Z' }],
      },
      ...(deal.linked !== false && {
        associations: { contacts: { results: [{ id: '1', type: 'deal_to_contact' }] } },
      }),
    })
  }

  function hubspotToken() {
    return {
      access_token: `hubspot-access-secret-${++tokens}`,
      expires_in: outside.expiresInS,
      token_type: 'bearer',
      scopes: [],
    }
  }
  return outside
}
