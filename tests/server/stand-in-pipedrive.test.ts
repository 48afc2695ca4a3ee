import { expect, onTestFinished, test, vi } from 'vitest'
import { answerError } from '../../server/http/errors.ts'
import { logTo } from '../../server/log.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { StandInTokens } from '../../stand-ins/tokens.ts'
import { complaintsOfAnswer, complaintsOfDeal } from '../pipedrive-openapi.ts'

type Fields = Record<string, string>

const ada = 6001
const ben = 6002
const ofAda = 1
const ofBen = 2

/** Reads an answer, which must be as Pipedrive describes it. */
async function understood(call: string, answer: Response) {
  const { status, headers } = answer
  const body = await answer.json()
  expect(complaintsOfAnswer(call, status, body)).toEqual([])
  return { status, headers, body }
}

/** Starts the stand-in. What it sends to the app gets `answer.status`, and nothing is sent over a network. */
function start() {
  vi.useFakeTimers({
    toFake: ['Date', 'performance', 'setTimeout'],
    now: new Date('2026-11-20T12:00:00Z'),
  })
  const answer = { status: 204 }
  const sent: {
    url: string
    method: string
    auth: string | null
    redirect: unknown
    body: Webhook
  }[] = []
  const fetch = vi
    .spyOn(globalThis, 'fetch')
    .mockImplementation((url, { method, headers, body, redirect } = {}) => {
      const auth = new Headers(headers).get('Authorization')
      sent.push({ url: `${url}`, method: `${method}`, auth, redirect, body: JSON.parse(`${body}`) })
      // A webhook tells of a deal in the form in which the API does.
      const { data = null, previous = null } = sent.at(-1)?.body ?? {}
      for (const deal of [data, previous]) if (deal) expect(complaintsOfDeal(deal)).toEqual([])
      return Promise.resolve(new Response(null, { status: answer.status }))
    })
  onTestFinished(() => {
    fetch.mockRestore()
    vi.useRealTimers()
  })
  const addresses = parseEnv({ VITE_CRM_NAME: 'Pipedrive' }).addressesAt(3000)
  const { appUrl, apiUrl, providers } = addresses
  const { clientId, clientSecret, webhookUrl = '' } = providers.pipedrive
  const redirectUri = `${appUrl}/pipedrive/callback`
  const app = `Basic ${btoa(`${clientId}:${clientSecret}`)}`
  /** Those of an admin. */
  const tokens = new StandInTokens(`pipedrive-stand-in-${ada}-`, `${clientSecret}/${ada}`)
  const sandbox = createSandbox(addresses).onError(answerError(logTo(() => {})))

  const request = async (path: string, init: RequestInit = {}) =>
    await sandbox.request(`/pipedrive${path}`, init)
  const submit = (path: string, form: Fields, headers: Fields = {}) =>
    request(path, { method: 'POST', body: new URLSearchParams(form), headers })
  const press = (deal: number, change: string, more: Fields = {}) =>
    submit(`/deals/${deal}`, { change, ...more })

  /** Answers the consent page. @returns the address to which it leads. */
  async function consent(form: Fields): Promise<URL> {
    const asked = { client_id: clientId, redirect_uri: redirectUri, state: 'the-state' }
    const allowed = await submit('/oauth/authorize', { ...asked, ...form })
    return new URL(allowed.headers.get('Location') ?? '')
  }
  async function token(form: Fields, auth = app) {
    const answer = await submit('/oauth/token', form, { Authorization: auth })
    return await understood('POST /oauth/token', answer)
  }
  const exchange = (code: string | null, redirect_uri = redirectUri) =>
    token({ grant_type: 'authorization_code', code: code ?? '', redirect_uri })

  /** Connects a user. @returns the tokens, and a function that calls the API with them. */
  async function connect(user: number) {
    const back = await consent({ answer: 'allow', user: `${user}` })
    const { access_token, refresh_token } = (await exchange(back.searchParams.get('code'))).body
    const call = async (path: string, method = 'GET', body?: object) => {
      const headers = {
        Authorization: `Bearer ${access_token}`,
        'Content-Type': 'application/json',
      }
      const content = body && { body: JSON.stringify(body) }
      const answer = await request(`/api${path}`, { method, headers, ...content })
      return await understood(`${method} /api${path}`, answer)
    }
    const subscribe = (url = webhookUrl) =>
      call('/v1/webhooks', 'POST', {
        subscription_url: url,
        event_action: '*',
        event_object: 'deal',
        name: 'Dealbell',
        http_auth_user: 'company',
        http_auth_password: `of ${user}`,
      })
    const dealIds = async (query = '') =>
      (await call(`/v2/deals${query}`)).body.data.map(({ id }: { id: number }) => id)
    return { access_token, refresh_token, call, subscribe, dealIds }
  }

  const acts = { request, submit, press, consent, token, exchange, connect }
  return { ...acts, answer, sent, tokens, app, apiUrl, redirectUri }
}

