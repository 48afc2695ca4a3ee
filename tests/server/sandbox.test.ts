import { createHash } from 'node:crypto'
import type { Hono } from 'hono'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'
import { lookBackMs } from '../../server/relay/search/search.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { standInHub } from '../../stand-ins/hubspot/account.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { StandInTokens } from '../../stand-ins/tokens.ts'
import { appUrl, shareHarness } from './harness.ts'

const harness = await shareHarness()

const scope =
  'oauth crm.objects.deals.read crm.objects.contacts.read crm.objects.companies.read crm.schemas.deals.read'
const verifier = 'v'.repeat(43)

const consentPaths = { hubspot: '/hubspot/oauth/authorize', slack: '/slack/oauth/v2/authorize' }
const tokenPaths = { hubspot: '/hubspot/oauth/2026-03/token', slack: '/slack/api/oauth.v2.access' }

type Provider = keyof typeof tokenPaths
type Fields = Record<string, string>

/** What a request for consent says. */
const consentFields = (provider: Provider, changes: Fields): Fields => ({
  client_id: appOf(provider).client_id,
  redirect_uri: `${appUrl}/${provider}/callback`,
  scope: provider === 'hubspot' ? scope : 'incoming-webhook,chat:write,channels:read',
  state: 'the-state',
  ...(provider === 'hubspot' && {
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }),
  ...changes,
})

/** What proves to a provider that the server is the app. */
const appOf = (provider: Provider) => ({
  client_id: harness.addresses.providers[provider].clientId,
  client_secret: harness.addresses.providers[provider].clientSecret,
})

const request = async (path: string, init: RequestInit = {}) =>
  await harness.app.request(`/sandbox${path}`, init)
const pageAt = async (path: string) => (await request(path)).text()
const submit = (path: string, form: Fields, headers: Fields = {}) =>
  request(path, { method: 'POST', body: new URLSearchParams(form), headers })
const bearer = (token: unknown) => ({ Authorization: `Bearer ${token}` })

async function post(path: string, form: Fields, headers: Fields = {}) {
  const answer = await submit(path, form, headers)
  const text = await answer.text()
  return { status: answer.status, body: JSON.parse(text || '{}') }
}

const consentPage = (provider: Provider, changes: Fields = {}) =>
  request(`${consentPaths[provider]}?${new URLSearchParams(consentFields(provider, changes))}`)

async function answerConsent(provider: Provider, changes: Fields = {}) {
  const form = consentFields(provider, { answer: 'allow', channel: 'C0DEALS001', ...changes })
  const answer = await submit(consentPaths[provider], form)
  return { status: answer.status, back: answer.headers.get('Location') }
}

async function codeFrom(provider: Provider, changes: Fields = {}): Promise<string> {
  const { back } = await answerConsent(provider, changes)
  return new URL(back ?? '').searchParams.get('code') ?? ''
}

describe.each([
  ['hubspot', 'error=access_denied&error_description=The+user+denied+the+request.'],
  ['slack', 'error=access_denied'],
] as const)('the consent page of the stand-in %s', (provider, denied) => {
  test('says that it is a stand-in, and writes what it is given as text', async () => {
    for (const name of ['client_id', 'redirect_uri', 'scope', 'state']) {
      const hostile = { [name]: '"><script>alert(1)</script><img src=x onerror=x>' }
      const shown = await (await consentPage(provider, hostile)).text()
      expect(shown, name).toMatch(/Stand-in\.[\s\S]*This is not (HubSpot|Slack)/)
      expect(shown, name).not.toMatch(/<(script|img|style)|style=|onclick/)
    }
    const page = await (await consentPage(provider)).text()
    expect(page.match(/<nav[\s\S]*<\/nav>/)?.[0].replaceAll(/<[^>]+>|\s/g, '')).toBe(
      'Dealbell·Deals·Slack',
    )
    expect((await request(`/${provider}/icon.svg`)).headers.get('Content-Type')).toBe(
      'image/svg+xml',
    )
  })

  test.each<Fields>([
    { client_id: 'another' },
    { redirect_uri: 'https://evil.example/callback' },
    { redirect_uri: `${appUrl}/${provider}/callback/` },
    { redirect_uri: `${appUrl}.evil.example/${provider}/callback` },
    { scope: '' },
    // The app of HubSpot declares its scopes.
    ...(provider === 'hubspot'
      ? [
          { scope: scope.replace('oauth ', '') },
          { scope: `${scope} crm.objects.owners.read` },
          { optional_scope: 'crm.objects.owners.read crm.lists.read' },
        ]
      : [{ scope: 'incoming-webhook,users:read.email' }]),
  ])('refuses to redirect for %j', async (changes) => {
    expect((await consentPage(provider, changes)).status).toBe(400)
    expect(await answerConsent(provider, changes)).toEqual({ status: 400, back: null })
  })

  test('leads back with an error and the state if a person denies', async () => {
    const back = `${appUrl}/${provider}/callback?${denied}&state=the-state`
    expect(await answerConsent(provider, { answer: 'deny' })).toEqual({ status: 303, back })
  })
})

