import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { createHubspot } from '../../server/providers/hubspot/hubspot.ts'
import type { Crm } from '../../server/providers/provider.ts'
import { type Answer, openProvider, page, shortTimeouts } from './open-provider.ts'

// What HubSpot's documents of 2026-03 say about calls and answers.
let server: Awaited<ReturnType<typeof openProvider>>
let hubspot: Crm

beforeAll(async () => {
  const body = { status: 'error', category: 'OBJECT_NOT_FOUND' }
  server = await openProvider({ status: 404, body })
})
beforeEach(() => {
  server.answers = {}
  server.calls = []
  hubspot = createHubspot(settings())
})
afterAll(() => server.close())

const settings = () => ({
  clientId: 'id',
  clientSecret: 'secret',
  apiUrl: server.url,
  authorizeUrl: 'https://app.hubspot.com/oauth/authorize',
  inUse: true,
  standIn: false,
})

const access = { accountId: '1', accessToken: 'a', urgency: 'fresh' } as const
const time = '2026-03-01T12:00:00.000Z'
const completed = { status: 'COMPLETE', startedAt: time, completedAt: time }
const withHistory = { history: 'stage', links: false } as const
const withLinks = { history: 'stage', links: true } as const
const exchange = () => hubspot.exchange({ code: 'c', redirectUri: 'r', codeVerifier: 'v' })

/** The only call, without the headers that each call to the CRM must have. */
function onlyCall() {
  expect(server.calls).toHaveLength(1)
  const { call = '', headers, body = '' } = server.calls[0] ?? {}
  // By itself, ky asks for text/*.
  expect(headers).toMatchObject({ accept: 'application/json', authorization: 'Bearer a' })
  return { call, body: body === '' ? undefined : JSON.parse(body) }
}

