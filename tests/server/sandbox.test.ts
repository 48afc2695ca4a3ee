import { createHash, createHmac } from 'node:crypto'
import * as v from 'valibot'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { parseEnv } from '../../server/settings/settings.ts'
import { standInHub } from '../../stand-ins/hubspot/account.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { StandInTokens } from '../../stand-ins/tokens.ts'
import { appUrl, type Harness, openHarness } from './harness.ts'

let harness: Harness
beforeAll(async () => {
  harness = await openHarness()
})
afterAll(() => harness.close())

const scope =
  'oauth crm.objects.deals.read crm.objects.contacts.read crm.objects.companies.read crm.schemas.deals.read'
const verifier = 'v'.repeat(43)

function consentQuery(provider: 'hubspot' | 'slack', changes: Record<string, string> = {}) {
  return new URLSearchParams({
    client_id: harness.addresses.providers[provider].clientId,
    redirect_uri: `${appUrl}/${provider}/callback`,
    scope: provider === 'hubspot' ? scope : 'incoming-webhook,chat:write,channels:read',
    state: 'the-state',
    ...(provider === 'hubspot' && {
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256',
    }),
    ...changes,
  })
}

const authorizePaths = {
  hubspot: '/sandbox/hubspot/oauth/authorize',
  slack: '/sandbox/slack/oauth/v2/authorize',
}

async function answerConsent(
  provider: 'hubspot' | 'slack',
  changes: Record<string, string> = {},
): Promise<Response> {
  const body = consentQuery(provider, { answer: 'allow', channel: 'C0DEALS001', ...changes })
  return harness.app.request(authorizePaths[provider], { method: 'POST', body })
}

async function codeFrom(provider: 'hubspot' | 'slack'): Promise<string> {
  const location = new URL((await answerConsent(provider)).headers.get('Location') ?? '')
  return location.searchParams.get('code') ?? ''
}

async function post(path: string, form: Record<string, string>, headers = {}) {
  const answer = await harness.app.request(`/sandbox${path}`, {
    method: 'POST',
    body: new URLSearchParams(form),
    headers,
  })
  const text = await answer.text()
  const body: Record<string, unknown> = text === '' ? {} : JSON.parse(text)
  return { status: answer.status, body }
}

describe.each(['hubspot', 'slack'] as const)('the consent page of the stand-in %s', (provider) => {
  const path = authorizePaths[provider]

  test('says that it is a stand-in, and offers to allow and to deny', async () => {
    const answer = await harness.app.request(`${path}?${consentQuery(provider)}`)
    const page = await answer.text()
    expect(answer.status).toBe(200)
    expect(page).toContain('Stand-in.')
    expect(page).toMatch(/This is not (HubSpot|Slack)/)
    expect(page).toMatch(/<button name="answer" value="allow">Allow/)
    expect(page).toMatch(/<button name="answer" value="deny" class="secondary">Deny/)
    expect(page).not.toMatch(/<script|<style|style=|onclick/)
    const policy = answer.headers.get('Content-Security-Policy') ?? ''
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toContain('unsafe')
  })

  test('writes what it is given as text', async () => {
    const query = consentQuery(provider, { state: '"><script>alert(1)</script>' })
    const page = await (await harness.app.request(`${path}?${query}`)).text()
    expect(page).not.toContain('<script>')
  })

  test.each([
    { client_id: 'another' },
    { redirect_uri: 'https://evil.example/callback' },
    { redirect_uri: `${appUrl}/${provider}/callback/` },
    { redirect_uri: `${appUrl}.evil.example/${provider}/callback` },
    { scope: '' },
  ])('refuses to redirect for %j', async (changes) => {
    const shown = await harness.app.request(`${path}?${consentQuery(provider, changes)}`)
    expect(shown.status).toBe(400)
    const answered = await answerConsent(provider, changes)
    expect(answered.status).toBe(400)
    expect(answered.headers.get('Location')).toBeNull()
  })

  test('leads back with a code, or an error, and always the state', async () => {
    const allowed = await answerConsent(provider)
    expect(allowed.status).toBe(303)
    const back = new URL(allowed.headers.get('Location') ?? '')
    expect(back.origin + back.pathname).toBe(`${appUrl}/${provider}/callback`)
    expect(back.searchParams.get('code')).toBeTruthy()
    expect(back.searchParams.get('state')).toBe('the-state')

    const denied = await answerConsent(provider, { answer: 'deny' })
    const { searchParams } = new URL(denied.headers.get('Location') ?? '')
    expect(searchParams.get('error')).toBe('access_denied')
    expect(searchParams.get('state')).toBe('the-state')
    expect(searchParams.has('code')).toBe(false)
  })
})

