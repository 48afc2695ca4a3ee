import { defaultTimeouts } from '../../server/providers/calls.ts'
import { tokensOf } from '../pipedrive-openapi.ts'
import { createOutside, type OutsideResponse } from '../relay/outside.ts'
import {
  createPipedriveOutside,
  noScope,
  noSuchGrant,
  type PipedriveAnswer,
} from '../relay/pipedrive-outside.ts'
import { callOf, failedAnswer, ofToken, type ProviderCall } from './calls.ts'
import { aboutAt, acceptedAt, base, closedAt, readAt, webhookAt } from './chats.ts'
import type { SimulatedDatabase } from './database.ts'
import { type Fault, second } from './faults.ts'
import { type MoveName, movesIn, nameSql } from './moves.ts'
import type { Plan } from './plan.ts'
import type { Owner, Time } from './time.ts'

// The CRM and the chat, and the network before them. They know which tokens count, and what somebody has
// uninstalled, revoked or archived. Requests take time, get lost, or meet a provider that fails.

/** A request needs this long at most to reach a provider, unless a fault delays it. */
export const longestWayMs = 60

/** A message that the chat has accepted. */
export interface Post {
  /** As the relay names it: account/channel. */
  channel: string
  moves: readonly MoveName[]
  at: number
  owner: Owner | undefined
  /** When its process looked for the next message of the channel, and when it claimed this one. */
  pickedAt: number
  claimedAt: number | undefined
  /** The process could not record it, so the README lets it come again. */
  isExcused: boolean
  /** The activity says of one of its moves that no message is on its way. */
  isDenied: boolean
}

/** A process called the CRM. */
interface Call {
  owner: Owner | undefined
  account: string
  /** The user's number there. */
  user: string
  method: string
  /** The path and the query. */
  path: string
  /** What it costs of the account's day, where the CRM counts that. */
  tokens: number
  /** The process has heard what the CRM answered. */
  isHeard: boolean
  /** When its answer told the process that little is left of the day. */
  tellsShort?: number
  isSearch: boolean
  at: number
  /** When its answer told the process the account's limit. */
  toldAt?: number
}

/** A provider asked a process for a pause. It is of one workspace, or of the calls to one account. */
interface Pause {
  of: string
  isOfChat: boolean
  isSearch: boolean
  owner: Owner | undefined
  from: number
  until: number
  /** When it was stored for all processes. */
  storedAt?: number
}

export type Note = (who: string, what: string) => void
export type World = ReturnType<typeof createWorld>

/** The tokens of an account in a day, and what other programs leave of them on a short one. */
const dayTokens = 30_000
const littleLeft = 5_000
const longestPauseMs = 60 * 60 * second

/** Is about no deal. */
const isGreeting = (post: { text: string; blocks: string }) => movesIn(post).length === 0