const exchange = (provider: Provider, code: string, changes: Fields = {}) =>
  post(tokenPaths[provider], {
    ...appOf(provider),
    code,
    redirect_uri: `${appUrl}/${provider}/callback`,
    ...(provider === 'hubspot' && { grant_type: 'authorization_code', code_verifier: verifier }),
    ...changes,
  })
const refusalOf = (provider: Provider, error: string) =>
  provider === 'hubspot'
    ? { status: 400, body: { status: error, category: 'VALIDATION_ERROR' } }
    : { status: 200, body: { ok: false, error } }

describe('for a code, a stand-in gives tokens', () => {
  test.each([
    ['hubspot', 'BAD_AUTH_CODE'],
    ['slack', 'invalid_code'],
  ] as const)('%s once, and within five minutes', async (provider, error) => {
    const [code, late] = [await codeFrom(provider), await codeFrom(provider)]
    const { status, body } = await exchange(provider, code)
    expect([status, typeof body.access_token]).toEqual([200, 'string'])
    expect(await exchange(provider, code)).toMatchObject(refusalOf(provider, error))
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5 * 60 * 1000 + 1 })
    expect(await exchange(provider, late)).toMatchObject(refusalOf(provider, error))
    vi.useRealTimers()
  })

  test.each<[Provider, Fields, string]>([
    ['hubspot', { client_id: 'another' }, 'BAD_CLIENT_ID'],
    ['hubspot', { client_secret: 'wrong' }, 'BAD_CLIENT_SECRET'],
    ['hubspot', { redirect_uri: `${appUrl}/slack/callback` }, 'BAD_REDIRECT_URI'],
    ['hubspot', { code_verifier: 'w'.repeat(43) }, 'BAD_CODE_VERIFIER'],
    ['hubspot', { code_verifier: '' }, 'BAD_CODE_VERIFIER'],
    ['hubspot', { grant_type: 'password' }, 'BAD_GRANT_TYPE'],
    ['slack', { client_id: 'another' }, 'invalid_client_id'],
    ['slack', { client_secret: 'wrong' }, 'bad_client_secret'],
    ['slack', { redirect_uri: `${appUrl}/hubspot/callback` }, 'bad_redirect_uri'],
  ])('but not %s with %j', async (provider, changes, error) => {
    const answer = await exchange(provider, await codeFrom(provider), changes)
    expect(answer).toMatchObject(refusalOf(provider, error))
  })
})

describe('the stand-in HubSpot’s tokens', () => {
  const ask = async (path: string, token: unknown) =>
    (await post(tokenPaths.hubspot + path, { ...appOf('hubspot'), token: String(token) })).body
  const refresh = async (token: unknown) => {
    const form = { grant_type: 'refresh_token', refresh_token: String(token) }
    return (await post(tokenPaths.hubspot, { ...appOf('hubspot'), ...form })).body
  }
  const granted = async () => (await exchange('hubspot', await codeFrom('hubspot'))).body
  const ended = { error: 'invalid_grant', status: 'BAD_REFRESH_TOKEN' }

  test('are refreshed, and the refresh token can be revoked', async () => {
    const { access_token, refresh_token } = await granted()
    const refreshed = await refresh(refresh_token)
    expect(refreshed.access_token).not.toBe(access_token)
    expect(refreshed.refresh_token).toBe(refresh_token)
    // HubSpot revokes only refresh tokens. An access token lives on.
    await ask('/revoke', refresh_token)
    expect(await ask('/introspect', refresh_token)).toEqual({ active: false })
    const { hubId, userId, domain } = standInHub
    const known = { active: true, hub_id: hubId, user_id: userId, hub_domain: domain }
    const introspected = await ask('/introspect', refreshed.access_token)
    expect(introspected).toMatchObject({ ...known, scopes: scope.split(' ') })
    expect(await refresh(refresh_token)).toMatchObject(ended)
  })

  test('end for all users of the account when the app is uninstalled, and new ones are valid', async () => {
    const path = '/hubspot/appinstalls/2026-03/external-install'
    const uninstall = async (token: unknown) =>
      (await request(path, { method: 'DELETE', headers: bearer(token) })).status
    const [own, colleague] = [await granted(), await granted()]
    expect(await uninstall(own.access_token)).toBe(204)
    expect(await uninstall(colleague.access_token)).toBe(401)
    expect(await refresh(colleague.refresh_token)).toMatchObject(ended)
    expect(await uninstall((await granted()).access_token)).toBe(204)
  })
})

