import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  onTestFinished,
  test,
  vi,
} from 'vitest'
import { basicAuth } from '../../server/providers/basic-auth.ts'
import { calls } from '../../server/providers/pipedrive/http.ts'
import { createPipedrive } from '../../server/providers/pipedrive/pipedrive.ts'
import { webhookPassword } from '../../server/providers/pipedrive/webhook.ts'
import type { Crm } from '../../server/providers/provider.ts'
import type { DealProperty } from '../../server/providers/registry.ts'
import { complaintsOfAnswer, complaintsOfCall, describedCall } from '../pipedrive-openapi.ts'
import { type Answer, openProvider, page, shortTimeouts } from './open-provider.ts'

// What Pipedrive's documents of version 2 say about calls, answers and webhooks. Each call and answer here is compared
// with Pipedrive's OpenAPI description, except answers that are marked as `unlike`.
let server: Awaited<ReturnType<typeof openProvider>>
let pipedrive: Crm
let spent: number[] = []

const none: Answer = { status: 404, body: { success: false, error: 'Not found' } }
beforeAll(async () => {
  server = await openProvider(none)
})
beforeEach(() => {
  server.answers = {}
  server.calls = []
  spent = []
  pipedrive = create()
})
afterEach(() => {
  for (const { call, body, answer } of server.calls) {
    // Only a guide describes it.
    if (call === 'POST /oauth/revoke') continue
    expect(complaintsOfCall(call, body)).toEqual([])
    const { status = 200, unlike, stalls } = answer
    if (!(unlike || stalls)) expect(complaintsOfAnswer(call, status, answer.body)).toEqual([])
  }
})
afterAll(() => server.close())

const settings = () => ({
  clientId: 'id',
  clientSecret: 'secret',
  olderSecrets: ['older'],
  apiUrl: server.url,
  authorizeUrl: 'https://oauth.pipedrive.com/oauth/authorize',
  webhookUrl: 'https://bell.example/webhooks/pipedrive',
  inUse: true,
  standIn: false,
})

function create(timeouts?: typeof shortTimeouts, webhookUrl = settings().webhookUrl): Crm {
  return createPipedrive({ ...settings(), webhookUrl }, timeouts, {
    async spend(_, __, { tokens, most }) {
      // What an answer says of the day is stored by a call that spends nothing.
      if (tokens > 0) spent.push(tokens)
      return { counted: true, most, spent: 0, remaining: null, untilMidnightMs: 1 }
    },
  })
}

const access = () =>
  ({ accountId: '5', accessToken: 'a', apiUrl: server.url, urgency: 'fresh' }) as const
const found = (data: unknown, next?: string | null): Answer => ({
  body: {
    success: true,
    data,
    ...(next !== undefined && { additional_data: { next_cursor: next } }),
  },
})
const refused = (status: number, error: string, more: object = {}): Answer => ({
  status,
  body: { success: false, error, ...more },
})
const callsMade = () => server.calls.map(({ call }) => call)
const bodiesOf = (call: string) =>
  server.calls.flatMap((each) => (each.call === call ? [each.body] : []))

const deal = {
  id: 1,
  title: 'A',
  value: 5.5,
  currency: 'EUR',
  status: 'open',
  stage_id: 2,
  pipeline_id: 1,
  owner_id: 7,
  person_id: 3,
  org_id: null,
  add_time: '2026-02-01T12:00:00Z',
  update_time: '2026-03-01T12:00:00Z',
  stage_change_time: '2026-03-01T12:00:00Z',
  won_time: null,
  lost_time: null,
  close_time: null,
  expected_close_date: '2026-04-01',
  is_archived: false,
  is_deleted: false,
  custom_fields: {},
}
const won = { status: 'won', won_time: deal.update_time, close_time: deal.update_time }

const ofCompany = (company: string, secret = 'secret') =>
  basicAuth(company, webhookPassword(secret, company))

/** What becomes of a webhook. */
function read(body: unknown, auth: string | undefined = ofCompany('5')) {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const header = (name: string) => (name === 'Authorization' ? auth : undefined)
  const url = settings().webhookUrl
  const request = { method: 'POST', url, header, body: Buffer.from(text) }
  return pipedrive.readWebhook(request, Date.now())
}
function eventsIn(body: unknown) {
  const content = read(body)
  return content.kind === 'events' ? content.events : content
}

/** The body of Pipedrive's own guide. */
function webhook(data: object | null, previous: object | null, meta: object = {}) {
  const ids = { id: '4ec1', correlation_id: 'c', webhook_id: '987', webhook_owner_id: '7' }
  const about = { entity: 'deal', entity_id: '1', company_id: '5', user_id: '7', version: '2.0' }
  const action = previous === null ? 'create' : data === null ? 'delete' : 'change'
  return { meta: { action, ...about, ...ids, attempt: 1, ...meta }, data, previous }
}
const times = { update_time: '2026-02-01T12:00:00Z' }
const change = (data: object, previous: object, meta?: object) =>
  webhook({ ...deal, ...data }, { ...times, ...previous }, meta)

