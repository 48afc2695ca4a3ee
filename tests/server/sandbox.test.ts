import { createHash } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { createSandbox } from '../../server/sandbox/sandbox.ts'
import { StandInTokens } from '../../server/sandbox/tokens.ts'
import { parseEnv } from '../../server/settings.ts'
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
    expect(body).toMatchObject({ token_type: 'bearer', expires_in: 1800, hub_id: 4_200_001 })
    const again = await exchange(code)
    expect(again.status).toBe(400)
    expect(again.body).toMatchObject({
      error: 'invalid_grant',
      status: 'BAD_AUTH_CODE',
      message: expect.any(String),
      correlationId: expect.any(String),
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
    expect((await exchange(await codeFrom('hubspot'), changes)).body).toMatchObject({ status })
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
    expect(await introspect(refreshed.body.access_token)).toMatchObject({
      active: true,
      token_use: 'access_token',
      hub_id: 4_200_001,
      hub_domain: expect.any(String),
    })

    await post('/hubspot/oauth/2026-03/token/revoke', { ...client(), token: refresh_token })
    expect(await introspect(refreshed.body.access_token)).toEqual({ active: false })
    expect((await refresh()).body).toMatchObject({
      error: 'invalid_grant',
      status: 'BAD_REFRESH_TOKEN',
    })
  })
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

  test('offers only its channels', async () => {
    expect((await answerConsent('slack', { channel: 'C0OTHER' })).status).toBe(400)
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

  const channel = 'C0RANDOM01'
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
      const startedAt = performance.now()
      await view()
      // With a search from each `<` to the end, one such message takes 150 ms.
      expect(performance.now() - startedAt).toBeLessThan(1_000)
    },
  )

  test('refuses blocks that Slack refuses, and keeps a bounded amount of messages', async () => {
    const headers = { Authorization: `Bearer ${await slackToken()}` }
    const say = async (text: string) => {
      const blocks = JSON.stringify([{ type: 'section', text: { type: 'mrkdwn', text } }])
      return (await post('/slack/api/chat.postMessage', { channel, text: 'x', blocks }, headers))
        .body
    }
    expect(await say('x'.repeat(3_001))).toEqual({ ok: false, error: 'invalid_blocks' })
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
    ['GET', '/hubspot/contacts/1/record/0-3/1%0d%0aX:%20y'],
    ['GET', '/hubspot/contacts/1/record/0-3/%E0%A4%A'],
    ['POST', '/hubspot/deals/1%0a'],
    ['GET', '/hubspot/crm/v3/objects/0-3/1%0a'],
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