describe('the stand-in HubSpot’s API', () => {
  const addresses = parseEnv({}).addressesAt(1)
  const { clientSecret } = addresses.providers.hubspot
  // One for each test, because calls are limited and deals change.
  let sandbox: Hono
  beforeEach(() => {
    sandbox = createSandbox(addresses)
  })
  const tokens = new StandInTokens('hubspot-stand-in-', clientSecret)
  const token = (
    scopes = [...scope.split(' '), 'crm.objects.owners.read'],
    endsAt = Date.now() + 1e9,
  ) => tokens.issue({ grant: 'g', use: 'access', endsAt, scopes })
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  const uuid = expect.stringMatching(/^[\da-f-]{36}$/)

  const objects = '/crm/objects/2026-03/0-3'
  const contactsOf = '/crm/associations/2026-03/0-3/0-1/batch/read'
  async function call(path: string, json?: object, accessToken = token()) {
    const answer = await sandbox.request(`/hubspot${path}`, {
      headers: { ...bearer(accessToken), 'Content-Type': 'application/json' },
      ...(json && { method: 'POST', body: JSON.stringify(json) }),
    })
    return { status: answer.status, headers: answer.headers, body: await answer.json() }
  }
  /** A person changes something on the page. */
  const change = async (path: string, form: Fields) => {
    const body = new URLSearchParams(form)
    expect((await sandbox.request(`/hubspot${path}`, { method: 'POST', body })).status).toBe(303)
  }

  const always = { createdate: time, hs_lastmodifieddate: time, hs_object_id: '9001' }
  const url = `${addresses.appUrl}/sandbox/hubspot/eu1/contacts/4200001/record/0-3/9001`

  test('answers with a deal as its specification says, with what was asked for and no more', async () => {
    const asked = 'properties=dealname,unknown&propertiesWithHistory=dealstage'
    const { body } = await call(`${objects}/9001?${asked}&associations=contacts,companies`)
    const entry = (value: string) =>
      expect.objectContaining({ value, timestamp: time, sourceType: 'CRM_UI' })
    expect(body).toEqual({
      id: '9001',
      properties: { ...always, dealname: 'Acme renewal', dealstage: 'contractsent' },
      // The newest first.
      propertiesWithHistory: {
        dealstage: [
          ...[entry('contractsent'), entry('presentationscheduled')],
          ...[entry('qualifiedtobuy'), entry('appointmentscheduled')],
        ],
      },
      associations: {
        contacts: { results: [{ id: '301', type: 'deal_to_contact' }] },
        companies: { results: [{ id: '501', type: 'deal_to_company' }] },
      },
      createdAt: time,
      updatedAt: time,
      archived: false,
      url,
    })
    const { associations, propertiesWithHistory, ...rest } = body
    const properties = { ...always, amount: '12500' }
    const other = await call(`${objects}/9001?properties=amount`)
    expect(other.body).toEqual({ ...rest, properties })
  })

  const batch = `${objects}/batch/read`
  const fields = { properties: ['dealname'], propertiesWithHistory: ['dealstage'] }
  const inputs = (...ids: number[]) => ({ inputs: ids.map((id) => ({ id: String(id) })) })
  const many = inputs(...Array(51).keys())
  const someMissing = {
    results: [{ id: '9001', properties: { dealname: 'Acme renewal' } }],
    errors: [{ category: 'OBJECT_NOT_FOUND', context: { ids: ['1', '2'] } }],
  }
  const noLinks = 'crm.associations.NO_ASSOCIATIONS_FOUND'
  const someUnlinked = {
    results: [{ from: { id: '9001' }, to: [{ toObjectId: '301' }] }],
    errors: [{ subCategory: noLinks, context: { fromObjectId: ['9004'] } }],
  }
  const partly = { status: 'COMPLETE', numErrors: 1 }
  const notFound = { status: 'error', category: 'OBJECT_NOT_FOUND', correlationId: uuid }
  const invalid = { category: 'VALIDATION_ERROR' }
  const empty = { properties: { amount: null, hubspot_owner_id: null } }
  const emptyDeal = `${objects}/9004?properties=amount,hubspot_owner_id&propertiesWithHistory=amount`
  const someDeals = { ...fields, ...inputs(1, 9001, 2) }
  const ofOwner = '/crm/owners/2026-03'
  const ofAccount = '/account-info/2026-03/details'
  test.each<[what: string, path: string, status: number, body: object, json?: object]>([
    ['what has no value', emptyDeal, 200, { ...empty, propertiesWithHistory: { amount: null } }],
    ['a deal that does not exist', `${objects}/1`, 404, { ...notFound, context: { id: ['1'] } }],
    ['deals of which some do not exist', batch, 207, { ...partly, ...someMissing }, someDeals],
    ['a batch without a field that is required', batch, 400, invalid, inputs(9001)],
    ['too many deals with their history', batch, 400, invalid, { ...fields, ...many }],
    ['links', contactsOf, 207, { ...partly, ...someUnlinked }, inputs(9001, 9004)],
    ['an owner', `${ofOwner}/4001`, 200, { id: '4001', firstName: 'Alex', archived: false }],
    ['an archived owner, if not asked for as such', `${ofOwner}/4002`, 404, notFound],
    ['an archived owner', `${ofOwner}/4002?archived=true`, 200, { archived: true }],
    ['the account', ofAccount, 200, { portalId: standInHub.hubId, companyCurrency: 'EUR' }],
  ])('answers about %s as HubSpot does', async (_, path, status, body, json) => {
    expect(await call(path, json)).toMatchObject({ status, body })
  })

  const search = (limit: number, since = 0) => {
    const filter = { propertyName: 'hs_lastmodifieddate', operator: 'GTE', value: String(since) }
    const filterGroups = [{ filters: [filter] }]
    const sorts = ['hs_lastmodifieddate']
    return call(`${objects}/search`, { filterGroups, sorts, properties: [], limit, after: '0' })
  }

  test('finds changed deals, but a change only after some seconds', async () => {
    const found = await search(1, Date.now() - 6 * 86_400_000)
    const oldest = { id: '9002', properties: { hs_object_id: '9002' } }
    const page = { total: 4, paging: { next: { after: '1' } }, results: [oldest] }
    expect(found.body).toMatchObject(page)
    // Answers to a search have no such headers.
    expect(found.headers.has('X-HubSpot-RateLimit-Max')).toBe(false)
    // A restart repeats the first moves for users who have been connected for weeks. The relay sends nothing about them.
    expect((await search(1, Date.now() - lookBackMs)).body.total).toBe(0)

    vi.useFakeTimers({ toFake: ['Date'] })
    const changed = async () => {
      const { body } = await search(200, Date.now() - 60_000)
      return body.results.map(({ id }: { id: string }) => id)
    }
    await change('/deals/9001', { change: 'stage', stage: 'closedwon' })
    await change('/deals', { name: 'Hooli', stage: 'closedwon' })
    expect(await changed()).toEqual([])
    vi.setSystemTime(Date.now() + 2_000)
    expect(await changed()).toEqual(['9001', '9005'])
    vi.useRealTimers()
  })

  test('has a second pipeline, of which only the metadata say what a stage means', async () => {
    await change('/deals/9003', { change: 'stage', stage: '1200103' })
    const moved = await call(`${objects}/9003?properties=dealstage,pipeline`)
    expect(moved.body.properties).toMatchObject({ dealstage: '1200103', pipeline: '81200001' })
    const { body } = await call('/crm/pipelines/2026-03/deals')
    const metadata = { isClosed: 'true', probability: '1.0' }
    const stages = [{}, {}, { id: '1200103', label: 'Renewed', metadata }]
    expect(body.results).toMatchObject([{ id: 'default' }, { id: '81200001', stages }])
  })

  test('has pages of deals that a client finds only by their url', async () => {
    const page = await sandbox.request(new URL(url).pathname.replace('/sandbox', ''))
    expect(page.headers.get('Location')).toBe('/sandbox/hubspot/deals#deal-9001')
    const composed = '/hubspot/contacts/4200001/record/0-3/9001'
    expect((await sandbox.request(composed)).status).toBe(404)
  })

  test('answers for merged deals with the deal that they became, which alone has the links', async () => {
    await change('/deals/merge', { deal: '9002', into: '9001' })
    await change('/deals/merge', { deal: '9005', into: '9003' })
    // Neither a deal with itself nor one that is gone can be merged.
    await change('/deals/merge', { deal: '9006', into: '9006' })
    await change('/deals/merge', { deal: '9001', into: '9006' })

    const query =
      'properties=dealname,hs_merged_object_ids&propertiesWithHistory=amount&associations=contacts'
    const { body: merged } = await call(`${objects}/9006?${query}`)
    const amount = [{ value: '73000.5' }, { value: '12500' }, { value: '4800' }]
    expect(merged).toMatchObject({
      properties: { dealname: 'Initech expansion', hs_merged_object_ids: '9001;9002;9003;9005' },
      propertiesWithHistory: { amount },
      associations: { contacts: { results: [{ id: '301' }] } },
    })
    const { associations, ...withoutLinks } = merged
    for (const id of ['9001', '9002', '9003', '9005']) {
      // HubSpot's changelog: the old id answers with the new deal, and without links.
      expect((await call(`${objects}/${id}?${query}`)).body).toEqual(withoutLinks)
    }
    const found = await call(batch, { ...fields, ...inputs(9001, 9002) })
    expect(found).toMatchObject({ status: 200, body: { results: [{ id: '9006' }] } })
    const { body: links } = await call(contactsOf, inputs(9001, 9002, 9006))
    expect(links).toMatchObject({ results: [{ from: { id: '9006' } }], numErrors: 2 })
  })

  test('lets people change an amount, and answers with its history', async () => {
    // The same amount again is no change.
    for (const _ of [1, 2]) await change('/deals/9002', { change: 'amount', amount: '5000' })
    const { body } = await call(`${objects}/9002?properties=amount&propertiesWithHistory=amount`)
    expect(body.properties.amount).toBe('5000')
    expect(body.propertiesWithHistory.amount).toMatchObject([{ value: '5000' }, { value: '4800' }])
  })

  const oneDeal = `${objects}/9001`
  const ofVersion = () => tokens.issue(Object({ grant: 'g', use: 'access' }))
  const ofOthers = () =>
    new StandInTokens('hubspot-stand-in-', 'other').issue({
      grant: 'g',
      use: 'access',
      endsAt: 1e13,
    })
  const ofScope = () => token(['another'])
  test.each<[string, path: string, () => string, status: number, category: string]>([
    ['is made up', oneDeal, () => 'made-up', 401, 'INVALID_AUTHENTICATION'],
    ['is made by somebody else', oneDeal, ofOthers, 401, 'INVALID_AUTHENTICATION'],
    ['is of another version', oneDeal, ofVersion, 401, 'INVALID_AUTHENTICATION'],
    ['has expired', oneDeal, () => token([], Date.now() - 1_000), 401, 'EXPIRED_AUTHENTICATION'],
    ['has not the scope of deals', oneDeal, ofScope, 403, 'MISSING_SCOPES'],
    ['has not the scope of owners', `${ofOwner}/4001`, ofScope, 403, 'MISSING_SCOPES'],
    ['has not the scope of the account', ofAccount, ofScope, 403, 'MISSING_SCOPES'],
  ])('refuses an access token that %s', async (_, path, made, status, category) => {
    const body = { status: 'error', category, correlationId: uuid }
    expect(await call(path, undefined, made())).toMatchObject({ status, body })
  })

  test('takes 110 calls in ten seconds, says how many are left, and refuses more', async () => {
    const read = () => call('/crm/pipelines/2026-03/deals')
    const { headers } = await read()
    const ofLimit = [...headers].filter(([name]) => name.startsWith('x-hubspot-ratelimit-'))
    expect(Object.fromEntries(ofLimit)).toEqual({
      'x-hubspot-ratelimit-max': '110',
      'x-hubspot-ratelimit-interval-milliseconds': '10000',
      'x-hubspot-ratelimit-remaining': '109',
    })
    const answers = await Promise.all(Array.from({ length: 110 }, read))
    expect(answers.map(({ status }) => status)).toEqual([...Array(109).fill(200), 429])
    const policy = { errorType: 'RATE_LIMIT', policyName: 'TEN_SECONDLY_ROLLING' }
    expect(answers.at(-1)?.body).toMatchObject({ status: 'error', ...policy, correlationId: uuid })
  })

  test('sends webhooks in batches, signed for their address, with mixed, repeated and disordered events', async () => {
    const webhooks: Request[] = []
    const fetched = vi.spyOn(globalThis, 'fetch').mockImplementation(async (url, init) => {
      const webhook = new Request(url, init)
      // The sandboxes of other tests still repeat webhooks to other ports.
      if (webhook.url === 'http://127.0.0.1:2/webhooks/hubspot') webhooks.push(webhook)
      return new Response(null, { status: webhooks.length === 1 ? 401 : 204 })
    })
    const API_URL = 'http://bell.localhost/dealbell'
    sandbox = createSandbox(parseEnv({ API_URL }).addressesAt(2))
    // A busy machine must not split the batch.
    vi.useFakeTimers({ toFake: ['setTimeout'] })
    await change('/deals/9001', { change: 'stage', stage: 'closedwon' })
    await change('/deals/9002', { change: 'contact' })
    await change('/deals', { name: 'Hooli', amount: '1', stage: 'contractsent' })
    await change('/deals/merge', { deal: '9003', into: '9002' })
    vi.advanceTimersByTime(100)
    vi.useRealTimers()
    // As HubSpot does, it also repeats after a 4xx, and sometimes once more although it was acknowledged.
    await vi.waitFor(() => expect(webhooks).toHaveLength(3), 20_000)
    fetched.mockRestore()

    const bodies = await Promise.all(webhooks.map((webhook) => webhook.bytes()))
    const [body = new Uint8Array()] = bodies
    const sent = (name: string) => webhooks[0]?.headers.get(`X-HubSpot-${name}`) ?? ''
    const timestamp = sent('Request-Timestamp')
    const asked = { method: 'POST', url: `${API_URL}/webhooks/hubspot`, body, timestamp }
    expect(sent('Signature-v3')).toBe(hubSpotSignature(clientSecret, asked))

    const items: Array<Array<Record<string, unknown>>> = bodies.map((body) =>
      JSON.parse(Buffer.from(body).toString()),
    )
    // The newest first. A client that reads only the first event sees no change of a stage.
    const [first = []] = items
    const moved = { propertyName: 'dealstage', objectTypeId: '0-3', attemptNumber: 0 }
    const type = 'object.propertyChange'
    expect(first).toMatchObject([
      { subscriptionType: 'object.merge' },
      { subscriptionType: type, ...moved, objectId: 9005, propertyValue: 'contractsent' },
      { subscriptionType: 'object.creation' },
      { subscriptionType: 'object.associationChange' },
      { subscriptionType: type, ...moved, objectId: 9001, propertyValue: 'closedwon' },
    ])
    // A client that knows events by their attempt sees each three times.
    const attempt = (attemptNumber: number) => first.map((item) => ({ ...item, attemptNumber }))
    expect(items.slice(1)).toEqual([attempt(1), attempt(2).toReversed()])
  })
})