describe('an event of Pipedrive is', () => {
  const events: Array<
    [string, body: object, ...events: Array<[DealProperty, value: string, former: string | null]>]
  > = [
    [
      'a creation',
      webhook(deal, null),
      ['stage', '2', null],
      ['amount', '5.5', null],
      ['owner', '7', null],
      ['closeDate', '2026-04-01', null],
    ],
    [
      'a creation as won, without anything else',
      webhook({ ...deal, ...won, value: null, owner_id: null, expected_close_date: null }, null),
      ['stage', 'won:1', null],
    ],
    ['a move', change({}, { stage_id: 1 }), ['stage', '2', '1']],
    [
      'a move to another pipeline',
      change({ stage_id: 20, pipeline_id: 2 }, { stage_id: 2, pipeline_id: 1 }),
      ['stage', '20', '2'],
    ],
    ['won', change(won, { status: 'open', won_time: null }), ['stage', 'won:1', '2']],
    ['lost', change({ status: 'lost' }, { status: 'open' }), ['stage', 'lost:1', '2']],
    ['reopened', change({}, { status: 'lost', pipeline_id: 9 }), ['stage', '2', 'lost:9']],
    [
      'moved and won in one edit',
      change(won, { status: 'open', stage_id: 1 }),
      ['stage', 'won:1', '1'],
    ],
    ['a move while won: none', change(won, { stage_id: 1 })],
    [
      'a move to another pipeline while won: none',
      change({ ...won, stage_id: 20, pipeline_id: 2 }, { stage_id: 2, pipeline_id: 1 }),
    ],
    [
      'lost after won, in another pipeline',
      change({ status: 'lost', pipeline_id: 2 }, { status: 'won', pipeline_id: 1 }),
      ['stage', 'lost:2', 'won:1'],
    ],
    ['an amount', change({}, { value: 4 }), ['amount', '5.5', '4']],
    ['no amount any more', change({ value: null }, { value: 4 }), ['amount', '', '4']],
    ['an owner', change({}, { owner_id: 8 }), ['owner', '7', '8']],
    ['a close date', change({}, { expected_close_date: null }), ['closeDate', '2026-04-01', '']],
    [
      'a bulk edit of several fields',
      change({}, { stage_id: 1, owner_id: 8 }, { is_bulk_edit: true }),
      ['stage', '2', '1'],
      ['owner', '7', '8'],
    ],
    ['a title: none', change({}, { title: 'B' })],
    ['deleted: none', webhook(null, deal, { action: 'delete' })],
    ['deleted by a status: none', change({ status: 'deleted' }, { status: 'open' })],
    ['deleted by a flag: none', change({ is_deleted: true, stage_id: 3 }, { stage_id: 2 })],
    ['restored: none', change({}, { status: 'deleted', is_deleted: true })],
    ['archived: none', change({ is_archived: true }, { is_archived: false })],
    ['out of the archive: none', change({}, { is_archived: true })],
    ['merged into another: none', webhook(null, deal, { action: 'delete', merged_to_id: '2' })],
    ['merged with another: none', change({}, { value: 1, stage_id: 1 }, { merged_from_id: '2' })],
    ['of nothing that changed: none', { ...change({}, {}), previous: [] }],
    ['of a person: none', webhook({ id: 1 }, null, { entity: 'person' })],
  ]
  test.each(events)('%s', (_, body, ...expected) => {
    expect(read(body)).toMatchObject({ kind: 'events', items: 1, notUnderstood: 0 })
    expect(eventsIn(body)).toEqual(
      expected.map(([property, value, former]) => ({
        key: expect.stringMatching(/^[\w-]{43}$/),
        accountId: '5',
        dealId: '1',
        ...{ property, value, former, occurredAt: new Date(deal.update_time) },
      })),
    )
  })

  test('one, with the same key, from the webhook of each user and in each try', () => {
    const key = (...edit: Parameters<typeof change>) => Object(eventsIn(change(...edit)))[0].key
    const first = key({}, { stage_id: 1 })
    const again = { id: '9', webhook_id: '9', webhook_owner_id: '9', attempt: 2 }
    const precise = { update_time: '2026-03-01T12:00:00.123Z' }
    expect(key(precise, { stage_id: 1 }, { ...again, company_id: 5 })).toBe(first)
    for (const other of [{ stage_id: 3 }, { id: 2 }, { update_time: '2026-03-01T12:00:01Z' }]) {
      expect(key(other, { stage_id: 1 })).not.toBe(first)
    }
    const [elsewhere] = Object(
      read(change({}, { stage_id: 1 }, { company_id: '6' }), ofCompany('6')),
    ).events
    expect(elsewhere.key).not.toBe(first)
  })

  const bodies: Array<[string, unknown]> = [
    ...[null, 5, [], {}, '', 'no JSON', '"text"', { meta: null }, { meta: [] }].map(
      (body): [string, unknown] => [JSON.stringify(body), body],
    ),
    ['no company', webhook(deal, null, { company_id: undefined })],
    ['no data', webhook(null, null, { action: 'change' })],
    ['a list of data', { ...webhook(deal, {}), data: [deal] }],
    ['no former values', webhook(deal, null, { action: 'change' })],
    ['an id as text', change({ id: '1' }, { stage_id: 1 })],
    ['an id that is no whole number', change({ id: 1.5 }, { stage_id: 1 })],
    ['an id that is not exact', change({ id: 2 ** 53 }, { stage_id: 1 })],
    ['a stage as text', change({ stage_id: '2' }, { stage_id: 1 })],
    ['a former stage as text', change({}, { stage_id: '1' })],
    ['no time', change({ update_time: undefined }, { stage_id: 1 })],
    ['no date as the time', change({ update_time: 'soon' }, { stage_id: 1 })],
    ['a time as a number', change({ update_time: 5 }, { stage_id: 1 })],
    ['an amount as text', change({ value: '5' }, { value: 4 })],
  ]
  test.each(bodies)('not understood, but never an error: %s', (_, body) => {
    expect(read(body)).toEqual({ kind: 'events', items: 1, events: [], notUnderstood: 1 })
  })

  test.each(['\0', '\uD800', 'x'.repeat(256)])(
    'none with a text that cannot be stored: %j',
    (text) => {
      for (const [now, former] of [
        [text, null],
        ['2026-04-01', text],
      ]) {
        const date = { expected_close_date: now }
        expect(eventsIn(change(date, { expected_close_date: former }))).toEqual([])
      }
    },
  )
})

describe('a webhook is believed', () => {
  const body = change({}, { stage_id: 1 })

  test.each([
    ['with the password of its company', ofCompany('5')],
    ['with that of an older secret', ofCompany('5', 'older')],
    ['with another case of the scheme', ofCompany('5').replace('Basic', 'basic')],
  ])('%s', (_, auth) => {
    expect(read(body, auth)).toMatchObject({ kind: 'events', events: [{ dealId: '1' }] })
    expect(pipedrive.webhookRefusal(() => auth, 0)).toBeUndefined()
  })

  test.each<[why: string, string, auth: string]>([
    ['signature', 'another password', basicAuth('5', 'wrong')],
    ['signature', 'no password', basicAuth('5', '')],
    ['signature', 'the client secret itself', basicAuth('5', 'secret')],
    ['signature', 'a secret that is not ours', ofCompany('5', 'other')],
    [
      'signature',
      'the password of another company',
      basicAuth('6', webhookPassword('secret', '5')),
    ],
    ['missing', 'an empty header', ''],
    ['missing', 'another scheme', ofCompany('5').replace('Basic', 'Bearer')],
    ['missing', 'no base64', 'Basic !!!'],
    ['missing', 'no colon', `Basic ${btoa('5')}`],
    ...['', ' 5', '5 ', '-5', '5.0', '0x5', 'five', '٥', '5'.repeat(21)].map(
      (company): [string, string, string] => [
        'missing',
        `the company ${company}`,
        ofCompany(company),
      ],
    ),
  ])('not (%s) with %s', (why, _, auth) => {
    expect(pipedrive.webhookRefusal(() => auth, 0)).toBe(why)
    expect(read(body, auth)).toEqual({ kind: 'not signed', why })
  })

  test('not without a header', () => {
    expect(pipedrive.webhookRefusal(() => undefined, 0)).toBe('missing')
  })

  test.each([
    { company_id: '6' },
    { company_id: 6 },
    // The same number, but not as Pipedrive writes it.
    { company_id: '05' },
  ])('not if its body is about another company: %j', ({ company_id }) => {
    const refusal = { kind: 'not signed', why: 'signature' }
    expect(read(change({}, { stage_id: 1 }, { company_id }))).toEqual(refusal)
  })
})