interface Webhook {
  meta: Record<string, unknown>
  data: object | null
  previous: object | null
}

const wait = (ms: number) => vi.advanceTimersByTimeAsync(ms)

test('an admin sees all deals, and another user neither sees nor is told of those of others', async () => {
  const { connect, press, sent } = start()
  const [a, b] = [await connect(ada), await connect(ben)]
  expect(await a.dealIds()).toEqual([1, 2, 3, 4])
  expect(await b.dealIds()).toEqual([2, 4])
  for (const path of ['/v2/deals/1', '/v1/deals/1/changelog']) {
    expect((await a.call(path)).status).toBe(200)
    expect((await b.call(path)).status).toBe(404)
  }
  for (const { subscribe } of [a, b]) expect((await subscribe()).status).toBe(201)
  await press(ofAda, 'won')
  await press(ofBen, 'stage', { stage: '20' })
  await wait(0)
  const owner = (id: number) => ({ webhook_owner_id: `${id}` })
  const won = { status: 'won', stage_id: 13, won_time: '2026-11-20T12:00:00Z' }
  const moved = { stage_id: 12, pipeline_id: 1 }
  const both = [`${ada}`, `${ben}`]
  expect(sent.map(({ body }) => body)).toMatchObject([
    {
      meta: { ...owner(ada), permitted_user_ids: [`${ada}`] },
      data: won,
      previous: { status: 'open' },
    },
    { meta: { ...owner(ada), permitted_user_ids: both }, previous: moved },
    { meta: { ...owner(ben), permitted_user_ids: both }, previous: moved },
  ])
  expect(sent[2]).toMatchObject({
    url: 'http://127.0.0.1:3000/webhooks/pipedrive',
    auth: `Basic ${btoa(`company:of ${ben}`)}`,
  })
})

test('a list says what changed since a time, in its order and in pages', async () => {
  const { connect, press } = start()
  const { dealIds, call } = await connect(ada)
  await press(3, 'lost')
  await wait(1_000)
  await press(1, 'amount', { amount: '7.5' })
  const order = 'sort_by=update_time&sort_direction=asc'
  expect(await dealIds(`?updated_since=2026-11-20T12:00:00Z&${order}`)).toEqual([3, 1])
  expect(await dealIds('?updated_since=2026-11-20T12:00:01Z')).toEqual([1])
  expect(await dealIds('?ids=4,2,99')).toEqual([2, 4])
  const { body } = await call(`/v2/deals?${order}&limit=3`)
  expect(body.data).toHaveLength(3)
  expect(await dealIds(`?${order}&limit=3&cursor=${body.additional_data.next_cursor}`)).toEqual([1])
  for (const wrong of ['limit=501', 'cursor=!', 'sort_by=title', 'updated_since=yesterday']) {
    expect((await call(`/v2/deals?${wrong}`)).status).toBe(400)
  }
  const changes = (await call('/v1/deals/1/changelog?limit=1')).body
  const time = '2026-11-20 12:00:01'
  expect(changes.data).toMatchObject([
    { field_key: 'value', old_value: '12500', new_value: '7.5', time },
  ])
  expect(changes.additional_data.next_cursor).toEqual(expect.any(String))
})

