import { createHash } from 'node:crypto'
import { describe, expect, test, vi } from 'vitest'
import { lookBackMs } from '../../server/relay/search/search.ts'
import { standInPaths } from '../../server/settings/providers.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { StandInTokens } from '../../stand-ins/tokens.ts'
import { appUrl, shareHarness } from './harness.ts'

const harness = await shareHarness()

const scope =
  'oauth crm.objects.deals.read crm.objects.contacts.read crm.objects.companies.read crm.schemas.deals.read'
const verifier = 'v'.repeat(43)

const consentPaths = { hubspot: '/hubspot/oauth/authorize', slack: '/slack/oauth/v2/authorize' }
const tokenPaths = { hubspot: '/hubspot/oauth/2026-03/token', slack: '/slack/api/oauth.v2.access' }

const hostile = '"><script>alert(1)</script><img src=x onerror=x>'

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

describe.each(['hubspot', 'slack'] as const)('the consent page of the stand-in %s', (provider) => {
  test('says that it is a stand-in, and writes what it is given as text', async () => {
    const shown = await (await consentPage(provider, { state: hostile })).text()
    expect(shown).toMatch(/Stand-in\.[\s\S]*This is not (HubSpot|Slack)/)
    expect(shown).not.toMatch(/<(script|img|style)|style=|onclick/)
  })

  test.each<Fields>([
    { client_id: hostile },
    { redirect_uri: `${appUrl}.evil.example/${provider}/callback` },
    { scope: provider === 'hubspot' ? scope.replace('oauth ', '') : 'users:read.email' },
  ])('refuses to redirect for %j', async (changes) => {
    const answer = await consentPage(provider, changes)
    expect(answer.status).toBe(400)
    expect(await answer.text()).not.toContain(hostile)
    expect(await answerConsent(provider, changes)).toEqual({ status: 400, back: null })
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

test.each<[Provider, Fields, string]>([
  ['hubspot', {}, 'BAD_AUTH_CODE'],
  ['hubspot', { client_secret: 'wrong' }, 'BAD_CLIENT_SECRET'],
  ['hubspot', { redirect_uri: `${appUrl}/slack/callback` }, 'BAD_REDIRECT_URI'],
  ['hubspot', { code_verifier: 'w'.repeat(43) }, 'BAD_CODE_VERIFIER'],
  ['slack', {}, 'invalid_code'],
  ['slack', { client_secret: 'wrong' }, 'bad_client_secret'],
  ['slack', { redirect_uri: `${appUrl}/hubspot/callback` }, 'bad_redirect_uri'],
])(
  'the stand-in %s gives tokens for a code once, and none for %j',
  async (provider, changes, error) => {
    const code = await codeFrom(provider)
    if (Object.keys(changes).length === 0) {
      expect((await exchange(provider, code)).body).toHaveProperty('access_token')
    }
    const { body } = await exchange(provider, code, changes)
    expect(provider === 'hubspot' ? body.status : body.error).toBe(error)
  },
)

test('the stand-in HubSpot finds changed deals, but a change only after some seconds', async () => {
  const addresses = parseEnv({}).addressesAt(1)
  const sandbox = createSandbox(addresses)
  const tokens = new StandInTokens('hubspot-stand-in-', addresses.providers.hubspot.clientSecret)
  const scopes = scope.split(' ')
  const token = tokens.issue({ grant: 'g', use: 'access', endsAt: Date.now() + 1e9, scopes })
  async function changedSince(since: number): Promise<string[]> {
    const filter = { propertyName: 'hs_lastmodifieddate', operator: 'GTE', value: String(since) }
    const filterGroups = [{ filters: [filter] }]
    const sorts = ['hs_lastmodifieddate']
    const answer = await sandbox.request('/hubspot/crm/objects/2026-03/0-3/search', {
      method: 'POST',
      headers: { ...bearer(token), 'Content-Type': 'application/json' },
      body: JSON.stringify({ filterGroups, sorts, properties: [], limit: 200, after: '0' }),
    })
    return (await answer.json()).results.map(({ id }: { id: string }) => id)
  }
  const change = async (path: string, form: Fields) => {
    const body = new URLSearchParams(form)
    expect((await sandbox.request(`/hubspot${path}`, { method: 'POST', body })).status).toBe(303)
  }
  // A restart repeats the first moves for users who have been connected for weeks. The relay sends nothing about them.
  expect(await changedSince(Date.now() - lookBackMs)).toEqual([])
  expect(await changedSince(Date.now() - 6 * 86_400_000)).toHaveLength(4)

  vi.useFakeTimers({ toFake: ['Date'] })
  const recent = () => changedSince(Date.now() - 60_000)
  await change('/deals/9001', { change: 'stage', stage: 'closedwon' })
  await change('/deals', { name: 'Hooli', stage: 'closedwon' })
  expect(await recent()).toEqual([])
  vi.setSystemTime(Date.now() + 2_000)
  expect(await recent()).toEqual(['9001', '9005'])
  vi.useRealTimers()
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

  const text = (length: number, type = 'plain_text') => ({ type, text: 'x'.repeat(length) })
  const rich = (...elements: object[]) => ({
    type: 'rich_text',
    elements: [{ type: 'rich_text_section', elements }],
  })
  const section = (more: object) => ({ type: 'section', ...more })
  const divider = { type: 'divider' }
  const header = (of: object) => ({ type: 'header', text: of })
  const many = <Each>(count: number, each: Each) => Array.from({ length: count }, () => each)
  const refusedBlocks = [
    [section({ text: text(3_001) })],
    // Text from a CRM could become markup there.
    [section({ text: text(1, 'mrkdwn') })],
    [rich({ type: 'text', text: '' })],
    [rich({ type: 'link', url: 'no address', text: 'x' })],
    [rich({ type: 'user', user_id: '!channel' })],
    [section({ text: text(1), colour: 'red' })],
    [header(text(151))],
    many(51, divider),
  ]
  test('takes the largest blocks that a message may contain, and refuses what it may not', async () => {
    const { say } = await bot()
    const largest = [section({ text: text(3_000) }), header(text(150)), ...many(48, divider)]
    expect(await say({ blocks: JSON.stringify(largest) })).toMatchObject({ ok: true })
    for (const blocks of refusedBlocks.map((each) => JSON.stringify(each))) {
      const answer = await say({ blocks })
      expect(answer, blocks.slice(0, 200)).toMatchObject({ ok: false, error: 'invalid_blocks' })
    }
    const blocks = JSON.stringify(many(4, section({ text: text(2_900) })))
    expect(await say({ blocks })).toMatchObject({ ok: false, error: 'msg_blocks_too_long' })
  })

  const changeChannel = (change: 'archive' | 'unarchive') => submit(channelPage, { change })

  test('refuses messages as Slack does, also those for an archived channel until it is unarchived', async () => {
    const { headers, say, webhook } = await bot()
    const channel = 'C0DEALS001'
    const byWebhook = async (message: object) => {
      const answer = await request(webhook, { method: 'POST', body: JSON.stringify(message) })
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

test('with real accounts there is no stand-in but the contact form’s, and at a public address not even that', async () => {
  const hubspot = { HUBSPOT_CLIENT_ID: 'a', HUBSPOT_CLIENT_SECRET: 'b' }
  const slack = { SLACK_CLIENT_ID: 'c', SLACK_CLIENT_SECRET: 'd' }
  const statusesWith = async (env: Fields) => {
    const sandbox = createSandbox(parseEnv(env).addressesAt(3000))
    const paths = ['/contact-form', '/hubspot/oauth/authorize', '/slack/oauth/v2/authorize']
    return Promise.all(paths.map(async (path) => (await sandbox.request(path)).status))
  }
  expect(await statusesWith({ ...hubspot, ...slack })).toEqual([200, 404, 404])
  const publicly = { ...hubspot, ...slack, APP_URL: 'https://bell.example.com' }
  expect(await statusesWith(publicly)).toEqual([404, 404, 404])
  expect(standInPaths(parseEnv(publicly).addressesAt(3000))).toEqual({})
  expect(await statusesWith({ ...hubspot, ALLOW_STAND_INS: 'true' })).toEqual([200, 404, 400])
})

test.each<[string, Fields]>([
  ['/hubspot/deals', { name: 'Planted', stage: 'contractsent' }],
  ['/slack/channels/C0RANDOM01', { change: 'archive' }],
])('another site changes nothing of a stand-in: %s', async (path, fields) => {
  const pages = async () =>
    (await pageAt('/hubspot/deals')) + (await pageAt('/slack/channels/C0DEALS001'))
  const before = await pages()
  const headers = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }
  expect((await submit(path, fields, headers)).status).toBe(403)
  expect(await pages()).toBe(before)
})

test('the stand-in HubSpot promises no message: the chat may be disconnected, or no rule applies', async () => {
  const moved = await submit('/hubspot/deals/9001', { change: 'stage', stage: 'closedlost' })
  const page = await pageAt((moved.headers.get('Location') ?? '').replace(/^.*sandbox/, ''))
  expect(page).toContain('Reported to Dealbell.')
  expect(page).not.toMatch(/the message/i)
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
  // The body of each POST is no form.
  ['POST', '/hubspot/deals'],
  ['POST', '/hubspot/oauth/authorize'],
])('a stand-in answers what is malformed with 4xx: %s %s', async (method, path) => {
  for (const type of ['multipart/form-data', 'multipart/form-data; boundary=x']) {
    const form = { headers: { 'Content-Type': type }, body: 'no form' }
    const { status } = await request(path, { method, ...(method === 'POST' && form) })
    expect(`${status}`).toMatch(/^4\d\d$/)
  }
})