describe('an uninstall is', () => {
  const uninstalled = { client_id: 'id', company_id: 5, user_id: 7, timestamp: 't' }
  const uninstalledBy = (auth: string | undefined, body: unknown) =>
    pipedrive.uninstalledBy?.({ header: () => auth, body: Buffer.from(JSON.stringify(body) ?? '') })

  test.each([
    ['secret', uninstalled],
    ['older', { ...uninstalled, company_id: '5', user_id: '7' }],
  ])('believed with the secret %s', (secret, body) => {
    const user = { accountId: '5', accountUserId: '7' }
    expect(uninstalledBy(basicAuth('id', secret), body)).toEqual(user)
  })

  test.each<[string, auth: string | undefined, body: unknown]>([
    ['no header', undefined, uninstalled],
    ['another secret', basicAuth('id', 'other'), uninstalled],
    ['no secret', basicAuth('id', ''), uninstalled],
    ['another client', basicAuth('other', 'secret'), uninstalled],
    ['the password of webhooks', ofCompany('5'), uninstalled],
    ['another client in the body', basicAuth('id', 'secret'), { ...uninstalled, client_id: 'x' }],
    ['a user of another form', basicAuth('id', 'secret'), { ...uninstalled, user_id: null }],
    ['no company', basicAuth('id', 'secret'), { ...uninstalled, company_id: undefined }],
    ['a list', basicAuth('id', 'secret'), [uninstalled]],
    ['nothing', basicAuth('id', 'secret'), undefined],
  ])('not believed with %s', (_, auth, body) => {
    expect(uninstalledBy(auth, body)).toBeUndefined()
  })
})

const me = { id: 7, company_id: 5, company_domain: 'acme' }
const tokens = () => ({
  access_token: 'a2',
  refresh_token: 'r',
  token_type: 'Bearer',
  expires_in: 3599,
  scope: 'base,deals:read,users:read,recents:read,webhooks:full',
  api_domain: server.url,
})
const exchange = () => pipedrive.exchange({ code: 'c', redirectUri: 'r', codeVerifier: 'v' })
const refresh = () =>
  pipedrive.refresh({ accessToken: 'a', refreshToken: 'r', apiUrl: 'https://old.pipedrive.com' })

describe('the address of a company', () => {
  /** The origins that were called. */
  function watchCalls() {
    const fetch = vi.spyOn(globalThis, 'fetch')
    onTestFinished(() => fetch.mockRestore())
    return () =>
      new Set(fetch.mock.calls.map(([to]) => new URL(to instanceof Request ? to.url : to).origin))
  }

  test.each([
    'https://evil.com',
    'https://a.pipedrive.com.evil.com',
    'https://evil.com/a.pipedrive.com',
    'https://evilpipedrive.com',
    'https://pipedrive.com',
    'http://a.pipedrive.com',
    'https://a.pipedrive.com:8443',
    'https://user@a.pipedrive.com',
    'https://a.pipedrive.com@evil.com',
    'https://a.pipedrive.com/',
    'https://a.pipedrive.com?a',
    'https://a.pipedrive.com\n',
    'https:\\\\a.pipedrive.com',
    'https://A.pipedrive.com',
    'https://a.pipedrive.com.',
    'https://a.b.pipedrive.com',
    'https://а.pipedrive.com',
    'http://169.254.169.254',
    'javascript:a',
    '',
  ])('is refused, and gets no token: %j', async (api_domain) => {
    const called = watchCalls()
    server.answers = { '/oauth/token': { body: { ...tokens(), api_domain } } }
    const refusal = { kind: 'refused', reason: 'unknown_api_domain' }
    await expect(exchange()).rejects.toMatchObject(refusal)
    // The connection stays, with the address that it had.
    expect((await refresh()).secrets.apiUrl).toBe('https://old.pipedrive.com')
    expect(called()).toEqual(new Set([server.url]))
    expect(callsMade()).toEqual(['POST /oauth/token', 'POST /oauth/token'])
  })

  test.each([
    ['user@', (server) => server.replace('//', '//user@')],
    ['a query', (server) => `${server}/x?a`],
    ['another port', (server) => server.replace(/\d+$/, '1')],
    ['another scheme', (server) => server.replace('http', 'https')],
  ] as Array<[string, (server: string) => string]>)(
    'is refused at the host of PIPEDRIVE_API_URL with %s',
    async (_, change) => {
      const called = watchCalls()
      server.answers = { '/oauth/token': { body: { ...tokens(), api_domain: change(server.url) } } }
      await expect(exchange()).rejects.toMatchObject({ reason: 'unknown_api_domain' })
      expect(called()).toEqual(new Set([server.url]))
    },
  )

  test('is taken if it is Pipedrive’s, or has the origin of PIPEDRIVE_API_URL', async () => {
    for (const api_domain of ['https://acme-2.pipedrive.com', `${server.url}/sandbox/pipedrive`]) {
      server.answers = { '/oauth/token': { body: { ...tokens(), api_domain } } }
      expect((await refresh()).secrets.apiUrl).toBe(api_domain)
    }
    server.answers['/sandbox/pipedrive/api/v1/users/me'] = found(me)
    expect((await exchange()).secrets.apiUrl).toBe(`${server.url}/sandbox/pipedrive`)
  })
})