export function createWorld({
  time,
  database,
  plan,
  note,
}: {
  time: Time
  database: SimulatedDatabase
  plan: Plan
  note: Note
}) {
  const { dice } = time
  const { outside, answer: answerAs } = createOutside(base)
  function setClock(aheadMs: number): void {
    time.clockAheadMs = aheadMs
    outside.hubspotAheadMs = plan.aheadMs - aheadMs
  }
  setClock(0)
  outside.callLimit = plan.callLimit
  outside.knowsIds = plan.knowsIds
  const pipedrive = createPipedriveOutside(base)
  const hasOwnTokens = plan.crm === 'pipedrive'
  /** What ends together with a token: all of the account, or of a chat, or only those of its user. */
  const grantOf = (token: string) => {
    const [, account = '', user] = ofToken.exec(token) ?? []
    return hasOwnTokens ? `${account}-${user}` : account
  }

  const posts: Post[] = []
  const calls: Call[] = []
  const pauses: Pause[] = []
  /** When calls to the CRM met a fault. */
  const failedAt: number[] = []
  /** When each process last did something for a channel, by 'next T1/C1' or 'claim T1/C1'. */
  const steps = new Map<Owner, Map<string, number>>()
  /**
   * The moves that are claimed in each channel. For each: when the process that first claimed it had looked for
   * the next message. If that process never goes on, another one claims exactly the same moves again.
   */
  const claims = new Map<string, Map<MoveName, number>>()
  /** When tokens were granted; those of the set-up are as old as the run. */
  const granted = new Map<string, number>()
  /** When a workspace or an account ended all its tokens. */
  const ended = new Map<string, number>()
  const withdrawn = new Set<string>()
  const archived = new Set<string>()
  const isEnded = (of: string, token: string) =>
    (ended.get(of) ?? 0) > (granted.get(token) ?? time.startMs)

  const teamOf = (token: string) => token.split('-')[2] ?? ''
  /** The channel of a post, as the relay names it. */
  const channelOf = ({ token, channel }: { token: string; channel: string }) =>
    token === '' ? channel : `${teamOf(token)}/${channel}`
  outside.answerPost = ({ token, channel }) => {
    const team = teamOf(token)
    const error = isEnded(team, token)
      ? 'token_revoked'
      : archived.has(`${team}/${channel}`) && 'is_archived'
    return error ? { status: 200, body: JSON.stringify({ ok: false, error }) } : undefined
  }
  outside.answerRead = (path, token) => {
    if (path.startsWith('/slack')) {
      return isEnded(teamOf(token), token)
        ? { status: 200, body: { ok: false, error: 'token_revoked' } }
        : undefined
    }
    const [, account = '', user] = ofToken.exec(token) ?? []
    if (isEnded(account, token)) {
      return { status: 401, body: { status: 'error', category: 'INVALID_AUTHENTICATION' } }
    }
    if (withdrawn.has(`${account}-${user}`)) {
      return { status: 403, body: { status: 'error', category: 'MISSING_SCOPES' } }
    }
    if (!hasTooMany(account, 10_000)) return
    return {
      status: 429,
      body: { status: 'error', category: 'RATE_LIMITS' },
      headers: { 'Retry-After': '2' },
    }
  }
  outside.answerRefresh = (token) => {
    return isEnded(grantOf(token), token)
      ? { status: 400, body: { status: 'BAD_REFRESH_TOKEN', message: 'gone' } }
      : undefined
  }

  function hasTooMany(account: string, withinMs: number): boolean {
    const recent = calls.filter((call) => call.account === account && time.now - call.at < withinMs)
    return recent.filter(({ isSearch }) => !isSearch).length > plan.callLimit
  }

  /** Pipedrive's answer, with the headers that tell its limits. */
  function answerOfPipedrive(request: Request, body: string): PipedriveAnswer {
    const { pathname, search } = new URL(request.url)
    const { token, account = '' } = callOf(request, body)
    const isOAuth = pathname.includes('/oauth/')
    const grant = grantOf(token)
    if (isEnded(grant, token)) {
      return isOAuth
        ? noSuchGrant
        : { status: 401, body: { success: false, error: 'unauthorized' } }
    }
    if (!isOAuth && withdrawn.has(grant) && !pathname.endsWith('/users/me')) return noScope
    if (account !== '' && hasTooMany(account, 2_000)) {
      return { status: 429, body: { success: false, error: 'request over limit' } }
    }
    return pipedrive.answer({ method: request.method, path: pathname + search, token, body })
  }

  /** Those of the faults 'refuses once' that have happened. */
  const madeMistakes = new Set<Fault>()
  function faultFor(call: ProviderCall, faults: readonly Fault[]) {
    const sinceMs = time.now - time.startMs
    for (const fault of faults) {
      if (fault.kind !== call.provider) continue
      const { at, forMs, share, only, deals } = fault
      if (sinceMs < at || sinceMs >= at + forMs) continue
      if (only !== undefined && only !== call.channel && !call.token.includes(only)) continue
      const about = fault.how === 'fails at a changelog' ? call.changelogs : call.deals
      if (deals !== undefined && !about.some((deal) => deals.includes(deal))) continue
      if (fault.how === 'refuses once') {
        if (madeMistakes.has(fault)) continue
        madeMistakes.add(fault)
      }
      if (dice.chance(share)) return fault
    }
    return
  }

  /** The answer of a chat by address, which takes the posts to its webhooks. */
  async function answerOfWebhook(
    webhook: NonNullable<ReturnType<typeof webhookAt>>,
    url: URL,
    body: string,
  ): Promise<Response> {
    const { id: chat, channel } = webhook
    if (archived.has(channel)) return closedAt(chat)
    // The relay asks for the webhook.
    if (body === '') return aboutAt(webhook)
    const read = await readAt(chat, url, body)
    if ('refused' in read) return read.refused
    const { shown, id } = read
    const post = { channel, token: '', text: shown, blocks: shown, id, atMs: time.now }
    const isRepeated =
      id !== undefined && outside.posts.some((each) => each.id === id && each.channel === channel)
    if (!isRepeated) outside.accept(post)
    return acceptedAt(chat)
  }

  /** The answer of a provider to a request that has reached it. */
  async function answerOf(request: Request, body: Buffer): Promise<Response> {
    const url = new URL(request.url)
    const { pathname, search } = url
    if (hasOwnTokens && pathname.startsWith('/pipedrive')) {
      const { status, body: answer = {}, headers } = answerOfPipedrive(request, body.toString())
      const isShort = time.now - time.startMs >= (plan.shortFrom ?? Number.POSITIVE_INFINITY)
      const limits = {
        ...(plan.tellsDay && {
          'X-Daily-RateLimit-Token-Limit': String(dayTokens),
          'X-Daily-RateLimit-Token-Remaining': String(isShort ? littleLeft : dayTokens),
        }),
        Date: new Date(time.now + plan.aheadMs).toUTCString(),
        'X-RateLimit-Limit': String(plan.callLimit),
      }
      return Response.json(answer, { status, headers: { ...limits, ...headers } })
    }
    const webhook = webhookAt(url)
    if (webhook !== undefined) return await answerOfWebhook(webhook, url, body.toString())
    return await new Promise((resolve, reject) => {
      let head: ResponseInit = {}
      const response: OutsideResponse = {
        writeHead(status, headers = {}) {
          const pairs = Object.entries(headers).map(([name, value]) => [name, String(value)])
          head = { status, headers: Object.fromEntries(pairs) }
          return response
        },
        end: (text) => resolve(new Response(head.status === 204 ? null : text, head)),
      }
      const incoming = {
        url: pathname + search,
        method: request.method,
        headers: Object.fromEntries(request.headers),
        async *[Symbol.asyncIterator]() {
          yield body
        },
      }
      answerAs(incoming, response).catch(reject)
    })
  }

  /** The moves of a channel that a process has claimed. */
  const claimedIn = (channel: string) =>
    database.ask<{ move: MoveName }>(
      `select distinct ${nameSql} as move from deliveries join deal_events on deal_events.id = event_id
       where state = 'pending' and sending_until is not null and channel = $1`,
      [channel],
    )

  /** The posts that the chat has accepted and that are known. Several may come at one moment. */
  const known = new Set<(typeof outside.posts)[number]>()
  /** What the request has changed at the provider. */
  async function effect(
    call: ProviderCall,
    answer: Response,
    owner: Owner | undefined,
    isUnheard: boolean,
  ): Promise<void> {
    const { path, token } = call
    if (/oauth.*(access|token)$/.test(path)) {
      const { access_token, refresh_token } = await answer.clone().json()
      if (access_token) granted.set(access_token, time.now)
      if (refresh_token && !granted.has(refresh_token)) granted.set(refresh_token, time.now)
    }
    if (path.endsWith('/auth.revoke')) endTokens(teamOf(token))
    if (path.endsWith('/external-install')) endTokens(grantOf(token))
    // With the access token, only that would end.
    if (path.endsWith('/pipedrive/oauth/revoke') && answer.ok && token.includes('-refresh-')) {
      endTokens(grantOf(token))
    }
    if (outside.posts.length === known.size) return
    const post = outside.posts.findLast(
      (each) => !known.has(each) && channelOf(each) === call.channel,
    )
    if (post === undefined) return
    known.add(post)
    // The page of a chat by address has shown that the channel gets messages.
    if (isGreeting(post)) return
    const channel = channelOf(post)
    const isExcused =
      isUnheard || owner === undefined || !owner.alive || owner.frozenUntil > time.now
    const own = owner && steps.get(owner)
    const moves = movesIn(post)
    const looked = moves.map((move) => claims.get(channel)?.get(move) ?? time.now)
    const denied = database.ask(
      `select from deliveries join deal_events on deal_events.id = event_id
       where channel = $1 and ${nameSql} = any($2::text[])
       group by ${nameSql} having bool_and(state not in ('pending', 'sent'))`,
      [channel, `{${moves.join()}}`],
    )
    posts.push({
      channel,
      moves,
      at: time.now,
      owner,
      pickedAt: Math.min(own?.get(`next ${channel}`) ?? 0, ...looked),
      claimedAt: own?.get(`claim ${channel}`),
      isExcused,
      isDenied: denied.length > 0,
    })
    note('chat', `${channel} gets deal ${moves.join()} from ${owner?.name}`)
  }

  /** A request whose answer nobody can give would be collected as garbage, together with its time limit. */
  const underWay = new Set<object>()
  const onEnded: Array<(of: string) => void> = []
  function endTokens(of: string): void {
    note('provider', `the tokens of ${of} end`)
    ended.set(of, time.now)
    for (const tell of onEnded) tell(of)
  }

  async function request(
    message: Request,
    owner: Owner | undefined,
    faults: readonly Fault[],
  ): Promise<Response> {
    const body = Buffer.from(await message.arrayBuffer())
    const call = callOf(message, body.toString())
    const startedAt = time.now
    const { account, isSearch } = call
    const { method } = message
    const path = new URL(message.url).pathname + new URL(message.url).search
    const user = ofToken.exec(call.token)?.[2] ?? ''
    const tokens = tokensOf(`${method} ${path}`)
    const counted: Call | undefined =
      account === undefined
        ? undefined
        : { owner, account, user, method, path, tokens, isHeard: false, isSearch, at: startedAt }
    if (counted) calls.push(counted)
    const fault = faultFor(call, faults)
    const isSlow = fault?.how === 'is slow'
    await time.wait(isSlow ? dice.between(1_000, 8_000) : dice.between(5, longestWayMs), undefined)
    let answer = fault && failedAnswer(dice, fault, call)
    if (fault?.kind === 'crm') failedAt.push(startedAt)
    if (answer === undefined) {
      answer = await answerOf(message, body)
      const isLost = fault?.how.startsWith('loses the answer') === true
      await effect(call, answer, owner, isLost || isSlow)
      if (isLost) {
        await time.wait(10, owner)
        throw new TypeError('fetch failed')
      }
    }
    if (answer === 'never') return await new Promise(() => {})
    await time.wait(dice.between(5, longestWayMs), owner)
    // After the call's time limit, the process need not read the answer, even if it has stood still meanwhile.
    if (time.now - startedAt >= defaultTimeouts.callMs) return answer
    if (counted) counted.isHeard = answer.ok
    const left = answer.headers.get('X-Daily-RateLimit-Token-Remaining')
    if (counted && left === String(littleLeft)) counted.tellsShort = time.now
    const tellsLimit = ['X-HubSpot-RateLimit-Max', 'X-RateLimit-Limit']
    if (counted && tellsLimit.some((name) => answer.headers.has(name))) counted.toldAt = time.now
    const askedS = Number(answer.headers.get('Retry-After'))
    const of = call.account ?? call.channel?.split('/')[0]
    if (askedS > 0 && of) {
      const until = time.now + Math.min(askedS * second, longestPauseMs)
      pauses.push({
        of,
        isOfChat: call.provider === 'chat',
        isSearch: call.isSearch,
        owner,
        from: time.now,
        until,
      })
    }
    return answer
  }

  return {
    posts,
    calls,
    pauses,
    failedAt,
    outside,
    pipedrive,
    withdrawn,
    archived,
    channelOf,
    isGreeting,
    setClock,
    endTokens,
    /** Is called when a workspace or an account ends its tokens. */
    onEnded,
    fetch:
      (faults: readonly Fault[]): typeof fetch =>
      (input, init) =>
        new Promise((resolve, reject) => {
          const message = new Request(input, init)
          const call = { input, message }
          underWay.add(call)
          const end = () => underWay.delete(call)
          message.signal.addEventListener('abort', () => {
            end()
            reject(message.signal.reason)
          })
          request(message, time.current(), faults).then(resolve, reject).finally(end)
        }),
    /** A process looks for the next message of a channel, or claims it. */
    step(owner: Owner, moment: 'next' | 'claim', channel: string): void {
      const own = steps.get(owner) ?? new Map<string, number>()
      steps.set(owner, own.set(`${moment} ${channel}`, time.now))
      const before = claims.get(channel)
      const lookedAt = own.get(`next ${channel}`) ?? time.now
      const claimed = claimedIn(channel).map(({ move }) => move)
      if (moment === 'claim' && claimed.length > 0)
        note(owner.name, `after its claim in ${channel}, somebody has: deal ${claimed.join()}`)
      const pairs = claimed.map((move) => [move, before?.get(move) ?? lookedAt] as const)
      claims.set(channel, new Map(pairs))
    },
    /** A process cannot record what it has posted, for longer than its claims last. */
    excuse(isMeant: (post: Post) => boolean): void {
      // While the database is away, nothing is recorded.
      const longestMs = (time.now < database.awayUntil + 10 * second ? 240 : 60) * second
      for (const post of posts) {
        if (post.isExcused || time.now - post.at > longestMs || !isMeant(post)) continue
        const recorded = database.ask(
          `select from deliveries join deal_events on deal_events.id = event_id
           where state = 'sent' and channel = $1 and ${nameSql} = $2`,
          [post.channel, post.moves[0]],
        )
        post.isExcused = recorded.length === 0
      }
    },
  }
}