describe('HubSpot is called for', () => {
  const deal = {
    id: '1',
    properties: {
      ...{ dealname: 'A', amount: '5', deal_currency_code: 'EUR' },
      ...{ hubspot_owner_id: '7', closedate: time },
    },
    propertiesWithHistory: {
      dealstage: [
        { value: 'b', timestamp: time, sourceType: 'CRM_UI' },
        { value: 'a', timestamp: '2026-02-01T12:00:00Z', sourceType: 'CRM_UI' },
        { value: null, timestamp: '2026-01-01T12:00:00Z', sourceType: 'CRM_UI' },
      ],
    },
    createdAt: time,
    updatedAt: time,
    archived: false,
  }
  const usualUrl = 'https://app.hubspot.com/contacts/1/record/0-3/1'
  const read = {
    id: '1',
    url: usualUrl,
    name: 'A',
    amount: '5',
    currency: 'EUR',
    ownerId: '7',
    closeDate: new Date(time),
    linked: undefined,
    history: [
      { value: '', at: new Date('2026-01-01T12:00:00Z') },
      { value: 'a', at: new Date('2026-02-01T12:00:00Z') },
      { value: 'b', at: new Date(time) },
    ],
  }

  const named = 'https://app-na2.hubspot.com/contacts/1/record/0-3/1'
  test.each([
    [named, named],
    ['https://app-eu1.hubspot.com/deal?a=b|c', 'https://app-eu1.hubspot.com/deal?a=b%7Cc'],
    ['http://app-na2.hubspot.com/contacts/1/record/0-3/1', usualUrl],
    ['https://app-na2.hubspot.com.evil.example/', usualUrl],
    ['https://app.hubspot.com@evil.example/', usualUrl],
    ['https://app.hubspot.com:8443/', usualUrl],
    ['javascript:alert(1)', usualUrl],
    [`https://app.hubspot.com/${'a'.repeat(2_000)}`, usualUrl],
  ])('the page of a deal, whose address must be HubSpot’s (%#)', async (url, shown) => {
    server.answers = { '/0-3/1': { body: { ...deal, url } } }
    expect((await hubspot.deal(access, '1', withHistory))?.url).toBe(shown)
  })

  const properties = 'dealname,amount,deal_currency_code,hubspot_owner_id,closedate'.split(',')

  test('one deal', async () => {
    const contacts = { results: [{ id: '9', type: 'deal_to_contact' }] }
    server.answers = { '/0-3/1': { body: { ...deal, associations: { contacts } } } }
    expect(await hubspot.deal(access, '1', withLinks)).toEqual({ ...read, linked: true })
    expect(onlyCall().call).toBe(
      `GET /crm/objects/2026-03/0-3/1?properties=${properties}&propertiesWithHistory=dealstage&associations=contacts,companies`,
    )
  })

  test('one deal of which HubSpot leaves out what has no value', async () => {
    const empty = { id: '1', properties: { dealname: null }, associations: null }
    const nothing = { name: null, amount: null, currency: null, ownerId: null }
    server.answers = {
      '/0-3/1': { body: { ...empty, propertiesWithHistory: { dealstage: null } } },
    }
    const expected = { id: '1', url: usualUrl, ...nothing, linked: false, history: [] }
    expect(await hubspot.deal(access, '1', withLinks)).toEqual(expected)
  })

  test('the currency of the account, once in some hours, for amounts without one', async () => {
    const currency = async (amount: string | null, code: string | null = null) => {
      const properties = { amount, deal_currency_code: code }
      server.answers = { ...server.answers, '/0-3/1': { body: { ...deal, properties } } }
      return (await hubspot.deal(access, '1', withHistory))?.currency
    }
    const accountReads = () =>
      server.calls.filter(({ call }) => call === 'GET /account-info/2026-03/details').length
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    expect(await currency('5', 'USD')).toBe('USD')
    expect(await currency(null)).toBeNull()
    expect(accountReads()).toBe(0)
    server.answers = { '/details': { body: { portalId: 1, companyCurrency: 'GBP' } } }
    for (let n = 0; n < 2; n++) expect(await currency('5')).toBe('GBP')
    expect(accountReads()).toBe(1)
    // After a failure, the last known one remains.
    vi.advanceTimersByTime(6 * 60 * 60_000)
    server.answers = { '/details': { status: 500 } }
    expect(await currency('5')).toBe('GBP')
    expect(accountReads()).toBe(2)
  })

  test('many deals, of which some do not exist', async () => {
    const missing = { status: 'error', category: 'OBJECT_NOT_FOUND', context: { ids: ['2'] } }
    const body = { ...completed, results: [deal], numErrors: 1, errors: [missing] }
    server.answers = { '/0-3/batch/read': { status: 207, body } }
    expect(await hubspot.deals(access, ['1', '2'], 'stage')).toEqual(new Map([['1', read]]))
    expect(onlyCall()).toEqual({
      call: 'POST /crm/objects/2026-03/0-3/batch/read',
      body: {
        inputs: [{ id: '1' }, { id: '2' }],
        properties,
        propertiesWithHistory: ['dealstage'],
      },
    })
  })

  test('many deals without a history: HubSpot requires the empty list', async () => {
    server.answers = { '/0-3/batch/read': { body: { ...completed, results: [] } } }
    await hubspot.deals(access, ['1'], undefined)
    expect(onlyCall().body).toMatchObject({ propertiesWithHistory: [] })
  })

  test('links: companies only of the deals without a contact', async () => {
    const none = { status: 'error', category: 'OBJECT_NOT_FOUND' }
    const linked = (id: string, toObjectId: string | number) => {
      const results = [{ from: { id }, to: [{ toObjectId }] }]
      return { status: 207, body: { ...completed, results, numErrors: 1, errors: [none] } }
    }
    server.answers = { '/0-1/batch/read': linked('1', '301'), '/0-2/batch/read': linked('2', 501) }
    expect(await hubspot.linked(access, ['1', '2', '3'])).toEqual(
      new Map([
        ['1', true],
        ['2', true],
        ['3', false],
      ]),
    )
    const path = 'POST /crm/associations/2026-03/0-3'
    expect(server.calls.map(({ call, body }) => [call, JSON.parse(body)])).toEqual([
      [`${path}/0-1/batch/read`, { inputs: [{ id: '1' }, { id: '2' }, { id: '3' }] }],
      [`${path}/0-2/batch/read`, { inputs: [{ id: '2' }, { id: '3' }] }],
    ])
  })

  test('stages: the documented `probability` alone decides if `isClosed` is missing', async () => {
    const outcomes: Array<[metadata: object, outcome: string]> = [
      [{ probability: '1.0' }, 'won'],
      [{ probability: '0.0' }, 'lost'],
      [{}, 'open'],
      [{ isClosed: 'true', probability: '1' }, 'won'],
      [{ isClosed: 'true', probability: '0.0' }, 'lost'],
      [{ isClosed: 'true', probability: '0.4' }, 'closed'],
      [{ isClosed: 'true' }, 'closed'],
      [{ isClosed: 'false', probability: '1.0' }, 'open'],
    ]
    const stages = outcomes.map(([metadata], n) => ({ id: `${n}`, label: `Stage ${n}`, metadata }))
    server.answers = { '/deals': { body: { results: [{ id: 'default', stages }] } } }
    expect(await hubspot.stages(access)).toEqual(
      outcomes.map(([, outcome], n) => ({ id: `${n}`, label: `Stage ${n}`, outcome })),
    )
    expect(onlyCall().call).toBe('GET /crm/pipelines/2026-03/deals')
    // The names of pipelines say something only if there are several. One may have none.
    const results = ['Sales', null].map((label) => ({ label, stages: stages.slice(0, 1) }))
    server.answers = { '/deals': { body: { results } } }
    const several = await hubspot.stages(access)
    expect(several.map(({ pipeline }) => pipeline)).toEqual(['Sales', undefined])
    // Without stages, each deal would count as open.
    server.answers = { '/deals': { body: { results: [{ stages: [{ id: '1' }] }] } } }
    const field = 'results.0.stages.0.label'
    await expect(hubspot.stages(access)).rejects.toThrow(`hubspot: read nonsense in ${field}`)
  })

  test('an owner, who may have left the company', async () => {
    const email = 'ada@acme.example'
    server.answers = { '/7': { body: { id: '7', firstName: 'Ada', lastName: '', email } } }
    expect(await hubspot.owner(access, '7')).toEqual({ name: 'Ada', email })
    expect(onlyCall().call).toBe('GET /crm/owners/2026-03/7')
    expect(await hubspot.owner(access, '8')).toBeUndefined()
    expect(server.calls.slice(1).map(({ call }) => call)).toEqual([
      'GET /crm/owners/2026-03/8',
      'GET /crm/owners/2026-03/8?archived=true',
    ])
  })

  test('changed deals, by searches that count apart', async () => {
    const found = { ...deal, properties: { hs_lastmodifieddate: time } }
    server.answers = { '/0-3/search': { body: { total: 1, results: [found] } } }
    const since = new Date('2026-03-01T11:00:00Z')
    const changed = { ids: ['1'], at: expect.any(Date), until: new Date(time), complete: true }
    expect(await hubspot.changedDeals(access, since)).toEqual(changed)
    const value = String(since.getTime())
    const filter = { propertyName: 'hs_lastmodifieddate', operator: 'GTE', value }
    expect(onlyCall()).toEqual({
      call: 'POST /crm/objects/2026-03/0-3/search',
      body: {
        filterGroups: [{ filters: [filter] }],
        sorts: ['hs_lastmodifieddate'],
        properties: ['hs_lastmodifieddate'],
        limit: 200,
        after: '0',
      },
    })
    // A refused search holds up no read of a deal, nor the reverse.
    server.answers = { '/0-3/search': { status: 429 }, '/0-3/1': { body: deal } }
    await expect(hubspot.changedDeals(access, since)).rejects.toMatchObject({
      retryAfterMs: 10_000,
    })
    expect(await hubspot.deal(access, '1', withHistory)).toEqual(read)
  })
})