describe('tokens:', () => {
  const client = basicAuth('id', 'secret')

  test('a code is exchanged, and its user and company are read', async () => {
    server.answers = { '/oauth/token': { body: tokens() }, '/users/me': found(me) }
    expect(await exchange()).toMatchObject({
      accountId: '5',
      accountName: 'acme.pipedrive.com',
      accountUserId: '7',
      grantId: '5:7',
      secrets: { accessToken: 'a2', refreshToken: 'r', apiUrl: server.url, mayReadOwners: true },
    })
    const [token, who] = server.calls
    expect(Object.fromEntries(new URLSearchParams(token?.body))).toEqual({
      ...{ grant_type: 'authorization_code', code: 'c', redirect_uri: 'r' },
    })
    expect(token?.headers).toMatchObject({ authorization: client, accept: 'application/json' })
    expect(who?.headers).toMatchObject({ authorization: 'Bearer a2', accept: 'application/json' })
    const url = pipedrive.authorizeUrl({ redirectUri: 'r', state: 's', codeVerifier: 'v' })
    expect(url).toBe(`${settings().authorizeUrl}?client_id=id&redirect_uri=r&state=s`)
  })

  test.each([
    ['no scopes', { scope: undefined }, undefined],
    ['no scope for owners', { scope: 'base deals:read' }, false],
  ])('a refresh keeps the refresh token, with %s', async (_, more, mayReadOwners) => {
    server.answers = { '/oauth/token': { body: { ...tokens(), ...more } } }
    const before = Date.now()
    const { secrets, accessExpiresAt } = await refresh()
    expect(secrets).toEqual({
      ...{ accessToken: 'a2', refreshToken: 'r', apiUrl: server.url },
      ...(mayReadOwners !== undefined && { mayReadOwners }),
    })
    expect(accessExpiresAt.getTime()).toBeGreaterThanOrEqual(before + 3_599_000)
    const form = { grant_type: 'refresh_token', refresh_token: 'r' }
    expect(Object.fromEntries(new URLSearchParams(server.calls[0]?.body))).toEqual(form)
    expect(server.calls[0]?.headers.authorization).toBe(client)
  })

  test.each([
    { error: 'invalid_grant', message: 'Invalid grant: refresh_token is invalid' },
    { error: 'Invalid grant: refresh_token is invalid' },
    { error: 'invalid_grant' },
  ])('a refresh is refused by a word on the token: %j', async (body) => {
    server.answers = { '/oauth/token': { status: 400, body: { success: false, ...body } } }
    await expect(refresh()).rejects.toMatchObject({ kind: 'refused', reason: 'invalid_grant' })
    expect(pipedrive.brokenReasons).toHaveProperty('invalid_grant')
  })

  test.each<[Answer, string | undefined]>([
    [{ status: 400, body: { success: false, error: 'invalid_request' } }, 'invalid_request'],
    [{ status: 400, body: {} }, 'status_400'],
    [{ status: 400, body: { error: ['invalid_grant'] } }, 'status_400'],
    [{ ...page, status: 400 }, 'status_400'],
    [
      { status: 401, body: { error: 'invalid_client', message: 'Client is invalid' } },
      'invalid_client',
    ],
    [{ ...page, status: 403 }, 'status_403'],
    [{ status: 404 }, 'status_404'],
    [{ status: 500, body: { error: 'invalid_grant' } }, 'invalid_grant'],
    [{ ...page, status: 502 }, 'status_502'],
    [{ status: 429 }, 'rate_limited'],
    [{ status: 302, headers: { Location: 'https://bell.example' } }, undefined],
  ])('a refresh is not refused by %j', async (answer, reason) => {
    server.answers = { '/oauth/token': answer }
    await expect(refresh()).rejects.toMatchObject({ kind: 'unreachable', reason })
  })

  test.each<[field: string, more: object]>([
    ['access_token', { access_token: '' }],
    ['refresh_token', { refresh_token: undefined }],
    ['expires_in', { expires_in: '3599' }],
    ['api_domain', { api_domain: null }],
  ])('an answer with another %s is an error', async (field, more) => {
    server.answers = { '/oauth/token': { body: { ...tokens(), ...more }, unlike: true } }
    for (const call of [exchange, refresh]) {
      await expect(call()).rejects.toMatchObject({ kind: 'nonsense', field })
    }
  })
})