describe('the stand-in HubSpot’s tokens', () => {
  const client = () => ({
    client_id: harness.addresses.providers.hubspot.clientId,
    client_secret: harness.addresses.providers.hubspot.clientSecret,
  })
  const exchange = (code: string, changes: Record<string, string> = {}) =>
    post('/hubspot/oauth/2026-03/token', {
      ...client(),
      grant_type: 'authorization_code',
      code,
      redirect_uri: `${appUrl}/hubspot/callback`,
      code_verifier: verifier,
      ...changes,
    })

  test('come for a code, once', async () => {
    const code = await codeFrom('hubspot')
    const { status, body } = await exchange(code)
    expect(status).toBe(200)
    // HubSpot's answer has these fields. It names the user only in the answer to introspection.
    expect(body).toEqual({
      token_type: 'bearer',
      token_use: 'access_token',
      access_token: expect.any(String),
      refresh_token: expect.any(String),
      expires_in: 1800,
      hub_id: standInHub.hubId,
      scopes: scope.split(' '),
    })
    const message = 'missing or unknown auth code'
    expect(await exchange(code)).toEqual({
      status: 400,
      body: {
        error: 'invalid_grant',
        error_description: message,
        status: 'BAD_AUTH_CODE',
        message,
        category: 'VALIDATION_ERROR',
        correlationId: expect.stringMatching(/^[\da-f-]{36}$/),
      },
    })
  })

  test.each([
    [{ client_id: 'another' }, 'BAD_CLIENT_ID'],
    [{ client_secret: 'wrong' }, 'BAD_CLIENT_SECRET'],
    [{ redirect_uri: `${appUrl}/slack/callback` }, 'BAD_REDIRECT_URI'],
    [{ code_verifier: 'w'.repeat(43) }, 'BAD_CODE_VERIFIER'],
    [{ code_verifier: '' }, 'BAD_CODE_VERIFIER'],
    [{ grant_type: 'password' }, 'BAD_GRANT_TYPE'],
    [{ code: 'made-up' }, 'BAD_AUTH_CODE'],
  ])('are refused with %j', async (changes, status) => {
    const refused = await exchange(await codeFrom('hubspot'), changes)
    const body = { status, category: 'VALIDATION_ERROR', correlationId: expect.any(String) }
    expect(refused).toMatchObject({ status: 400, body })
  })

  test('are refused for a code that is older than five minutes', async () => {
    const code = await codeFrom('hubspot')
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 5 * 60 * 1000 + 1 })
    expect((await exchange(code)).body).toMatchObject({ status: 'BAD_AUTH_CODE' })
    vi.useRealTimers()
  })

  test('are refreshed, introspected and revoked', async () => {
    const { body } = await exchange(await codeFrom('hubspot'))
    const refresh_token = String(body.refresh_token)
    const refresh = () =>
      post('/hubspot/oauth/2026-03/token', {
        ...client(),
        grant_type: 'refresh_token',
        refresh_token,
      })
    const introspect = async (token: unknown) =>
      (await post('/hubspot/oauth/2026-03/token/introspect', { ...client(), token: String(token) }))
        .body

    const refreshed = await refresh()
    expect(refreshed.body.access_token).not.toBe(body.access_token)
    expect(refreshed.body.refresh_token).toBe(refresh_token)
    const known = {
      active: true,
      client_id: client().client_id,
      app_id: standInHub.appId,
      hub_id: standInHub.hubId,
      hub_domain: standInHub.domain,
      user_id: standInHub.userId,
      user: standInHub.user,
      scopes: scope.split(' '),
      token_type: 'Bearer',
    }
    expect(await introspect(refreshed.body.access_token)).toEqual({
      ...known,
      token_use: 'access_token',
      token: refreshed.body.access_token,
      expires_in: expect.any(Number),
      is_private_distribution: false,
    })
    expect(await introspect(refresh_token)).toEqual({
      ...known,
      token_use: 'refresh_token',
      token: refresh_token,
    })
    expect(await introspect('made-up')).toEqual({ active: false })

    // HubSpot revokes only refresh tokens. An access token lives on.
    await post('/hubspot/oauth/2026-03/token/revoke', { ...client(), token: refresh_token })
    expect(await introspect(refresh_token)).toEqual({ active: false })
    expect(await introspect(refreshed.body.access_token)).toMatchObject({ active: true })
    expect((await refresh()).body).toMatchObject({
      error: 'invalid_grant',
      status: 'BAD_REFRESH_TOKEN',
    })
  })

  test('end for all users of the account when the app is uninstalled, and new ones are valid', async () => {
    const { body } = await exchange(await codeFrom('hubspot'))
    const { body: colleague } = await exchange(await codeFrom('hubspot'))
    const uninstall = (token: unknown) =>
      harness.app.request('/sandbox/hubspot/appinstalls/2026-03/external-install', {
        method: 'DELETE',
        headers: { Authorization: `Bearer ${token}` },
      })
    expect((await uninstall(body.access_token)).status).toBe(204)
    const again = await uninstall(colleague.access_token)
    expect(again.status).toBe(401)
    expect(await again.json()).toMatchObject({ category: 'INVALID_AUTHENTICATION' })
    const refreshed = await post('/hubspot/oauth/2026-03/token', {
      ...client(),
      grant_type: 'refresh_token',
      refresh_token: String(colleague.refresh_token),
    })
    expect(refreshed.body).toMatchObject({ status: 'BAD_REFRESH_TOKEN' })
    const { body: later } = await exchange(await codeFrom('hubspot'))
    expect((await uninstall(later.access_token)).status).toBe(204)
  })
})

test.each([
  { scope: scope.replace('oauth ', '') },
  { scope: `${scope} crm.objects.owners.read` },
  { optional_scope: 'crm.objects.owners.read crm.lists.read' },
])('the stand-in HubSpot refuses other scopes than the app declares: %j', async (changes) => {
  expect((await answerConsent('hubspot', changes)).status).toBe(400)
  const granted = await answerConsent('hubspot', { optional_scope: 'crm.objects.owners.read' })
  expect(granted.status).toBe(303)
})