describe('the stand-in Slack', () => {
  const channelPage = '/slack/channels/C0DEALS001'
  const method = async (name: string, form: Fields, headers: Fields) =>
    (await post(`/slack/api/${name}`, form, headers)).body
  /** The bot's way to post a message. */
  async function bot(changes: Fields = {}) {
    const { body } = await exchange('slack', await codeFrom('slack', changes))
    const headers = bearer(body.access_token)
    const say = (form: Fields) =>
      method('chat.postMessage', { channel: 'C0SALES001', text: 'x', ...form }, headers)
    const { pathname } = new URL(body.incoming_webhook.url)
    return { headers, say, webhook: pathname.replace('/sandbox', '') }
  }

  test('knows a token until it is revoked', async () => {
    const { headers } = await bot()
    const errorOf = async (name: string, given: Fields = headers) =>
      (await method(name, {}, given)).error
    expect(await errorOf('auth.test')).toBeUndefined()
    expect(await errorOf('auth.revoke')).toBeUndefined()
    expect(await errorOf('auth.test')).toBe('token_revoked')
    expect(await errorOf('auth.test', {})).toBe('not_authed')
    expect(await errorOf('auth.test', bearer('xoxb-x'))).toBe('invalid_auth')
    expect(await errorOf('no.such.method')).toBe('unknown_method')
  })

  test('takes only access tokens', async () => {
    const tokens = new StandInTokens('xoxb-stand-in-', appOf('slack').client_secret)
    const token = tokens.issue({ grant: 'g', use: 'refresh', endsAt: null })
    for (const name of ['auth.test', 'auth.revoke', 'chat.postMessage']) {
      expect(await method(name, {}, bearer(token))).toEqual({ ok: false, error: 'invalid_auth' })
    }
    expect((await submit(`/slack/services/T0STANDIN1/C0SALES001/${token}`, {})).status).toBe(403)
  })

  test('finds members by e-mail, if the app has asked for the scope, and fifty a minute', async () => {
    const { headers } = await bot()
    const find = (email: string, by = headers) => method('users.lookupByEmail', { email }, by)
    const [alex, robin] = ['alex.rivera@stand-in.example', 'robin.chen@stand-in.example'] as const
    const lacks = { error: 'missing_scope', needed: 'users:read.email' }
    expect(await find(alex)).toMatchObject(lacks)

    const more = await bot({ scope: 'incoming-webhook,chat:write,users:read,users:read.email' })
    expect((await find(alex, more.headers)).user).toMatchObject({ id: 'U0ALEX0001' })
    expect(await find('', more.headers)).toMatchObject({ error: 'invalid_arguments' })
    // Robin has left the workspace.
    for (let n = 3; n <= 50; n++) {
      expect(await find(robin, more.headers)).toEqual({ ok: false, error: 'users_not_found' })
    }
    const refused = await submit('/slack/api/users.lookupByEmail', { email: alex }, more.headers)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('Retry-After'))).toBeGreaterThan(0)
    const mention = rich({ type: 'user', user_id: 'U0ALEX0001' })
    expect(await more.say({ blocks: JSON.stringify([mention]) })).toMatchObject({ ok: true })
    expect(await pageAt('/slack/channels/C0SALES001')).toContain('@Alex Rivera')
  })

  const text = (length: number, type = 'plain_text') => ({ type, text: 'x'.repeat(length) })
  const rich = (...elements: object[]) => ({
    type: 'rich_text',
    elements: [{ type: 'rich_text_section', elements }],
  })
  const section = (more: object) => ({ type: 'section', ...more })
  const context = (elements: object[]) => ({ type: 'context', elements })
  const header = (of: object) => ({ type: 'header', text: of })
  const many = <Each>(count: number, each: Each) => Array.from({ length: count }, () => each)
  const refusedBlocks = [
    [section({ text: text(3_001) })],
    [section({ text: text(0) })],
    [section({ text: { type: 'plain_text', text: ' \n ' } })],
    [section({ text: 'x' })],
    [section({ text: { ...text(1), emoji: 'yes' } })],
    // Text from a CRM could become markup there.
    [section({ text: text(1, 'mrkdwn') })],
    [rich({ type: 'text', text: '' })],
    [rich({ type: 'text', text: '  ', style: { bold: true } })],
    [rich({ type: 'link', url: 'https://x.example', text: '' })],
    [rich()],
    [{ type: 'rich_text', elements: [] }],
    [rich({ type: 'text', text: 'x', style: { big: true } })],
    [rich({ type: 'link', url: 'no address', text: 'x' })],
    [rich({ type: 'date', timestamp: '1', format: '{time}' })],
    [rich({ type: 'user', user_id: '!channel' })],
    [rich({ type: 'date', timestamp: 1e13, format: '{time}' })],
    [rich({ type: 'blink', text: 'x' })],
    [section({ text: text(1), colour: 'red' })],
    [section({})],
    [section({ fields: many(11, text(1)) })],
    [section({ fields: [text(2_001)] })],
    [{ text: text(1) }],
    [{ type: 'unknown', text: text(1) }],
    [header(text(151))],
    [context([])],
    [context(many(11, text(1)))],
    [{ type: 'divider', text: text(1) }],
    many(51, { type: 'divider' }),
    many(2, { type: 'divider', block_id: 'same' }),
  ]
  test('takes the largest blocks that a message may contain, and refuses what it may not', async () => {
    const { say } = await bot()
    const largest = [
      section({ text: text(3_000), block_id: 'a' }),
      section({ fields: [...many(9, text(1)), text(2_000)] }),
      header(text(150)),
      context(many(10, text(1))),
      ...many(46, { type: 'divider' }),
    ]
    expect(await say({ blocks: JSON.stringify(largest) })).toMatchObject({ ok: true })
    for (const blocks of refusedBlocks.map((each) => JSON.stringify(each))) {
      const answer = await say({ blocks })
      expect(answer, blocks.slice(0, 200)).toMatchObject({ ok: false, error: 'invalid_blocks' })
    }
    const blocks = JSON.stringify(many(4, section({ text: text(2_900) })))
    expect(await say({ blocks })).toMatchObject({ ok: false, error: 'msg_blocks_too_long' })
  })

  const changeChannel = (change: 'archive' | 'unarchive', path = channelPage) =>
    submit(path, { change })

  test('refuses messages as Slack does, also those for an archived channel until it is unarchived', async () => {
    const { headers, say, webhook } = await bot()
    const channel = 'C0DEALS001'
    const byWebhook = async (message: object, to = webhook) => {
      const answer = await request(to, { method: 'POST', body: JSON.stringify(message) })
      return `${answer.status} ${await answer.text()}`
    }
    const bold = { type: 'text', text: 'Bold', style: { bold: true } }
    const plain = { type: 'text', text: ' *not* <b>https://x.example</b>' }
    const message = { text: 'by the webhook', blocks: [rich(bold, plain)] }

    await changeChannel('archive')
    expect(await say({ channel })).toEqual({ ok: false, error: 'is_archived' })
    expect(await byWebhook(message)).toBe('410 channel_is_archived')
    await changeChannel('unarchive')
    // Nobody has invited the bot. Its webhook works.
    expect(await say({ channel })).toEqual({ ok: false, error: 'not_in_channel' })
    expect(await byWebhook(message)).toBe('200 ok')
    expect(await pageAt(channelPage)).toContain(
      '<strong>Bold</strong> *not* &lt;b&gt;https://x.example&lt;/b&gt;</p>',
    )

    expect(await byWebhook({})).toBe('400 no_text')
    expect(await byWebhook({ blocks: [5] })).toBe('400 invalid_blocks')
    expect(await byWebhook({ blocks: {} })).toBe('400 invalid_blocks_format')
    expect(await byWebhook(message, `${webhook}x`)).toBe('403 invalid_token')
    await method('auth.revoke', {}, headers)
    expect(await byWebhook(message)).toBe('404 no_service')
  })

  test('offers no archived channel, and people can deny even if no channel is left', async () => {
    const pages = ['C0SALES001', 'C0DEALS001', 'C0RANDOM01'].map((id) => `/slack/channels/${id}`)
    for (const path of pages) await changeChannel('archive', path)
    const shown = await (await consentPage('slack')).text()
    const list = await pageAt(channelPage)
    const allowed = await answerConsent('slack')
    const denied = await answerConsent('slack', { answer: 'deny', channel: '' })
    for (const path of pages) await changeChannel('unarchive', path)
    expect(shown).toContain('All channels are archived.')
    expect(list).toMatch(/#deals<\/a> \(\d+\), archived/)
    expect(allowed.status).toBe(400)
    expect(denied.back).toContain('?error=access_denied')
  })

  test('keeps a bounded amount of messages', async () => {
    const { say } = await bot()
    const sayAll = async (count: number, textOf: (n: number) => string) => {
      for (let n = 0; n < count; n++) await say({ text: textOf(n) })
      return await pageAt('/slack/channels/C0SALES001')
    }
    const page = await sayAll(100, (n) => `message ${n} ${'x'.repeat(2_900)}`)
    expect(page).toContain('message 99 ')
    expect(page).not.toContain('message 0 ')
    expect(page.length).toBeLessThan(400_000)
    expect((await sayAll(250, (n) => `short ${n} `)).match(/short \d+ /g)).toHaveLength(200)
  })
})