describe('a user’s webhook', () => {
  interface Hook {
    id: number
    user_id: number
    name: string | undefined
    is_active: number
    remove_time?: string
    subscription_url: string
  }
  /** Those at Pipedrive, and what has become of them. */
  let hooks: Hook[] = []
  let done: string[] = []
  let lastId = 0

  beforeEach(() => {
    hooks = []
    done = []
    lastId = 10
    server.answers = {
      '/users/me': found(me),
      'GET /api/v1/webhooks': () => {
        done.push('list')
        return found(hooks)
      },
      'POST /api/v1/webhooks': (_, body) => {
        const made = { ...JSON.parse(body), id: ++lastId, user_id: 7, is_active: 1 }
        done.push(`make ${made.id}`)
        hooks.push(made)
        return { status: 201, body: { success: true, data: made } }
      },
    }
    for (let id = 1; id < 20; id++) {
      server.answers[`DELETE /api/v1/webhooks/${id}`] = () => {
        done.push(`delete ${id}`)
        if (!hooks.some((hook) => hook.id === id)) return { status: 404, body: { success: false } }
        hooks = hooks.filter((hook) => hook.id !== id)
        return { body: { status: 'ok', success: true } }
      }
    }
  })

  /** The server's webhook, by the id that it has stored. @returns the id to store. */
  async function subscribe(webhookId: string | null = null, as = pipedrive): Promise<string> {
    const found = await as.webhooks?.find(access(), { grantId: '5:7', webhookId })
    return found ?? (await as.webhooks?.make(access())) ?? ''
  }
  /** Makes one, as it is right. */
  async function right(more: Partial<Hook> = {}): Promise<Hook> {
    await subscribe()
    const [hook] = hooks
    if (hook === undefined) throw new Error('None was made.')
    hooks = []
    done = []
    server.calls = []
    spent = []
    return { ...hook, ...more }
  }

  test('is made if there is none, and kept without another call', async () => {
    expect(await subscribe()).toBe('11')
    expect(done).toEqual(['list', 'make 11'])
    expect(bodiesOf('POST /api/v1/webhooks').map((body) => JSON.parse(body))).toEqual([
      {
        ...{ subscription_url: settings().webhookUrl, version: '2.0' },
        ...{ event_action: '*', event_object: 'deal' },
        name: expect.stringMatching(/^Dealbell [0-9a-f]{8}$/),
        ...{ http_auth_user: '5', http_auth_password: webhookPassword('secret', '5') },
      },
    ])
    server.calls = []
    expect(await subscribe('11')).toBe('11')
    expect(callsMade()).toEqual(['GET /api/v1/webhooks'])
  })

  const elsewhere = 'https://staging.example/webhooks/pipedrive'
  test.each<[string, Partial<Hook>]>([
    ['is not active', { is_active: 0 }],
    ['has another address', { subscription_url: elsewhere }],
    ['has an older password', { name: 'Dealbell 01234567' }],
    ['has no name', { name: undefined }],
  ])('that %s is deleted before another is made', async (_, more) => {
    hooks = [await right({ id: 5, ...more })]
    expect(await subscribe('5')).toBe('12')
    expect(done).toEqual(['list', 'delete 5', 'make 12'])
  })

  test.each([
    ['4', '4', [3, 5]],
    ['9', '3', [4, 5]],
    [null, '3', [4, 5]],
  ])(
    'of the stored id %s is the one with the id %s, without copies at the same address',
    async (stored, kept, deleted) => {
      const hook = await right()
      const others = [
        { ...hook, id: 1, user_id: 8 },
        { ...hook, id: 2, subscription_url: elsewhere },
      ]
      hooks = [...others, { ...hook, id: 3 }, { ...hook, id: 4 }, { ...hook, id: 5, is_active: 0 }]
      expect(await subscribe(stored)).toBe(kept)
      expect(done).toEqual(['list', ...deleted.map((id) => `delete ${id}`)])
    },
  )

  test('stays when another server with the same client id has one for the same user', async () => {
    const staging = create(undefined, elsewhere)
    const ids = [await subscribe(), await subscribe(null, staging)]
    for (const [n, as] of [pipedrive, staging].entries()) {
      expect(await subscribe(ids[n], as)).toBe(ids[n])
    }
    expect(done.filter((each) => each !== 'list')).toEqual(['make 11', 'make 12'])
  })

  test('that was removed is no webhook any more', async () => {
    hooks = [await right({ id: 5, remove_time: '2026-03-01 12:00:00' })]
    expect(await subscribe('5')).toBe('12')
    expect(done).toEqual(['list', 'make 12'])
  })

  test('that Pipedrive does not let us delete is left, and no obstacle', async () => {
    const hook = await right()
    hooks = [
      { ...hook, id: 3, is_active: 0 },
      { ...hook, id: 4 },
    ]
    server.answers = {
      ...server.answers,
      'DELETE /api/v1/webhooks/3': { status: 403, body: { success: false, message: 'Forbidden' } },
    }
    expect(await subscribe('3')).toBe('4')
  })

  test('is one at the look after two processes made one at once, or after a lost answer', async () => {
    const [, stored] = await Promise.all([subscribe(), subscribe(null, create())])
    expect(hooks).toHaveLength(2)
    expect(await subscribe(stored)).toBe(stored)
    expect(hooks).toHaveLength(1)

    hooks = []
    const { 'POST /api/v1/webhooks': make } = server.answers
    if (typeof make !== 'function') throw new Error('It is one.')
    server.answers['POST /api/v1/webhooks'] = (...call) => ({
      ...make(...call),
      ...page,
      status: 502,
    })
    await expect(subscribe()).rejects.toMatchObject({ kind: 'unreachable', reason: 'status_502' })
    expect(await subscribe()).toBe(String(hooks[0]?.id))
    expect(hooks).toHaveLength(1)
  })

  test('is not made if the list cannot be read', async () => {
    for (const answer of [
      refused(403, 'Scope and URL mismatch'),
      page,
      { ...found([{ id: 'x' }]), unlike: true },
    ]) {
      server.answers = { ...server.answers, 'GET /api/v1/webhooks': { unlike: true, ...answer } }
      await expect(subscribe()).rejects.toThrow('pipedrive: read')
    }
    expect(done).toEqual([])
  })

  describe('is deleted at a disconnect, which', () => {
    const revoke = (webhookId: string | null = '11') =>
      pipedrive.revoke(
        { accessToken: 'a', refreshToken: 'r', apiUrl: server.url },
        { accountId: '5', webhookId },
      )
    /** Only the refresh token uninstalls. */
    const wasRevoked = () => expect(bodiesOf('POST /oauth/revoke')).toEqual(['token=r'])
    beforeEach(() => {
      server.answers = { ...server.answers, '/oauth/revoke': { status: 200 } }
    })

    test('deletes the webhook with the stored id before it revokes the access', async () => {
      const hook = await right()
      hooks = [hook, { ...hook, id: 5 }]
      await revoke()
      expect(callsMade()).toEqual(['DELETE /api/v1/webhooks/11', 'POST /oauth/revoke'])
      wasRevoked()
      server.calls = []
      await revoke(null)
      expect(callsMade()).toEqual(['POST /oauth/revoke'])
    })

    test.each<[string, Answer]>([
      ['fails', { ...page, status: 502 }],
      ['is refused', refused(401, 'unauthorized access')],
      ['hangs', { stalls: true }],
    ])('revokes the access also if the deletion %s', async (_, answer) => {
      pipedrive = create(shortTimeouts)
      server.answers = { ...server.answers, 'DELETE /api/v1/webhooks/11': answer }
      await revoke()
      wasRevoked()
    })

    test('says what became of the revocation', async () => {
      server.answers = { ...server.answers, '/oauth/revoke': { ...page, status: 503 } }
      await expect(revoke()).rejects.toMatchObject({ stage: 'revoke', kind: 'unreachable' })
    })
  })
})

const withHistory = { history: 'stage', links: true } as const
const withoutHistory = { history: undefined, links: true } as const