test('the users of the company share its tokens of a day, and each has a burst limit', async () => {
  const { connect, submit } = start()
  const [a, b] = [await connect(ada), await connect(ben)]
  const left = (await a.call('/v1/deals/1/changelog')).headers
  expect(left.get('x-daily-ratelimit-token-remaining')).toBe('29980')
  for (let calls = 1; calls < 80; calls++) await a.call('/v2/deals/1')
  expect((await a.call('/v2/deals/1')).status).toBe(429)
  expect((await b.call('/v2/deals/2')).status).toBe(200)
  await wait(2_001)
  expect((await a.call('/v2/deals/1')).status).toBe(200)

  await submit('/deals/tokens', { change: 'use' })
  const refused = await b.call('/v2/deals/2')
  expect(refused.status).toBe(429)
  expect(refused.headers.get('x-daily-ratelimit-token-remaining')).toBe('0')
  vi.setSystemTime('2026-11-21T00:00:00Z')
  const again = await connect(ben)
  expect((await again.call('/v2/deals/2')).status).toBe(200)
})

test('a webhook that fails comes again after 3, 30 and 150 seconds', async () => {
  const { connect, press, sent, answer } = start()
  const { call, subscribe } = await connect(ada)
  const { id } = (await subscribe()).body.data
  answer.status = 302
  await press(ofAda, 'lost')
  const attempts = () => sent.map(({ body }) => body.meta.attempt)
  for (const [n, ms] of [3_000, 30_000, 150_000].entries()) {
    await wait(ms - 1)
    expect(attempts()).toHaveLength(n + 1)
    await wait(1)
  }
  expect(attempts()).toEqual([1, 2, 3, 4])
  await wait(1_000_000)
  answer.status = 200
  await press(ofAda, 'open')
  await wait(1_000_000)
  expect(attempts()).toEqual([1, 2, 3, 4, 1])
  // A redirect is never followed, and a deleted webhook not repeated.
  expect(new Set(sent.map(({ redirect }) => redirect))).toEqual(new Set(['manual']))
  answer.status = 500
  await press(ofAda, 'won')
  await call(`/v1/webhooks/${id}`, 'DELETE')
  await wait(1_000_000)
  expect(attempts()).toEqual([1, 2, 3, 4, 1, 1])
})

test('ten first tries that fail ban a webhook for half an hour, and what happens then is lost', async () => {
  const { connect, press, sent, answer, request } = start()
  await (await connect(ada)).subscribe()
  answer.status = 500
  let made = 0
  async function moves(count: number) {
    for (const to = made + count; made < to; made++) {
      await press(ofAda, 'stage', { stage: `${10 + (made % 2)}` })
    }
    await wait(0)
  }
  const page = async () => (await request('/deals')).text()
  // Only first tries count.
  await moves(9)
  await wait(200_000)
  expect(sent).toHaveLength(4 * 9)
  expect(await page()).not.toContain('banned')
  await moves(1)
  expect(await page()).toContain('banned until 12:33 UTC')
  // The repeats of the tenth.
  await wait(200_000)
  expect(sent).toHaveLength(4 * 10)
  await moves(2)
  await wait(30 * 60_000)
  expect(sent).toHaveLength(4 * 10)
  // The ban has set back the number of failures.
  await moves(2)
  expect(sent).toHaveLength(4 * 10 + 2)
  expect(await page()).not.toContain('banned')
})

test('a user has at most 40 webhooks, each at this server, and nobody deletes those of another', async () => {
  const { connect, apiUrl } = start()
  const [a, b] = [await connect(ada), await connect(ben)]
  for (const url of ['https://example.com/', 'http://localhost:3001/x', 'no address']) {
    expect((await a.subscribe(url)).status).toBe(400)
  }
  for (let n = 0; n < 40; n++) expect((await b.subscribe(`${apiUrl}/${n}`)).status).toBe(201)
  await wait(2_001)
  expect((await b.subscribe()).status).toBe(422)
  const made = (await b.call('/v1/webhooks')).body.data
  expect(made).toHaveLength(40)
  const path = `/v1/webhooks/${made[0].id}`
  expect((await a.call('/v1/webhooks')).body.data).toEqual([])
  const statuses = [a, b, b].map(async ({ call }) => (await call(path, 'DELETE')).status)
  expect(await Promise.all(statuses)).toEqual([403, 200, 404])
})