test('a redirect into the network is not followed', async () => {
  const redirect = { status: 307, headers: { Location: `${server.url}/inner` } }
  server.answers = { '/token': redirect, '/deals': redirect, '/inner': { body: {} } }
  const unreachable = { kind: 'unreachable' }
  await expect(exchange()).rejects.toMatchObject(unreachable)
  await expect(hubspot.stages(access)).rejects.toMatchObject(unreachable)
  expect(server.calls.filter(({ call }) => call.includes('inner'))).toEqual([])
})

describe('to connect,', () => {
  const tokens = { access_token: 'a', refresh_token: 'r', expires_in: 1800, token_type: 'bearer' }

  test('an answer of another form is an error', async () => {
    server.answers = { '/token': { body: { ...tokens, access_token: 5 } } }
    const nonsense = { kind: 'nonsense', field: 'access_token' }
    await expect(exchange()).rejects.toMatchObject(nonsense)
    await expect(hubspot.refresh({ accessToken: 'a' })).rejects.toMatchObject(nonsense)
  })

  test('introspection names the account and the user, which the token answer need not', async () => {
    server.answers = {
      '/token': { body: { ...tokens, scopes: ['oauth', 'crm.objects.owners.read'] } },
      '/introspect': { body: { active: true, hub_id: 5, user_id: 6, hub_domain: 'acme.example' } },
    }
    expect(await exchange()).toMatchObject({
      accountId: '5',
      accountName: 'acme.example',
      accountUserId: '6',
      grantId: '5:6',
      secrets: { accessToken: 'a', refreshToken: 'r', mayReadOwners: true },
    })
    const made = server.calls.map(({ call, body }) => [
      call,
      Object.fromEntries(new URLSearchParams(body)),
    ])
    const client = { client_id: 'id', client_secret: 'secret' }
    const code = { code: 'c', redirect_uri: 'r', code_verifier: 'v' }
    expect(made).toEqual([
      ['POST /oauth/2026-03/token', { ...client, grant_type: 'authorization_code', ...code }],
      [
        'POST /oauth/2026-03/token/introspect',
        { ...client, token: 'a', token_type_hint: 'access_token' },
      ],
    ])
  })

  test('the page asks for owners as an option, and writes a space as %20', () => {
    const url = hubspot.authorizeUrl({ redirectUri: 'r', state: 's', codeVerifier: 'v' })
    expect(url).toContain(
      'scope=oauth%20crm.objects.deals.read%20crm.objects.contacts.read%20crm.objects.companies.read%20crm.schemas.deals.read&optional_scope=crm.objects.owners.read&',
    )
  })
})