describe('Pipedrive is called for', () => {
  const read = {
    id: '1',
    name: 'A',
    amount: '5.5',
    currency: 'EUR',
    ownerId: '7',
    closeDate: new Date('2026-04-01'),
    linked: true,
    history: [],
  }
  const expected = () => ({ ...read, url: `${server.url}/deal/1` })

  test('one deal, and its changelog only for a history', async () => {
    server.answers = { '/deals/1': found(deal), '/changelog': found([], null) }
    expect(await pipedrive.deal(access(), '1', withoutHistory)).toEqual(expected())
    expect(callsMade()).toEqual(['GET /api/v2/deals/1'])
    await pipedrive.deal(access(), '1', withHistory)
    expect(callsMade().slice(1)).toEqual([
      'GET /api/v2/deals/1',
      'GET /api/v1/deals/1/changelog?limit=500',
    ])
  })

  test.each<[string, more: object, object]>([
    ['no value', { value: null }, { amount: null }],
    ['the value 0', { value: 0 }, { amount: null }],
    ['only a company', { person_id: null, org_id: 4 }, { linked: true }],
    ['no links', { person_id: null }, { linked: false }],
    ['no owner', { owner_id: null }, { ownerId: null }],
    ['no dates', { expected_close_date: null }, { closeDate: undefined }],
    ['a win', won, { closeDate: new Date(won.won_time) }],
    ['a loss', { status: 'lost', lost_time: won.won_time }, { closeDate: new Date(won.won_time) }],
    ['a loss of long ago, reopened', { lost_time: won.won_time }, { closeDate: read.closeDate }],
  ])('a deal with %s', async (_, more, changed) => {
    server.answers = { '/deals/1': { ...found({ ...deal, ...more }), unlike: true } }
    expect(await pipedrive.deal(access(), '1', withoutHistory)).toEqual({
      ...expected(),
      ...changed,
    })
  })

  const entry = (
    field_key: string,
    old_value: string | null,
    new_value: string | null,
    time: string,
  ) => ({
    ...{ field_key, old_value, new_value, actor_user_id: 7, change_source: 'app' },
    ...{ time: `2026-03-01 ${time}`, is_bulk_update_flag: false },
  })
  const createdAt = new Date(deal.add_time)
  /** Of the first of March, the hour and the minute. */
  const timeOf = (at: Date) =>
    +at === +createdAt ? 'created' : at.toISOString().replace(/^2026-03-01T(.*):00.000Z$/, '$1')
  const moves = [entry('stage_id', '1', '2', '12:00:00'), entry('stage_id', '3', '1', '11:00:00')]
  const moved = ['3 created', '1 11:00', '2 12:00']

  test.each<[string, property: DealProperty, more: object, entries: object[], history: string[]]>([
    ['without changes', 'stage', {}, [], ['2 created']],
    [
      'the newest first, among other fields',
      'stage',
      {},
      [entry('title', 'B', 'A', '12:30:00'), ...moves],
      moved,
    ],
    ['the oldest first', 'stage', {}, moves.toReversed(), moved],
    [
      'moved and won in one second',
      'stage',
      won,
      [entry('status', 'open', 'won', '12:00:00'), entry('stage_id', '1', '2', '12:00:00')],
      ['1 created', 'won:1 12:00'],
    ],
    [
      'moved three times in one second, in any order',
      'stage',
      {},
      [
        entry('stage_id', '4', '3', '12:00:00'),
        entry('stage_id', '3', '2', '12:00:00'),
        entry('stage_id', '1', '4', '12:00:00'),
      ],
      ['1 created', '4 12:00', '3 12:00', '2 12:00'],
    ],
    [
      'moved there and back in one second',
      'stage',
      {},
      [entry('stage_id', '2', '1', '12:00:00'), entry('stage_id', '1', '2', '12:00:00')],
      ['2 created', '1 12:00', '2 12:00'],
    ],
    [
      'moved twice and won in one second, of which the last is known',
      'stage',
      won,
      [
        entry('stage_id', '1', '3', '12:00:00'),
        entry('status', 'open', 'won', '12:00:00'),
        entry('stage_id', '3', '2', '12:00:00'),
      ],
      ['1 created', 'won:1 12:00'],
    ],
    [
      'moved while won, which is no change',
      'stage',
      won,
      [entry('stage_id', '1', '2', '12:00:00'), entry('status', 'open', 'won', '11:00:00')],
      ['1 created', 'won:1 11:00'],
    ],
    [
      'moved to another pipeline while won, which is no change',
      'stage',
      { ...won, pipeline_id: 2, stage_id: 20 },
      [
        entry('pipeline_id', '1', '2', '12:00:00'),
        entry('stage_id', '2', '20', '12:00:00'),
        entry('status', 'open', 'won', '11:00:00'),
      ],
      ['2 created', 'won:1 11:00'],
    ],
    [
      'won, reopened and lost, in two pipelines',
      'stage',
      { status: 'lost', pipeline_id: 2, stage_id: 20 },
      [
        entry('status', 'open', 'lost', '12:00:00'),
        entry('pipeline_id', '1', '2', '11:30:00'),
        entry('stage_id', '2', '20', '11:30:00'),
        entry('status', 'won', 'open', '11:00:00'),
        entry('status', 'open', 'won', '10:00:00'),
      ],
      ['2 created', 'won:1 10:00', '2 11:00', '20 11:30', 'lost:2 12:00'],
    ],
    [
      'with an entry of the creation',
      'stage',
      { add_time: '2026-03-01T10:00:00Z' },
      [entry('stage_id', '1', '2', '12:00:00'), entry('stage_id', null, '1', '10:00:00')],
      ['1 10:00', '2 12:00'],
    ],
    ['without a time of the creation', 'stage', { add_time: null }, moves.slice(0, 1), ['2 12:00']],
    [
      'of amounts',
      'amount',
      {},
      [entry('value', null, '5.5', '12:00:00')],
      [' created', '5.5 12:00'],
    ],
    [
      'of owners, by the name of version 1',
      'owner',
      {},
      [entry('user_id', '8', '7', '12:00:00')],
      ['8 created', '7 12:00'],
    ],
  ])('a history %s', async (_, history, more, entries, values) => {
    server.answers = {
      '/deals/1': { ...found({ ...deal, ...more }), unlike: true },
      '/changelog': found(entries, 'a further page'),
    }
    const answer = await pipedrive.deal(access(), '1', { history, links: false })
    expect(answer?.history.map(({ value, at }) => `${value} ${timeOf(at)}`)).toEqual(values)
  })

  test('a history among entries of other fields, whatever they are', async () => {
    const own = (more: object) => ({ field_key: 'a1b2', time: '2026-03-01 12:30:00', ...more })
    const odd = [{ field_key: null }, { field_key: 5 }, { time: null }, { time: 'soon' }]
    const entries = [
      ...[null, 'text', {}, [], own({ old_value: 5, new_value: { id: 6 } }), own({})],
      ...[...odd.map(own), own({ field_key: 'user_id', time: null }), ...moves],
    ]
    server.answers = {
      '/deals/1': found(deal),
      '/changelog': { ...found(entries), unlike: true },
    }
    const answer = await pipedrive.deal(access(), '1', withHistory)
    expect(answer?.history).toHaveLength(3)

    // Without the time of a change, the history would be wrong.
    for (const time of [null, 'soon']) {
      const data = [...entries, own({ field_key: 'status', time })]
      server.answers['/changelog'] = { ...found(data), unlike: true }
      await expect(pipedrive.deal(access(), '1', withHistory)).rejects.toMatchObject({
        ...{ kind: 'nonsense', field: `data.${entries.length}` },
      })
    }
  })

  test('few deals one by one, and many by a list, which lacks those that are hidden', async () => {
    const ids = Array.from({ length: 10 }, (_, n) => `${n + 1}`)
    server.answers = {
      '/deals/1': found(deal),
      '/deals/2': refused(403, 'Forbidden'),
      '/deals/3': found({ ...deal, id: 3, is_deleted: true, status: 'deleted' }),
      '/deals': found([
        deal,
        { ...deal, id: 3, is_deleted: true },
        { ...deal, id: 4, person_id: null },
      ]),
      '/deals/1/changelog': found(moves),
      '/deals/4/changelog': { ...found(null), unlike: true },
    }
    const few = await pipedrive.deals(access(), ids.slice(0, 9), undefined)
    expect(few).toEqual(new Map([['1', expected()]]))
    // One of them asks whether the user may read a list.
    expect(callsMade()).toHaveLength(10)
    server.calls = []
    // What is not found is not the same as a deal without a contact.
    const linked = new Map([
      ['1', true],
      ['4', false],
    ])
    expect(await pipedrive.linked(access(), ids)).toEqual(linked)
    expect(callsMade()).toEqual([`GET /api/v2/deals?limit=10&ids=${ids}`])
    server.answers['/deals/4/changelog'] = none
    const many = await pipedrive.deals(access(), ids, 'stage')
    expect([...many].map(([id, { history }]) => [id, history.length])).toEqual([
      ['1', 3],
      // Without a changelog, the list tells the last change.
      ['4', 2],
    ])
  })

  test('stages, of which each pipeline has two more', async () => {
    const stage = (id: number, order_nr: number, pipeline_id: number) => ({
      ...{ id, order_nr, pipeline_id, name: `Stage ${id}`, is_deleted: false },
    })
    const pipelines = [
      { id: 2, name: 'Renewals', order_nr: 2, is_deleted: false },
      { id: 1, name: 'Sales', order_nr: 1, is_deleted: false },
    ]
    server.answers = {
      '/pipelines': found(pipelines.slice(1)),
      '/stages': [
        found([stage(10, 2, 1), stage(20, 1, 2)], 'next'),
        found([stage(11, 1, 1)], null),
      ],
    }
    const sales = [
      { id: '11', label: 'Stage 11', outcome: 'open' },
      { id: '10', label: 'Stage 10', outcome: 'open' },
      { id: 'won:1', label: 'Won', outcome: 'won' },
      { id: 'lost:1', label: 'Lost', outcome: 'lost' },
    ]
    expect(await pipedrive.stages(access())).toEqual(sales)
    expect(callsMade()).toEqual([
      'GET /api/v2/pipelines?limit=500',
      'GET /api/v2/stages?limit=500',
      'GET /api/v2/stages?limit=500&cursor=next',
    ])
    server.answers = { '/pipelines': found(pipelines), '/stages': found([stage(20, 1, 2)], null) }
    expect((await pipedrive.stages(access())).map(({ id, pipeline }) => [id, pipeline])).toEqual([
      ['won:1', 'Sales'],
      ['lost:1', 'Sales'],
      ['20', 'Renewals'],
      ['won:2', 'Renewals'],
      ['lost:2', 'Renewals'],
    ])
    // The name of a pipeline that was deleted says nothing.
    const [other, only] = pipelines
    server.answers['/pipelines'] = found([{ ...other, is_deleted: true }, only])
    expect(new Set((await pipedrive.stages(access())).map(({ pipeline }) => pipeline))).toEqual(
      new Set([undefined]),
    )
  })

  test.each<[Answer, object | undefined]>([
    [
      found({ id: 7, name: 'Ada', email: 'ada@acme.example' }),
      { name: 'Ada', email: 'ada@acme.example' },
    ],
    [
      found({ id: 7, name: ' ', email: 'ada@acme.example' }),
      { name: 'ada@acme.example', email: 'ada@acme.example' },
    ],
    [found({ id: 7, name: '' }), undefined],
    [none, undefined],
  ])('an owner: %j', async (answer, owner) => {
    server.answers = { '/users/7': { ...answer, unlike: true } }
    expect(await pipedrive.owner(access(), '7')).toEqual(owner)
    expect(callsMade()).toEqual(['GET /api/v1/users/7'])
  })

  test('an owner, without the scope', async () => {
    server.answers = { '/users/7': refused(403, 'Scope and URL mismatch') }
    await expect(pipedrive.owner(access(), '7')).rejects.toMatchObject({ kind: 'refused' })
  })

  const listed = (query: string) =>
    `GET /api/v2/deals?updated_since=2026-03-01T11:00:00Z&sort_by=update_time&sort_direction=asc&limit=200${query}`
  const since = new Date('2026-03-01T11:00:00.900Z')

  test('changed deals, with what a list says of their stage', async () => {
    const clock = 'Sun, 01 Mar 2026 13:00:00 GMT'
    const list = [
      { ...deal, id: 4, stage_change_time: null, add_time: '2026-03-01T11:30:00Z' },
      { ...deal, id: 5, is_deleted: true },
      { ...deal, id: 6, ...won, stage_change_time: '2026-02-15T12:00:00Z' },
      deal,
    ]
    server.answers = { '/deals': { ...found(list, null), headers: { Date: clock } } }
    const { deals, ...changed } = await pipedrive.changedDeals(access(), since)
    expect(changed).toEqual({
      ids: ['4', '6', '1'],
      ...{ at: new Date(clock), until: new Date(deal.update_time), complete: true },
    })
    const before = { value: '', at: createdAt }
    const changedAt = new Date(deal.update_time)
    expect([...(deals ?? [])].map(([id, { history }]) => [id, history])).toEqual([
      ['4', [{ value: '2', at: new Date('2026-03-01T11:30:00Z') }]],
      ['6', [before, { value: 'won:1', at: changedAt }]],
      ['1', [before, { value: '2', at: changedAt }]],
    ])
    expect(callsMade()).toEqual([listed('')])
  })

  test('changed deals, by pages while one second fills them', async () => {
    const same = { ...deal, update_time: '2026-03-01T11:00:00Z' }
    server.answers = {
      '/deals': [found([same], 'b'), found([{ ...same, id: 2 }, deal], 'c'), found([], null)],
    }
    const changed = await pipedrive.changedDeals(access(), since)
    expect(changed).toMatchObject({ ids: ['1', '2'], complete: false })
    expect(changed.until).toEqual(new Date(deal.update_time))
    expect(callsMade()).toEqual([listed(''), listed('&cursor=b')])
    server.answers = { '/deals': { ...found(null), unlike: true } }
    expect(await pipedrive.changedDeals(access(), since)).toMatchObject({
      ids: [],
      until: since,
      complete: true,
    })
  })

  test('the name of the account, which must be a domain', async () => {
    server.answers = { '/users/me': found(me) }
    expect(await pipedrive.names(access())).toEqual({ accountName: 'acme.pipedrive.com' })
    server.answers = { '/users/me': found({ ...me, company_domain: 'evil.example/' }) }
    const nonsense = { kind: 'nonsense', field: 'data.company_domain' }
    await expect(pipedrive.names(access())).rejects.toMatchObject(nonsense)
  })

  test.each([
    ['acme.pipedrive.com', 'https://acme.pipedrive.com/deal/9'],
    [null, 'https://app.pipedrive.com/deal/9'],
  ])('the page of a deal of %s that was not read', (accountName, url) => {
    expect(pipedrive.dealUrl({ accountId: '5', accountName }, '9')).toBe(url)
  })
})