describe('the stand-in HubSpot’s API', () => {
  // A sandbox of its own, because calls are limited.
  const addresses = parseEnv({}).addressesAt(1)
  const sandbox = createSandbox(addresses)
  const { clientSecret } = addresses.providers.hubspot
  const tokens = new StandInTokens('hubspot-stand-in-', clientSecret)
  const token = (scopes = scope.split(' '), endsAt = Date.now() + 60_000) =>
    tokens.issue({ grant: 'g', use: 'access', endsAt, scopes })
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  const uuid = expect.stringMatching(/^[\da-f-]{36}$/)

  async function call(path: string, json?: object, accessToken = token()) {
    const answer = await sandbox.request(`/hubspot${path}`, {
      headers: { Authorization: `Bearer ${accessToken}`, 'Content-Type': 'application/json' },
      ...(json && { method: 'POST', body: JSON.stringify(json) }),
    })
    return { status: answer.status, headers: answer.headers, body: await answer.json() }
  }

  const deal = {
    id: '9001',
    properties: {
      dealname: 'Acme renewal',
      createdate: time,
      hs_lastmodifieddate: time,
      hs_object_id: '9001',
    },
    createdAt: time,
    updatedAt: time,
    archived: false,
    url: `${addresses.appUrl}/sandbox/hubspot/eu1/contacts/4200001/record/0-3/9001`,
  }
  const history = {
    propertiesWithHistory: {
      dealstage: [
        {
          value: 'appointmentscheduled',
          timestamp: time,
          sourceType: 'CRM_UI',
          sourceId: expect.stringMatching(/^userId:\d+$/),
          updatedByUserId: expect.any(Number),
        },
      ],
    },
  }
  const withStage = { ...deal.properties, dealstage: 'appointmentscheduled' }

  test('answers with a deal as its specification says, with what was asked for and no more', async () => {
    const { body } = await call(
      '/crm/objects/2026-03/0-3/9001?properties=dealname,unknown&propertiesWithHistory=dealstage&associations=contacts,companies',
    )
    expect(body).toEqual({
      ...deal,
      ...history,
      properties: withStage,
      associations: {
        contacts: { results: [{ id: '301', type: 'deal_to_contact' }] },
        companies: { results: [{ id: '501', type: 'deal_to_company' }] },
      },
    })
    expect((await call('/crm/objects/2026-03/0-3/9001?properties=dealname')).body).toEqual(deal)
    expect(await call('/crm/objects/2026-03/0-3/1')).toMatchObject({
      status: 404,
      body: {
        status: 'error',
        category: 'OBJECT_NOT_FOUND',
        message: expect.any(String),
        correlationId: uuid,
        context: { id: ['1'] },
      },
    })
  })

  test('answers with a batch of deals, and 207 if some do not exist', async () => {
    const body = {
      inputs: [{ id: '9001' }],
      properties: ['dealname'],
      propertiesWithHistory: ['dealstage'],
    }
    const times = { startedAt: time, completedAt: time }
    const results = [{ ...deal, ...history, properties: withStage }]
    expect(await call('/crm/objects/2026-03/0-3/batch/read', body)).toMatchObject({
      status: 200,
      body: { status: 'COMPLETE', results, ...times },
    })
    const inputs = [{ id: '1' }, ...body.inputs, { id: '2' }]
    expect(await call('/crm/objects/2026-03/0-3/batch/read', { ...body, inputs })).toMatchObject({
      status: 207,
      body: {
        status: 'COMPLETE',
        results,
        ...times,
        numErrors: 1,
        errors: [
          {
            status: 'error',
            category: 'OBJECT_NOT_FOUND',
            message: expect.any(String),
            context: { ids: ['1', '2'] },
          },
        ],
      },
    })
    // The specification requires all three fields.
    const invalid = { status: 400, body: { category: 'VALIDATION_ERROR' } }
    expect(await call('/crm/objects/2026-03/0-3/batch/read', { inputs })).toMatchObject(invalid)
    const many = Array.from({ length: 51 }, (_, id) => ({ id: String(id) }))
    const tooMany = { ...body, inputs: many }
    expect(await call('/crm/objects/2026-03/0-3/batch/read', tooMany)).toMatchObject(invalid)
    const withoutHistory = { ...tooMany, propertiesWithHistory: [] }
    expect((await call('/crm/objects/2026-03/0-3/batch/read', withoutHistory)).status).toBe(207)
  })

  test('answers with the links of deals, and 207 if some have none', async () => {
    const inputs = [{ id: '9001' }, { id: '9004' }]
    expect(await call('/crm/associations/2026-03/0-3/0-1/batch/read', { inputs })).toMatchObject({
      status: 207,
      body: {
        status: 'COMPLETE',
        results: [
          {
            from: { id: '9001' },
            to: [
              {
                toObjectId: '301',
                associationTypes: [{ category: 'HUBSPOT_DEFINED', typeId: 3 }],
              },
            ],
          },
        ],
        numErrors: 1,
        errors: [
          {
            status: 'error',
            category: 'OBJECT_NOT_FOUND',
            subCategory: 'crm.associations.NO_ASSOCIATIONS_FOUND',
            message: 'No contact is associated with deal 9004.',
            context: {
              fromObjectId: ['9004'],
              fromObjectType: ['deal'],
              toObjectType: ['contact'],
            },
          },
        ],
      },
    })
  })

  test('finds changed deals, and answers with pipelines and owners', async () => {
    const filter = { propertyName: 'hs_lastmodifieddate', operator: 'GTE', value: '0' }
    const search = {
      filterGroups: [{ filters: [filter] }],
      sorts: ['hs_lastmodifieddate'],
      properties: ['dealname'],
      limit: 1,
      after: '0',
    }
    const found = await call('/crm/objects/2026-03/0-3/search', search)
    expect(found.body).toEqual({ total: 4, results: [deal], paging: { next: { after: '1' } } })
    // Answers to a search have no such headers.
    expect(found.headers.has('X-HubSpot-RateLimit-Max')).toBe(false)

    const { body } = await call('/crm/pipelines/2026-03/deals')
    const entry = {
      id: expect.any(String),
      label: expect.any(String),
      displayOrder: expect.any(Number),
      archived: false,
      createdAt: time,
      updatedAt: time,
    }
    const pipeline = { ...entry, stages: expect.any(Array) }
    expect(body).toEqual({ results: [pipeline, pipeline] })
    for (const stage of body.results.flatMap(({ stages }: { stages: unknown[] }) => stages)) {
      expect(stage).toEqual({
        ...entry,
        metadata: { isClosed: expect.any(String), probability: expect.any(String) },
        writePermissions: 'CRM_PERMISSIONS_ENFORCEMENT',
      })
    }

    const ownersScope = 'crm.objects.owners.read'
    const owner = await call('/crm/owners/2026-03/4001', undefined, token([ownersScope]))
    expect(owner.body).toEqual({
      id: '4001',
      type: 'PERSON',
      firstName: 'Alex',
      lastName: 'Rivera',
      email: expect.any(String),
      userId: expect.any(Number),
      archived: false,
      createdAt: time,
      updatedAt: time,
    })
    expect((await call('/crm/owners/2026-03/1', undefined, token([ownersScope]))).status).toBe(404)
    expect(await call('/crm/owners/2026-03/4001')).toMatchObject({
      status: 403,
      body: { status: 'error', category: 'MISSING_SCOPES', correlationId: uuid },
    })
  })

  test('has a second pipeline, whose stages say only in their metadata what they mean', async () => {
    const body = new URLSearchParams({ change: 'stage', stage: '1200103' })
    await sandbox.request('/hubspot/deals/9003', { method: 'POST', body })
    const { body: moved } = await call(
      '/crm/objects/2026-03/0-3/9003?properties=dealstage,pipeline',
    )
    expect(moved.properties).toMatchObject({ dealstage: '1200103', pipeline: '81200001' })
    const { body: pipelines } = await call('/crm/pipelines/2026-03/deals')
    const [first, second] = pipelines.results
    expect(JSON.stringify(first)).not.toContain('1200103')
    expect(second.stages.find(({ id }: { id: string }) => id === '1200103')).toMatchObject({
      label: 'Renewed',
      metadata: { isClosed: 'true', probability: '1.0' },
    })
  })

  test('answers null for a property without a value, and for its history', async () => {
    const query = 'properties=amount,hubspot_owner_id&propertiesWithHistory=amount'
    const { body } = await call(`/crm/objects/2026-03/0-3/9004?${query}`)
    expect(body).toMatchObject({
      properties: { amount: null, hubspot_owner_id: null },
      propertiesWithHistory: { amount: null },
    })
  })

  test('has deals of owners who are archived or missing', async () => {
    const mayReadOwners = token([...scope.split(' '), 'crm.objects.owners.read'])
    const ownerOf = async (dealId: string, query = '') => {
      const path = `/crm/objects/2026-03/0-3/${dealId}?properties=hubspot_owner_id`
      const { body } = await call(path)
      const { hubspot_owner_id: id } = body.properties
      return await call(`/crm/owners/2026-03/${id}${query}`, undefined, mayReadOwners)
    }
    const notFound = { status: 404, body: { category: 'OBJECT_NOT_FOUND', correlationId: uuid } }
    expect(await ownerOf('9002')).toMatchObject(notFound)
    expect(await ownerOf('9002', '?archived=true')).toMatchObject({
      status: 200,
      body: { firstName: 'Robin', archived: true },
    })
    expect(await ownerOf('9001', '?archived=true')).toMatchObject(notFound)
    expect(await ownerOf('9003')).toMatchObject(notFound)
    expect(await ownerOf('9003', '?archived=true')).toMatchObject(notFound)
  })

  test('names the account’s currency in the details of the account, and not in its deals', async () => {
    const { body: deal } = await call('/crm/objects/2026-03/0-3/9001?properties=deal_currency_code')
    expect(deal.properties.deal_currency_code).toBeNull()
    expect(await call('/account-info/2026-03/details')).toMatchObject({
      status: 200,
      body: {
        portalId: standInHub.hubId,
        accountType: 'STANDARD',
        timeZone: expect.any(String),
        companyCurrency: 'EUR',
        additionalCurrencies: [],
        utcOffset: expect.any(String),
        utcOffsetMilliseconds: expect.any(Number),
        uiDomain: expect.any(String),
        dataHostingLocation: 'eu1',
      },
    })
    expect((await call('/account-info/2026-03/details', undefined, token([]))).status).toBe(403)
  })

  test('has pages of deals that a client finds only by their url', async () => {
    const { body } = await call('/crm/objects/2026-03/0-3/9001')
    const page = await sandbox.request(new URL(body.url).pathname.replace('/sandbox', ''))
    const list = `${addresses.appUrl}/sandbox/hubspot/deals`
    expect(page.headers.get('Location')).toBe(`${list}#deal-9001`)
    const composed = '/hubspot/contacts/4200001/record/0-3/9001'
    expect((await sandbox.request(composed)).status).toBe(404)
  })

  test('answers for a merged deal with the deal that it became, which alone has the links', async () => {
    const body = new URLSearchParams({ deal: '9002', into: '9001' })
    const own = createSandbox(addresses)
    const callOwn = async (path: string, json?: object) => {
      const answer = await own.request(`/hubspot/crm${path}`, {
        headers: { Authorization: `Bearer ${token()}`, 'Content-Type': 'application/json' },
        ...(json && { method: 'POST', body: JSON.stringify(json) }),
      })
      return await answer.json()
    }
    await own.request('/hubspot/deals/merge', { method: 'POST', body })
    const page = await (await own.request('/hubspot/deals')).text()
    expect(page.match(/<li id="deal-/g)).toHaveLength(3)
    expect(page).not.toContain('Globex pilot')

    const query = 'properties=dealname&propertiesWithHistory=amount&associations=contacts'
    const merged = await callOwn(`/objects/2026-03/0-3/9005?${query}`)
    expect(merged).toMatchObject({
      id: '9005',
      properties: { dealname: 'Acme renewal' },
      propertiesWithHistory: { amount: [{ value: '12500' }, { value: '4800' }] },
      associations: { contacts: { results: [{ id: '301' }] } },
    })
    const { associations, ...deal } = merged
    for (const id of ['9001', '9002']) {
      // HubSpot's changelog: the old id answers with the new deal, and without links.
      expect(await callOwn(`/objects/2026-03/0-3/${id}?${query}`)).toEqual(deal)
    }
    const inputs = [{ id: '9001' }, { id: '9002' }]
    const batch = await callOwn('/objects/2026-03/0-3/batch/read', {
      inputs,
      properties: ['hs_merged_object_ids'],
      propertiesWithHistory: [],
    })
    expect(batch.results).toMatchObject([
      { id: '9005', properties: { hs_merged_object_ids: '9001;9002' } },
    ])
    const links = (of: object) =>
      callOwn('/associations/2026-03/0-3/0-1/batch/read', { inputs: of })
    expect(await links(inputs)).toMatchObject({ results: [], numErrors: 2 })
    expect(await links([{ id: '9005' }])).toMatchObject({ results: [{ from: { id: '9005' } }] })

    // Merged once more, both old ids lead to the newest deal.
    const again = new URLSearchParams({ deal: '9005', into: '9003' })
    await own.request('/hubspot/deals/merge', { method: 'POST', body: again })
    expect(
      await callOwn('/objects/2026-03/0-3/9001?properties=hs_merged_object_ids'),
    ).toMatchObject({
      id: '9006',
      properties: { hs_merged_object_ids: '9001;9002;9003;9005' },
    })
    for (const wrong of [
      { deal: '9006', into: '9006' },
      { deal: '9001', into: '9003' },
    ]) {
      const init = { method: 'POST', body: new URLSearchParams(wrong) }
      expect((await own.request('/hubspot/deals/merge', init)).status).toBe(303)
    }
    expect((await callOwn('/objects/2026-03/0-3/9001')).id).toBe('9006')
  })

  test('finds a change by search only after some seconds', async () => {
    const own = createSandbox(addresses)
    const search = async () => {
      const since = String(Date.now() - 60_000)
      const filter = { propertyName: 'hs_lastmodifieddate', operator: 'GTE', value: since }
      const answer = await own.request('/hubspot/crm/objects/2026-03/0-3/search', {
        method: 'POST',
        headers: { Authorization: `Bearer ${token(undefined, Date.now() + 1e9)}` },
        body: JSON.stringify({
          filterGroups: [{ filters: [filter] }],
          sorts: ['hs_lastmodifieddate'],
          properties: ['dealstage'],
          limit: 200,
          after: '0',
        }),
      })
      const { results } = await answer.json()
      return results.map(({ id }: { id: string }) => id)
    }
    vi.useFakeTimers({ toFake: ['Date'] })
    const stage = 'closedwon'
    const move = { method: 'POST', body: new URLSearchParams({ change: 'stage', stage }) }
    await own.request('/hubspot/deals/9001', move)
    const create = { method: 'POST', body: new URLSearchParams({ name: 'Hooli', stage }) }
    await own.request('/hubspot/deals', create)
    const init = { headers: { Authorization: `Bearer ${token()}` } }
    const path = '/hubspot/crm/objects/2026-03/0-3/9001?properties=dealstage'
    const { properties } = await (await own.request(path, init)).json()
    expect(properties.dealstage).toBe('closedwon')
    expect(await search()).toEqual([])
    vi.setSystemTime(Date.now() + 2_000)
    expect(await search()).toEqual(['9001', '9005'])
    vi.useRealTimers()
  })

  test('lets people change an amount, and answers with its history', async () => {
    const body = new URLSearchParams({ change: 'amount', amount: '5000' })
    // The same amount again is no change.
    for (const _ of [1, 2]) await sandbox.request('/hubspot/deals/9002', { method: 'POST', body })
    const query = 'properties=amount&propertiesWithHistory=amount'
    const { body: answer } = await call(`/crm/objects/2026-03/0-3/9002?${query}`)
    expect(answer.properties.amount).toBe('5000')
    const values = answer.propertiesWithHistory.amount.map(({ value }: { value: string }) => value)
    expect(values).toEqual(['5000', '4800'])
  })

  test('refuses an access token that is made up or has expired', async () => {
    const path = '/crm/objects/2026-03/0-3/9001'
    expect(await call(path, undefined, 'made-up')).toMatchObject({
      status: 401,
      body: { status: 'error', category: 'INVALID_AUTHENTICATION', correlationId: uuid },
    })
    const expired = token(undefined, Date.now() - 1_000)
    expect(await call(path, undefined, expired)).toMatchObject({
      status: 401,
      body: { category: 'EXPIRED_AUTHENTICATION' },
    })
  })

  test.each([
    ['of another version', JSON.stringify({ grant: 'g', use: 'session' })],
    ['that is not JSON', 'no JSON'],
  ])('refuses a correctly signed access token with content %s', async (_, content) => {
    const body = Buffer.from(content).toString('base64url')
    const signature = createHmac('sha256', clientSecret).update(body).digest('base64url')
    const signed = `hubspot-stand-in-${body}.${signature}`
    expect(await call('/crm/objects/2026-03/0-3/9001', undefined, signed)).toMatchObject({
      status: 401,
      body: { category: 'INVALID_AUTHENTICATION' },
    })
  })

  test('takes 110 calls in ten seconds, says how many are left, and refuses more', async () => {
    const own = createSandbox(parseEnv({}).addressesAt(1))
    const init = { headers: { Authorization: `Bearer ${token()}` } }
    const read = () => own.request('/hubspot/crm/pipelines/2026-03/deals', init)
    const first = await read()
    expect(first.headers.get('X-HubSpot-RateLimit-Max')).toBe('110')
    expect(first.headers.get('X-HubSpot-RateLimit-Interval-Milliseconds')).toBe('10000')
    expect(first.headers.get('X-HubSpot-RateLimit-Remaining')).toBe('109')
    const answers = await Promise.all(Array.from({ length: 110 }, read))
    expect(answers.map(({ status }) => status)).toEqual([...Array(109).fill(200), 429])
    const refused = answers.at(-1)
    expect(await refused?.json()).toEqual({
      status: 'error',
      message: 'You have reached your ten_secondly_rolling limit.',
      errorType: 'RATE_LIMIT',
      policyName: 'TEN_SECONDLY_ROLLING',
      correlationId: uuid,
      requestId: uuid,
    })
  })
})

test('the stand-in HubSpot sends webhooks in batches, with mixed, repeated and disordered events', async () => {
  const items = v.array(
    v.looseObject({
      eventId: v.number(),
      subscriptionType: v.string(),
      attemptNumber: v.number(),
      objectId: v.optional(v.number()),
    }),
  )
  const webhooks: Array<v.InferOutput<typeof items>> = []
  const fetched = vi.spyOn(globalThis, 'fetch').mockImplementation(async (url, init) => {
    // The sandboxes of other tests still repeat webhooks to other ports.
    if (new Request(url).url === 'http://127.0.0.1:2/webhooks/hubspot') {
      webhooks.push(v.parse(items, await new Request(url, init).json()))
    }
    return new Response(null, { status: 204 })
  })
  const sandbox = createSandbox(parseEnv({}).addressesAt(2))
  const send = (path: string, form: Record<string, string>) =>
    sandbox.request(`/hubspot${path}`, { method: 'POST', body: new URLSearchParams(form) })
  // A busy machine must not split the batch.
  vi.useFakeTimers({ toFake: ['setTimeout'] })
  await send('/deals/9001', { change: 'stage', stage: 'closedwon' })
  await send('/deals/9002', { change: 'contact' })
  await send('/deals', { name: 'Hooli', amount: '1', stage: 'contractsent' })
  await send('/deals/merge', { deal: '9003', into: '9002' })
  vi.advanceTimersByTime(100)
  vi.useRealTimers()
  await vi.waitFor(() => expect(webhooks).toHaveLength(2), 5_000)
  fetched.mockRestore()

  const [first = [], second = []] = webhooks
  const kindsOf = (webhook: typeof first) => webhook.map(({ subscriptionType }) => subscriptionType)
  // The newest first. A client that reads only the first event sees no change of a stage.
  expect(kindsOf(first)).toEqual([
    'object.merge',
    'object.propertyChange',
    'object.creation',
    'object.associationChange',
    'object.propertyChange',
  ])
  expect(first.filter(({ propertyName }) => propertyName === 'dealstage')).toMatchObject([
    { objectId: 9005, objectTypeId: '0-3', propertyValue: 'contractsent', attemptNumber: 0 },
    { objectId: 9001, objectTypeId: '0-3', propertyValue: 'closedwon', attemptNumber: 0 },
  ])
  // Acknowledged, and yet sent again. A client that knows events by their attempt sees each twice.
  expect(second).toEqual(first.toReversed().map((item) => ({ ...item, attemptNumber: 1 })))
})

describe('the stand-in Slack', () => {
  const access = (code: string, changes: Record<string, string> = {}) =>
    post('/slack/api/oauth.v2.access', {
      client_id: harness.addresses.providers.slack.clientId,
      client_secret: harness.addresses.providers.slack.clientSecret,
      code,
      redirect_uri: `${appUrl}/slack/callback`,
      ...changes,
    })

  test('gives a token and a channel for a code, once', async () => {
    const code = await codeFrom('slack')
    expect((await access(code)).body).toMatchObject({
      ok: true,
      token_type: 'bot',
      access_token: expect.stringMatching(/^xoxb-/),
      team: { id: expect.any(String), name: expect.any(String) },
      incoming_webhook: { channel: '#deals', channel_id: 'C0DEALS001', url: expect.any(String) },
    })
    expect(await access(code)).toEqual({ status: 200, body: { ok: false, error: 'invalid_code' } })
  })

  test.each([
    [{ client_id: 'another' }, 'invalid_client_id'],
    [{ client_secret: 'wrong' }, 'bad_client_secret'],
    [{ redirect_uri: `${appUrl}/hubspot/callback` }, 'bad_redirect_uri'],
    [{ code: 'made-up' }, 'invalid_code'],
  ])('refuses %j with 200', async (changes, error) => {
    const answer = await access(await codeFrom('slack'), changes)
    expect(answer).toEqual({ status: 200, body: { ok: false, error } })
  })

  test('knows a token until it is revoked', async () => {
    const { body } = await access(await codeFrom('slack'))
    const headers = { Authorization: `Bearer ${body.access_token}` }
    const call = async (method: string, given = {}) =>
      (await post(`/slack/api/${method}`, {}, given)).body
    expect(await call('auth.test', headers)).toMatchObject({ ok: true, team: 'Acme (stand-in)' })
    expect(await call('auth.revoke', headers)).toEqual({ ok: true, revoked: true })
    expect(await call('auth.test', headers)).toEqual({ ok: false, error: 'token_revoked' })
    expect(await call('auth.test')).toEqual({ ok: false, error: 'not_authed' })
    expect(await call('auth.test', { Authorization: 'Bearer xoxb-x' })).toEqual({
      ok: false,
      error: 'invalid_auth',
    })
    expect(await call('no.such.method', headers)).toEqual({ ok: false, error: 'unknown_method' })
  })

  test('takes only access tokens, and refuses signed tokens of another form', async () => {
    const { clientSecret } = harness.addresses.providers.slack
    const tokens = new StandInTokens('xoxb-stand-in-', clientSecret)
    const stray = [
      tokens.issue({ grant: 'g', use: 'refresh', endsAt: null }),
      ...[undefined, 'text', { grant: 'g', use: 'both', endsAt: null }].map((content) =>
        tokens.issue(Object(content)),
      ),
    ]
    for (const token of stray) {
      for (const method of ['auth.test', 'auth.revoke', 'chat.postMessage']) {
        const headers = { Authorization: `Bearer ${token}` }
        expect((await post(`/slack/api/${method}`, {}, headers)).body).toEqual({
          ok: false,
          error: 'invalid_auth',
        })
      }
      const webhook = `/sandbox/slack/services/T0STANDIN1/C0SALES001/${token}`
      const init = { method: 'POST', body: JSON.stringify({ text: 'x' }) }
      expect((await harness.app.request(webhook, init)).status).toBe(403)
    }
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
  test.each<[string, unknown[]]>([
    ['invalid_blocks', [section({ text: text(3_001) })]],
    ['invalid_blocks', [section({ text: text(0) })]],
    ['invalid_blocks', [section({ text: { text: 'x' } })]],
    ['invalid_blocks', [section({ text: 'x' })]],
    ['invalid_blocks', [section({ text: { ...text(1), emoji: 'yes' } })]],
    // Text from a CRM could become markup there.
    ['invalid_blocks', [section({ text: text(1, 'mrkdwn') })]],
    ['invalid_blocks', [rich({ type: 'text', text: '' })]],
    ['invalid_blocks', [rich({ type: 'text', text: 'x', style: { big: true } })]],
    ['invalid_blocks', [rich({ type: 'link', url: 'no address', text: 'x' })]],
    ['invalid_blocks', [rich({ type: 'date', timestamp: '1', format: '{time}' })]],
    ['invalid_blocks', [rich({ type: 'blink', text: 'x' })]],
    ['invalid_blocks', [section({ text: text(1), colour: 'red' })]],
    ['invalid_blocks', [section({})]],
    ['invalid_blocks', [section({ fields: many(11, text(1)) })]],
    ['invalid_blocks', [section({ fields: [text(2_001)] })]],
    ['invalid_blocks', [{ text: text(1) }]],
    ['invalid_blocks', [{ type: 'unknown', text: text(1) }]],
    ['invalid_blocks', [header(text(1, 'text'))]],
    ['invalid_blocks', [header(text(151, 'plain_text'))]],
    ['invalid_blocks', [context([])]],
    ['invalid_blocks', [context(many(11, text(1)))]],
    ['invalid_blocks', [{ type: 'divider', text: text(1) }]],
    ['invalid_blocks', many(51, { type: 'divider' })],
    ['invalid_blocks', many(2, { type: 'divider', block_id: 'same' })],
    ['msg_blocks_too_long', many(4, section({ text: text(2_900) }))],
  ])('refuses with %s what no message may contain: %.80j', async (error, blocks) => {
    const { body } = await access(await codeFrom('slack'))
    const headers = { Authorization: `Bearer ${body.access_token}` }
    const say = async (some: unknown[]) => {
      const form = { channel: 'C0SALES001', text: 'x', blocks: JSON.stringify(some) }
      return (await post('/slack/api/chat.postMessage', form, headers)).body
    }
    expect(await say(blocks)).toMatchObject({ ok: false, error })
    const largest = [
      section({ text: text(3_000), block_id: 'a' }),
      section({ fields: [...many(9, text(1)), text(2_000, 'plain_text')] }),
      header(text(150, 'plain_text')),
      context(many(10, text(1))),
      ...many(46, { type: 'divider' }),
    ]
    expect(await say(largest)).toMatchObject({ ok: true })
  })

  test('offers only its channels', async () => {
    expect((await answerConsent('slack', { channel: 'C0OTHER' })).status).toBe(400)
  })

  describe('with an archived channel', () => {
    const channelPage = '/sandbox/slack/channels/C0DEALS001'
    const page = async (path: string) => (await harness.app.request(path)).text()
    const change = (value: string, headers = {}, path = channelPage) =>
      harness.app.request(path, {
        method: 'POST',
        body: new URLSearchParams({ change: value }),
        headers,
      })
    const consent = () => page(`${authorizePaths.slack}?${consentQuery('slack')}`)
    afterEach(() => change('unarchive'))

    test('says so on its pages, and does not let people choose the channel', async () => {
      expect(await page(channelPage)).toMatch(
        /<button [^>]*value="archive"[^>]*>\s*Archive #deals\s*</,
      )
      const archived = await change('archive')
      expect([archived.status, archived.headers.get('Location')]).toEqual([
        303,
        `${appUrl}${channelPage}`,
      ])
      expect(await page(channelPage)).toContain('<h1>#deals (archived)</h1>')
      expect(await page(channelPage)).toMatch(
        /<button [^>]*value="unarchive"[^>]*>\s*Unarchive #deals\s*</,
      )
      expect(await page('/sandbox/slack')).toMatch(/#deals<\/a> \(\d+\), archived/)
      expect(await consent()).not.toContain('C0DEALS001')
      expect((await answerConsent('slack')).status).toBe(400)

      await change('unarchive')
      expect(await page('/sandbox/slack')).not.toContain('archived')
      expect(await consent()).toContain('C0DEALS001')
    })

    test('refuses its messages as Slack does, until it is unarchived', async () => {
      const { body } = await access(await codeFrom('slack'))
      const headers = { Authorization: `Bearer ${body.access_token}` }
      const asBot = async (channel = 'C0DEALS001') =>
        (await post('/slack/api/chat.postMessage', { channel, text: 'x' }, headers)).body
      const { url } = v.parse(v.object({ url: v.string() }), body.incoming_webhook)
      const byWebhook = async (message: object, to = url) => {
        const init = { method: 'POST', body: JSON.stringify(message) }
        const answer = await harness.app.request(new URL(to).pathname, init)
        return [answer.status, await answer.text()]
      }
      const bold = { type: 'text', text: 'Bold', style: { bold: true } }
      const plain = { type: 'text', text: ' *not* <b>https://x.example</b>' }
      const message = { text: 'by the webhook', blocks: [rich(bold, plain)] }

      await change('archive')
      expect(await asBot()).toEqual({ ok: false, error: 'is_archived' })
      expect(await byWebhook(message)).toEqual([410, 'channel_is_archived'])
      await change('unarchive')
      // Nobody has invited the bot. Its webhook works.
      expect(await asBot()).toEqual({ ok: false, error: 'not_in_channel' })
      expect(await asBot('C0SALES001')).toMatchObject({ ok: true })
      expect(await byWebhook(message)).toEqual([200, 'ok'])
      expect(await page(channelPage)).toContain(
        '<strong>Bold</strong> *not* &lt;b&gt;https://x.example&lt;/b&gt;</p>',
      )

      expect(await byWebhook({})).toEqual([400, 'no_text'])
      expect(await byWebhook({ blocks: [5] })).toEqual([400, 'invalid_blocks'])
      expect(await byWebhook({ blocks: {} })).toEqual([400, 'invalid_blocks_format'])
      expect(await byWebhook(message, `${url}x`)).toEqual([403, 'invalid_token'])
      await post('/slack/api/auth.revoke', {}, headers)
      expect(await byWebhook(message)).toEqual([404, 'no_service'])
    })

    test('lets people deny, even if no channel is left to choose', async () => {
      const pages = ['C0SALES001', 'C0DEALS001', 'C0RANDOM01'].map(
        (id) => `/sandbox/slack/channels/${id}`,
      )
      for (const path of pages) await change('archive', {}, path)
      const shown = await consent()
      const denied = await answerConsent('slack', { answer: 'deny', channel: '' })
      for (const path of pages) await change('unarchive', {}, path)
      expect(shown).toContain('All channels are archived.')
      expect(shown).not.toContain('<select')
      expect(denied.headers.get('Location')).toContain('error=access_denied')
    })

    test('lets no page of another site archive a channel', async () => {
      const answer = await change('archive', { 'Sec-Fetch-Site': 'cross-site' })
      expect(answer.status).toBe(403)
      expect(await page(channelPage)).toContain('<h1>#deals</h1>')
    })
  })
})

test('tokens outlive a restart, and nobody else can make them', () => {
  const payload = { grant: 'g', use: 'access', endsAt: null } as const
  const token = new StandInTokens('t-', 'secret').issue(payload)
  expect(new StandInTokens('t-', 'secret').read(token)).toEqual(payload)
  expect(new StandInTokens('t-', 'other').read(token)).toBe('invalid')
  expect(new StandInTokens('t-', 'secret').read(`${token}x`)).toBe('invalid')
  const ended = new StandInTokens('t-', 'secret').issue({ ...payload, endsAt: Date.now() - 1 })
  expect(new StandInTokens('t-', 'secret').read(ended)).toBe('expired')
})

describe('the contact form', () => {
  test('can stand in a sandboxed frame of the dashboard, and thanks', async () => {
    const form = await harness.app.request('/sandbox/contact-form')
    const policy = form.headers.get('Content-Security-Policy') ?? ''
    expect(policy).toContain("frame-ancestors 'self'")
    // In a frame without an origin of its own, 'self' may match nothing.
    expect(policy).toContain(`form-action 'self' ${appUrl}`)
    expect(policy).toContain(`style-src 'self' ${appUrl}`)
    expect(form.headers.get('X-Frame-Options')).toBeNull()
    const page = await form.text()
    expect(page).toContain('Stand-in.')
    expect(page.match(/<label>/g)).toHaveLength(3)

    const sent = await harness.app.request('/sandbox/contact-form', {
      method: 'POST',
      body: new URLSearchParams({ name: 'a', email: 'a@b.example', message: 'c' }),
      headers: { Origin: 'null', 'Sec-Fetch-Site': 'cross-site' },
    })
    expect(sent.status).toBe(200)
    expect(sent.headers.get('Content-Security-Policy')).toContain("frame-ancestors 'self'")
    expect(await sent.text()).toContain('Thank you')
  })

  test('has its stylesheet', async () => {
    const answer = await harness.app.request('/sandbox/style.css')
    expect(answer.headers.get('Content-Type')).toContain('text/css')
    // A frame without an origin must be able to load it.
    expect(answer.headers.get('Access-Control-Allow-Origin')).toBe('*')
  })
})

test('with real accounts there is no stand-in but the contact form’s', async () => {
  const real = createSandbox(
    parseEnv({
      HUBSPOT_CLIENT_ID: 'a',
      HUBSPOT_CLIENT_SECRET: 'b',
      SLACK_CLIENT_ID: 'c',
      SLACK_CLIENT_SECRET: 'd',
    }).addressesAt(3000),
  )
  const mixed = createSandbox(
    parseEnv({
      HUBSPOT_CLIENT_ID: 'a',
      HUBSPOT_CLIENT_SECRET: 'b',
      ALLOW_STAND_INS: 'true',
    }).addressesAt(3000),
  )
  expect((await real.request('/contact-form')).status).toBe(200)
  expect((await real.request('/hubspot/oauth/authorize')).status).toBe(404)
  expect((await real.request('/slack/oauth/v2/authorize')).status).toBe(404)
  expect((await mixed.request('/hubspot/oauth/authorize')).status).toBe(404)
  expect((await mixed.request('/slack/oauth/v2/authorize')).status).toBe(400)
})

describe('a stand-in that is attacked', () => {
  test.each([
    ['/hubspot/deals', { name: 'Planted', stage: 'contractsent' }],
    ['/hubspot/deals/1', { change: 'contact' }],
    ['/hubspot/deals/merge', { deal: '1', into: '2' }],
    ['/slack/channels/C0RANDOM01', { change: 'archive' }],
  ])('changes nothing for another site: %s', async (path, fields) => {
    const page = async () => (await harness.app.request('/sandbox/hubspot/deals')).text()
    const before = await page()
    const answer = await harness.app.request(`/sandbox${path}`, {
      method: 'POST',
      body: new URLSearchParams(Object.entries(fields)),
      headers: { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' },
    })
    expect(answer.status).toBe(403)
    expect(await page()).toBe(before)
  })

  const form = (fields: Record<string, string>) => ({
    method: 'POST',
    body: new URLSearchParams(fields),
  })

  async function slackToken(): Promise<string> {
    const { body } = await post('/slack/api/oauth.v2.access', {
      client_id: harness.addresses.providers.slack.clientId,
      client_secret: harness.addresses.providers.slack.clientSecret,
      code: await codeFrom('slack'),
      redirect_uri: `${appUrl}/slack/callback`,
    })
    return String(body.access_token)
  }

  const channel = 'C0SALES001'
  const view = async () => (await harness.app.request(`/sandbox/slack/channels/${channel}`)).text()

  test.each(['<', '*', '<!', '<https:', '&lt;'])(
    'shows messages of many %s in a moment',
    async (piece) => {
      const headers = { Authorization: `Bearer ${await slackToken()}` }
      const text = piece.repeat(20_000).slice(0, 20_000)
      for (let n = 0; n < 20; n++) {
        const { body } = await post('/slack/api/chat.postMessage', { channel, text }, headers)
        expect(body).toMatchObject({ ok: true })
      }
      const before = process.threadCpuUsage()
      await view()
      const { user } = process.threadCpuUsage(before)
      // With a search from each `<` to the end, one such message takes 150 ms.
      expect(user / 1_000).toBeLessThan(1_000)
    },
  )

  test('refuses blocks that Slack refuses, and keeps a bounded amount of messages', async () => {
    const headers = { Authorization: `Bearer ${await slackToken()}` }
    const say = async (text: string) => {
      const blocks = JSON.stringify([{ type: 'section', text: { type: 'plain_text', text } }])
      return (await post('/slack/api/chat.postMessage', { channel, text: 'x', blocks }, headers))
        .body
    }
    expect(await say('x'.repeat(3_001))).toMatchObject({ ok: false, error: 'invalid_blocks' })
    for (let n = 0; n < 100; n++) await say(`message ${n} ${'x'.repeat(2_900)}`)
    const page = await view()
    expect(page).toContain('message 99 ')
    expect(page).not.toContain('message 0 ')
    expect(page.length).toBeLessThan(400_000)
    for (let n = 0; n < 250; n++) await say(`short ${n} `)
    expect((await view()).match(/short \d+ /g)).toHaveLength(200)
  })

  test('keeps the newest 500 deals, with bounded names and histories', async () => {
    // The server of this address does not exist, so webhooks stay in their queue.
    const sandbox = createSandbox(parseEnv({}).addressesAt(1))
    const create = (name: string) =>
      sandbox.request('/hubspot/deals', form({ name, amount: '1', stage: 'contractsent' }))
    for (let n = 0; n < 600; n++) await create(`Deal ${n} ${'x'.repeat(1_000)}`)
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
    ['GET', '/hubspot/crm/objects/2026-03/0-3/1%0a'],
    ['GET', '/slack/channels/1%0a'],
  ])('answers no malformed id with 5xx: %s %s', async (method, path) => {
    const answer = await harness.app.request(`/sandbox${path}`, { method })
    expect(answer.status).toBeGreaterThanOrEqual(400)
    expect(answer.status).toBeLessThan(500)
  })

  test.each(['multipart/form-data', 'multipart/form-data; boundary=x'])(
    'answers a malformed body of type %s with 400',
    async (type) => {
      for (const path of [
        '/hubspot/deals',
        '/hubspot/deals/9001',
        '/hubspot/deals/merge',
        '/hubspot/oauth/authorize',
        '/hubspot/oauth/2026-03/token',
        '/slack/oauth/v2/authorize',
        '/slack/api/chat.postMessage',
      ]) {
        const answer = await harness.app.request(`/sandbox${path}`, {
          method: 'POST',
          headers: { 'Content-Type': type },
          body: 'no form',
        })
        expect(`${path} ${answer.status}`).toBe(`${path} 400`)
      }
    },
  )
})

test('a body over 64 KiB is not read', async () => {
  const body = new URLSearchParams({ message: 'x'.repeat(64 * 1024) })
  const answer = await harness.app.request('/sandbox/contact-form', { method: 'POST', body })
  expect(answer.status).toBe(413)
})