describe('HubSpot asks for a wait by', () => {
  test.each([
    [429, '7', 7_000, 'rate_limited'],
    [429, '1e300', 3_600_000, 'rate_limited'],
    [477, '86400', 3_600_000, 'account_is_moving'],
    [423, undefined, 2_000, 'locked'],
  ])('%i with Retry-After %s', async (status, value, retryAfterMs, reason) => {
    const wait: Answer = { status, ...(value && { headers: { 'Retry-After': value } }) }
    server.answers = { '/1': wait, '/token': wait, '/deals': { body: { results: [] } } }
    const failure = { kind: 'unreachable', reason, retryAfterMs }
    const secrets = { accessToken: 'a', refreshToken: 'r' }
    await expect(hubspot.refresh(secrets)).rejects.toMatchObject(failure)
    await expect(hubspot.deal(access, '1', withLinks)).rejects.toMatchObject(failure)
    // Until then the account gets no call. Others do.
    server.calls = []
    if (retryAfterMs > 2_000) {
      await expect(hubspot.stages(access)).rejects.toMatchObject({ reason: 'rate_limited' })
    }
    expect(await hubspot.stages({ ...access, accountId: '2' })).toEqual([])
    expect(server.calls).toHaveLength(1)
  })
})

describe('what HubSpot does not say itself may pass:', () => {
  const refresh = () => hubspot.refresh({ accessToken: 'a', refreshToken: 'r' })
  const read = () => hubspot.deal(access, '1', withLinks)
  const readBatch = () => hubspot.deals(access, ['1'], 'stage')
  const readLinks = () => hubspot.linked(access, ['1'])

  test('a deal is missing from a batch only if HubSpot says that it does not exist', async () => {
    const errors = [{ category: 'INTERNAL_ERROR' }]
    server.answers = { '/read': { status: 207, body: { results: [], errors } } }
    const incomplete = { kind: 'unreachable', reason: 'batch_incomplete' }
    await expect(readBatch()).rejects.toMatchObject(incomplete)
    await expect(readLinks()).rejects.toMatchObject(incomplete)
  })

  test.each([
    { ...page, status: 404 },
    { status: 404, body: { status: 'error' } },
  ])('nothing is missing after a 404 without a word of its own: %j', async (answer) => {
    server.answers = { '/1': answer, '/read': answer, '/search': answer, '/deals': answer }
    const search = () => hubspot.changedDeals(access, new Date())
    for (const call of [read, readBatch, readLinks, search, () => hubspot.stages(access)]) {
      const failure = { kind: 'unreachable', reason: 'status_404' }
      await expect(call()).rejects.toMatchObject(failure)
    }
  })

  test.each([
    { error: 'invalid_grant' },
    // The account was deleted.
    { error: 'access_denied', status: 'BAD_HUB' },
  ])('a refresh is refused by a word on the token: %j', async (body) => {
    server.answers = { '/token': { status: 400, body } }
    await expect(refresh()).rejects.toMatchObject({ kind: 'refused' })
  })

  test.each<[Answer, string]>([
    [{ status: 408 }, 'status_408'],
    [{ ...page, status: 403 }, 'status_403'],
    [{ status: 401, body: { status: 'BAD_CLIENT_ID' } }, 'BAD_CLIENT_ID'],
    [{ status: 500, body: { status: 'BAD_REFRESH_TOKEN' } }, 'BAD_REFRESH_TOKEN'],
  ])('a refresh is not refused by %j', async (answer, reason) => {
    server.answers = { '/token': answer }
    await expect(refresh()).rejects.toMatchObject({ kind: 'unreachable', reason })
  })

  test.each<[string, Answer]>([
    ['refused', { status: 403, body: { category: 'USER_DOES_NOT_HAVE_PERMISSIONS' } }],
    ['unreachable', { ...page, status: 403 }],
  ])('a read is %s by %j', async (kind, answer) => {
    server.answers = { '/1': answer }
    await expect(read()).rejects.toMatchObject({ kind })
  })

  test('a call with late headers and a body that stalls ends', async () => {
    hubspot = createHubspot(settings(), shortTimeouts)
    server.answers = {
      '/token': { stalls: true, status: 400 },
      '/1': { stalls: true, status: 401 },
      '/deals': { stalls: true },
    }
    const calls = [refresh, read, () => hubspot.stages(access)]
    const outcomes = await Promise.all(calls.map((call) => call().catch((error) => error)))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ kind: 'unreachable' })
  })
})