// security-headers.test.ts says which policy the form has.
test('the contact form works in a frame without an origin, with its style, and thanks', async () => {
  const origin = { Origin: 'null', 'Sec-Fetch-Site': 'cross-site' }
  const sent = await submit('/contact-form', { name: 'a', message: 'c' }, origin)
  expect(sent.headers.get('Content-Security-Policy')).toContain("frame-ancestors 'self'")
  expect(await sent.text()).toContain('Thank you')
  const large = await submit('/contact-form', { name: 'a', message: 'x'.repeat(2 ** 20) }, origin)
  expect(large.status).toBe(413)

  const style = await request('/style.css')
  expect(style.headers.get('Content-Type')).toContain('text/css')
  expect(style.headers.get('Access-Control-Allow-Origin')).toBe('*')
})

test('with real accounts there is no stand-in but the contact form’s', async () => {
  const hubspot = { HUBSPOT_CLIENT_ID: 'a', HUBSPOT_CLIENT_SECRET: 'b' }
  const slack = { SLACK_CLIENT_ID: 'c', SLACK_CLIENT_SECRET: 'd' }
  const statusesWith = async (env: Fields) => {
    const sandbox = createSandbox(parseEnv(env).addressesAt(3000))
    const paths = ['/contact-form', '/hubspot/oauth/authorize', '/slack/oauth/v2/authorize']
    return Promise.all(paths.map(async (path) => (await sandbox.request(path)).status))
  }
  expect(await statusesWith({ ...hubspot, ...slack })).toEqual([200, 404, 404])
  expect(await statusesWith({ ...hubspot, ALLOW_STAND_INS: 'true' })).toEqual([200, 404, 400])
})

