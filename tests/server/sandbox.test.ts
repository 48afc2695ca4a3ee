import { createHash } from 'node:crypto'
import type { Hono } from 'hono'
import { beforeEach, describe, expect, test, vi } from 'vitest'
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
  const uuid = expect.stringMatching(/^[\da-f-]{36}$/)

  const objects = '/crm/objects/2026-03/0-3'
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

  const batch = `${objects}/batch/read`
  const fields = { properties: ['dealname'], propertiesWithHistory: ['dealstage'] }
  const inputs = (...ids: number[]) => ({ inputs: ids.map((id) => ({ id: String(id) })) })
  const many = inputs(...Array(51).keys())
  const notFound = { status: 'error', category: 'OBJECT_NOT_FOUND', correlationId: uuid }
  const invalid = { category: 'VALIDATION_ERROR' }
  const ofOwner = '/crm/owners/2026-03'
  test.each<[what: string, path: string, status: number, body: object, json?: object]>([
    ['a deal that does not exist', `${objects}/1`, 404, { ...notFound, context: { id: ['1'] } }],
    ['a batch without a field that is required', batch, 400, invalid, inputs(9001)],
    ['too many deals with their history', batch, 400, invalid, { ...fields, ...many }],
    ['an archived owner, if not asked for as such', `${ofOwner}/4002`, 404, notFound],
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

  const oneDeal = `${objects}/9001`
  const ofOthers = () =>
    new StandInTokens('hubspot-stand-in-', 'other').issue({
      grant: 'g',
      use: 'access',
      endsAt: 1e13,
    })
  const ofScope = () => token(['another'])
  test.each<[string, path: string, () => string, status: number, category: string]>([
    ['is made by somebody else', oneDeal, ofOthers, 401, 'INVALID_AUTHENTICATION'],
    ['has expired', oneDeal, () => token([], Date.now() - 1_000), 401, 'EXPIRED_AUTHENTICATION'],
    ['has not the scope of deals', oneDeal, ofScope, 403, 'MISSING_SCOPES'],
  ])('refuses an access token that %s', async (_, path, made, status, category) => {
    const body = { status: 'error', category, correlationId: uuid }
    expect(await call(path, undefined, made())).toMatchObject({ status, body })
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
    [section({ text: { type: 'plain_text', text: ' \n ' } })],
    // Text from a CRM could become markup there.
    [section({ text: text(1, 'mrkdwn') })],
    [rich({ type: 'text', text: '' })],
    [rich()],
    [rich({ type: 'link', url: 'no address', text: 'x' })],
    [rich({ type: 'date', timestamp: '1', format: '{time}' })],
    [rich({ type: 'user', user_id: '!channel' })],
    [section({ text: text(1), colour: 'red' })],
    [section({ fields: many(11, text(1)) })],
    [section({ fields: [text(2_001)] })],
    [{ type: 'unknown', text: text(1) }],
    [header(text(151))],
    [context(many(11, text(1)))],
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
    expect(await byWebhook(message, `${webhook}x`)).toBe('403 invalid_token')
    await method('auth.revoke', {}, headers)
    expect(await byWebhook(message)).toBe('404 no_service')
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