describe('an answer of Pipedrive', () => {
  const readOne = () => pipedrive.deal(access(), '1', withHistory)

  test.each<[string, Answer]>([
    ['does not exist', none],
    ['is gone', refused(410, 'Gone')],
    ['was deleted', found({ ...deal, is_deleted: true })],
    ['has the status `deleted`', found({ ...deal, status: 'deleted' })],
  ])('says that a deal %s', async (_, answer) => {
    server.answers = { '/deals/1': answer }
    expect(await readOne()).toBeUndefined()
    expect(callsMade()).toHaveLength(1)
  })

  test.each([refused(403, 'Forbidden'), refused(403, 'Scope and URL mismatch'), none])(
    'to a call for a changelog that is refused leaves the last change (%#)',
    async (answer) => {
      server.answers = { '/deals/1': found(deal), '/changelog': answer }
      expect((await readOne())?.history).toHaveLength(2)
    },
  )

  test('says that a deal is hidden, unless the user may read no list either', async () => {
    const forbidden = refused(403, 'Forbidden')
    server.answers = { '/deals/1': forbidden, '/deals/2': forbidden, '/deals': forbidden }
    const broken = { kind: 'refused', reason: 'forbidden' }
    await expect(readOne()).rejects.toMatchObject(broken)
    expect(pipedrive.brokenReasons).toHaveProperty('forbidden')
    // What is not known is neither.
    server.answers['/deals'] = { ...page, status: 503 }
    await expect(readOne()).rejects.toMatchObject({ reason: 'status_503' })
    server.answers['/deals'] = found([])
    server.calls = []
    const user = { ...access(), sharedBy: '5/a' }
    expect(await pipedrive.deals(user, ['1', '2'], undefined)).toEqual(new Map())
    expect(await pipedrive.deal(user, '1', withHistory)).toBeUndefined()
    // A list costs as much as ten deals.
    expect(callsMade().filter((call) => call.startsWith('GET /api/v2/deals?'))).toHaveLength(1)
    server.answers['/deals'] = forbidden
    await expect(
      pipedrive.deal({ ...user, sharedBy: '5/b' }, '1', withHistory),
    ).rejects.toMatchObject(broken)
  })

  test.each<[Answer, kind: string, reason: string | undefined]>([
    [refused(401, 'unauthorized access'), 'unauthorized', 'unauthorized_access'],
    [refused(403, 'Scope and URL mismatch'), 'refused', 'scope_and_url_mismatch'],
    [refused(402, 'Company is closed'), 'refused', 'payment_required'],
    [{ ...page, status: 402 }, 'unreachable', 'status_402'],
    [refused(500, 'x'), 'unreachable', 'x'],
    [{ ...page, status: 404 }, 'unreachable', 'status_404'],
    [{ ...page, status: 403 }, 'unreachable', 'status_403'],
    [{ status: 404 }, 'unreachable', 'status_404'],
    [{ status: 404, body: { success: true } }, 'unreachable', 'status_404'],
    [{ ...page, status: 503 }, 'unreachable', 'status_503'],
    [{ ...page, unlike: true }, 'nonsense', undefined],
    [{ body: '', unlike: true }, 'nonsense', undefined],
    [{ ...found({ ...deal, id: 'x' }), unlike: true }, 'nonsense', undefined],
    [{ body: ' '.repeat(5_000_001), unlike: true }, 'nonsense', 'answer_too_large'],
    [{ status: 302, headers: { Location: '/inner' } }, 'unreachable', undefined],
  ])('is an error (%#)', async (answer, kind, reason) => {
    server.answers = { '/deals/1': answer }
    await expect(readOne()).rejects.toMatchObject({ kind, reason })
    expect(callsMade()).toHaveLength(1)
  })

  test.each([
    ['7', 7_000],
    [undefined, 2_000],
  ])('asks for a wait with Retry-After %s', async (value, retryAfterMs) => {
    const over = refused(429, 'request over limit')
    server.answers = {
      '/deals/1': { ...over, ...(value && { headers: { 'Retry-After': value } }) },
    }
    const error = await readOne().catch((error) => error)
    expect(error).toMatchObject({ kind: 'unreachable', reason: 'rate_limited' })
    expect(error.retryAfterMs).toBeGreaterThan(retryAfterMs - 500)
    expect(error.retryAfterMs).toBeLessThanOrEqual(retryAfterMs)
    // Until then the company gets no call. Others do.
    server.answers['/pipelines'] = found([])
    server.answers['/stages'] = found([])
    if (retryAfterMs > 2_000) {
      await expect(pipedrive.stages(access())).rejects.toMatchObject({ reason: 'rate_limited' })
      expect(callsMade()).toHaveLength(1)
    }
    expect(await pipedrive.stages({ ...access(), accountId: '6' })).toEqual([])
  })

  test('that stalls ends after the timeout', async () => {
    pipedrive = create(shortTimeouts)
    server.answers = { '/oauth/token': { stalls: true, status: 400 }, '/deals/1': { stalls: true } }
    for (const call of [refresh, readOne]) {
      await expect(call()).rejects.toMatchObject({ kind: 'unreachable' })
    }
  })
})