test('a token is for its use and its scopes', async () => {
  const { connect, request, tokens } = start()
  const status = async (token: string) => {
    const headers = { Authorization: `Bearer ${token}` }
    return (await request('/api/v2/deals/1', { headers })).status
  }
  const { access_token, refresh_token } = await connect(ada)
  expect(await status(access_token)).toBe(200)
  expect(await status(refresh_token)).toBe(401)
  const grant = { grant: 'g', use: 'access', endsAt: Date.now() + 1_000 } as const
  const token = tokens.issue({ ...grant, scopes: ['deals:read'] })
  expect(await status(tokens.issue({ ...grant, scopes: ['base'] }))).toBe(403)
  expect(await status(token)).toBe(200)
  await wait(1_001)
  expect(await status(token)).toBe(401)
})

test('an uninstallation ends tokens and webhooks of this user only, and the app is told', async () => {
  const { connect, submit, sent, press, token, app, redirectUri } = start()
  const [a, b] = [await connect(ada), await connect(ben)]
  for (const { subscribe } of [a, b]) await subscribe()
  await submit('/uninstall', { user: `${ben}` })
  expect(sent.splice(0)).toMatchObject([
    {
      method: 'DELETE',
      url: redirectUri.replace('localhost', '127.0.0.1'),
      auth: app,
      body: { client_id: 'dealbell-stand-in-pipedrive', company_id: 5_300_001, user_id: ben },
    },
  ])
  expect((await b.call('/v1/users/me')).status).toBe(401)
  const refresh = ({ refresh_token }: { refresh_token: string }) =>
    token({ grant_type: 'refresh_token', refresh_token })
  expect(await refresh(b)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  // The same refresh token comes back.
  expect(await refresh(a)).toMatchObject({ body: { refresh_token: a.refresh_token } })
  await press(ofBen, 'won')
  await wait(0)
  expect(sent.map(({ body }) => body.meta.webhook_owner_id)).toEqual([`${ada}`])
})

test('revoking an access token ends only it, and revoking a refresh token uninstalls', async () => {
  const { connect, submit, token, app } = start()
  const { access_token, refresh_token, call, subscribe } = await connect(ada)
  const other = await connect(ada)
  await subscribe()
  const revoke = (token: string, Authorization = app) =>
    submit('/oauth/revoke', { token }, { Authorization })
  expect((await revoke(refresh_token, 'Basic eDp5')).status).toBe(401)
  await revoke(access_token)
  expect((await call('/v1/users/me')).status).toBe(401)
  expect((await token({ grant_type: 'refresh_token', refresh_token })).status).toBe(200)
  expect((await other.call('/v1/webhooks')).body.data).toHaveLength(1)
  await revoke(refresh_token)
  expect((await other.call('/v1/webhooks')).status).toBe(401)
  expect((await (await connect(ada)).call('/v1/webhooks')).body.data).toEqual([])
})

test('a code is for one exchange at the right address, and not every consent has one', async () => {
  const { consent, exchange, submit, redirectUri } = start()
  const back = await consent({ answer: 'allow' })
  expect(back.searchParams.get('state')).toBe('the-state')
  const code = back.searchParams.get('code')
  expect((await exchange(code)).body).toMatchObject({
    api_domain: 'http://127.0.0.1:3000/sandbox/pipedrive',
    expires_in: 3599,
  })
  expect(await exchange(code)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } })
  const { searchParams } = await consent({ answer: 'allow' })
  expect((await exchange(searchParams.get('code'), `${redirectUri}/x`)).status).toBe(400)
  const denied = await consent({ answer: 'deny' })
  expect(denied.search).toBe('?error=user_denied&state=the-state')
  // From the Marketplace comes a code without a state.
  const installed = await submit('/install', { user: `${ben}` })
  const { search } = new URL(installed.headers.get('Location') ?? '')
  expect(search).toMatch(/^\?code=[\w-]+$/)
})

test.each(['/deals', '/deals/1', '/deals/tokens', '/install', '/uninstall'])(
  'another site changes nothing of the stand-in Pipedrive, and what is no form is refused: %s',
  async (path) => {
    const { submit, request, sent } = start()
    const headers = { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' }
    const form = { change: 'delete', stage: '10', name: 'Planted', user: `${ada}` }
    expect((await submit(path, form, headers)).status).toBe(403)
    const body = { method: 'POST', headers: { 'Content-Type': 'multipart/form-data' }, body: 'x' }
    expect((await request(path, body)).status).toBe(400)
    expect(sent).toEqual([])
  },
)