test.each<[string, Fields]>([
  ['/hubspot/deals', { name: 'Planted', stage: 'contractsent' }],
  ['/hubspot/deals/9001', { change: 'contact' }],
  ['/hubspot/deals/merge', { deal: '9001', into: '9002' }],
  ['/slack/channels/C0RANDOM01', { change: 'archive' }],
])('another site changes nothing of a stand-in: %s', async (path, fields) => {
  const pages = async () =>
    (await pageAt('/hubspot/deals')) + (await pageAt('/slack/channels/C0DEALS001'))
  const before = await pages()
  const headers = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }
  expect((await submit(path, fields, headers)).status).toBe(403)
  expect(await pages()).toBe(before)
})

test('the stand-in HubSpot keeps the newest 500 deals, with bounded names', async () => {
  // The server of this address does not exist, so webhooks stay in their queue.
  const sandbox = createSandbox(parseEnv({}).addressesAt(1))
  for (let n = 0; n < 600; n++) {
    const name = `Deal ${n} ${'x'.repeat(1_000)}`
    const body = new URLSearchParams({ name, amount: '1', stage: 'contractsent' })
    await sandbox.request('/hubspot/deals', { method: 'POST', body })
  }
  const page = await (await sandbox.request('/hubspot/deals')).text()
  expect(page.match(/<li id="deal-/g)).toHaveLength(500)
  expect(page).toContain('Deal 599 ')
  expect(page).not.toContain('Deal 99 ')
  expect(page).not.toContain('x'.repeat(201))
})

test.each([
  ['GET', '/hubspot/eu1/contacts/1/record/0-3/1%0d%0aX:%20y'],
  ['GET', '/hubspot/eu1/contacts/1/record/0-3/%E0%A4%A'],
  ['POST', '/hubspot/deals/1%0a'],
  // The body of each POST is no form.
  ['POST', '/hubspot/deals'],
  ['POST', '/hubspot/oauth/authorize'],
  ['POST', '/slack/api/chat.postMessage'],
])('a stand-in answers what is malformed with 4xx: %s %s', async (method, path) => {
  for (const type of ['multipart/form-data', 'multipart/form-data; boundary=x']) {
    const form = { headers: { 'Content-Type': type }, body: 'no form' }
    const { status } = await request(path, { method, ...(method === 'POST' && form) })
    expect(`${status}`).toMatch(/^4\d\d$/)
  }
})