test('each call counts what it costs, and needs a scope, as Pipedrive describes', async () => {
  const hook = { id: 3, user_id: 7, name: 'Dealbell', is_active: 0 }
  server.answers = {
    '/users/me': found(me),
    '/users/7': found({ id: 7, name: 'Ada' }),
    'GET /api/v1/webhooks': found([hook]),
    'POST /api/v1/webhooks': { status: 201, body: { success: true, data: hook } },
    'DELETE /api/v1/webhooks/3': { body: { success: true } },
    '/deals/1': found(deal),
    '/deals': found([deal]),
    '/changelog': found([]),
    '/stages': found([]),
    '/pipelines': found([]),
  }
  await pipedrive.webhooks?.find(access(), { grantId: '5:7', webhookId: '3' })
  await pipedrive.webhooks?.make(access())
  await pipedrive.names(access())
  await pipedrive.owner(access(), '7')
  await pipedrive.deal(access(), '1', withHistory)
  await pipedrive.changedDeals(access(), new Date(0))
  await pipedrive.stages(access())
  const made = server.calls.map(({ call }) => Object(describedCall(call)))
  expect(spent).toEqual(made.map(({ tokens }) => tokens))
  expect(new Set(made.map(({ name }) => name)).size).toBe(Object.keys(calls).length)
  for (const [name, { scope }] of Object.entries(calls)) {
    // The description still names the scope for webhooks of before January 2024.
    if (scope === 'webhooks:full') continue
    const scopes = made.filter(({ tokens }) => tokens === calls[name as keyof typeof calls].tokens)
    expect(scopes.flatMap(({ scopes }) => scopes)).toContain(scope)
  }
})
