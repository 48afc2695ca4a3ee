import { eq } from 'drizzle-orm'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { personHeader } from '../../contract/endpoints.ts'
import {
  connections,
  deliveries,
  sessions,
  usedTokens,
  users,
} from '../../server/database/schema.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { createHubspot } from '../../server/providers/hubspot/hubspot.ts'
import type { ProviderId } from '../../server/providers/registry.ts'
import { createSlack } from '../../server/providers/slack/slack.ts'
import { standInHub } from '../../stand-ins/hubspot/account.ts'
import { standInWorkspace } from '../../stand-ins/slack/account.ts'
import {
  appUrl,
  type Browser,
  browser,
  hold,
  openBrowser,
  refusal,
  shareHarness,
  storeDelivery,
} from './harness.ts'

const harness = await shareHarness()

const tokenPaths = {
  hubspot: 'POST /sandbox/hubspot/oauth/2026-03/token',
  slack: 'POST /sandbox/slack/api/oauth.v2.access',
}

async function rowsOf(one: Browser) {
  const ofUser = eq(connections.userId, await one.userId())
  return await harness.database.select().from(connections).where(ofUser)
}

/** How many users, sessions and used tokens there are. */
const stored = () =>
  Promise.all([users, sessions, usedTokens].map((table) => harness.database.$count(table)))

const logged = () => harness.logged.map((line) => JSON.parse(line))
const stateOf = (params: URLSearchParams) => params.get('state') ?? ''
const later = (ms: number) => {
  harness.clock.now = new Date(harness.clock.now.getTime() + ms)
}
const callback = (one: Browser, provider: ProviderId, params: URLSearchParams | string) =>
  one.call(`/api/${provider}/callback?${params}`)

/** HubSpot answers with this when it is asked whose a token is. */
function answerIntrospection(answer: () => Response): void {
  harness.faults.current = ({ url }) => (url.endsWith('/introspect') ? answer() : undefined)
}

/** The only connection of a browser. */
async function rowOf(one: Browser) {
  const [row] = await rowsOf(one)
  if (row === undefined) throw new Error('There is no connection.')
  return row
}

describe.each([
  ['hubspot', 'HubSpot', 'slack'],
  ['slack', 'Slack', 'hubspot'],
] as const)('connecting %s', (provider, name, other) => {
  const comeBack = (params: URLSearchParams | string) => callback(browser, provider, params)

  test('sends the browser to the provider with the page’s address and a sealed state, and stores nothing', async () => {
    const answer = await browser.send(`/api/${provider}/auth`)
    expect(answer.status).toBe(302)
    const url = new URL(answer.headers.get('Location') ?? '')
    const { authorizeUrl, clientId } = harness.addresses.providers[provider]
    expect(url.href.startsWith(authorizeUrl)).toBe(true)
    const { state = '', ...sent } = Object.fromEntries(url.searchParams)
    const redirectUri = `${appUrl}/${provider}/callback`
    expect(sent).toMatchObject({ redirect_uri: redirectUri, client_id: clientId })
    expect(() => harness.vault.open(state, 'connections.secrets')).toThrow()
    expect(answer.headers.getSetCookie()[0]).toMatch(
      /^dealbell=new\.[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; SameSite=Strict$/,
    )
    expect(await stored()).toEqual([0, 0, 0])
  })

  describe('is refused before anyone is called', () => {
    async function expectRefused(params: URLSearchParams, message = `Connect ${name} again.`) {
      const answer = await comeBack(params)
      expect(await answer.clone().text()).toContain(message)
      expect(await refusal(answer)).toBe('400 invalid_state')
      expect(harness.calls).toEqual([])
    }

    test('and a browser that came without its cookie is nobody', async () => {
      const params = await browser.authorize(provider)
      browser.cookie = undefined
      expect((await comeBack(params)).headers.get(personHeader)).toBe('nobody')
    })

    const noState = 'The address has no state.'
    test.each<[string, (params: URLSearchParams) => unknown, message?: string]>([
      ['without a state', (params) => params.delete('state'), noState],
      ['with an empty state', (params) => params.set('state', ''), noState],
      ['with a wrong state', (params) => params.set('state', 'A'.repeat(43))],
      [
        'with a state that was altered',
        (params) => params.set('state', stateOf(params).replace(/.{4}$/, 'AAAA')),
      ],
      ['without its cookie', () => (browser.cookie = undefined)],
      ['with a cookie that we never gave', () => (browser.cookie = `dealbell=${'A'.repeat(43)}`)],
      [
        'with the state of the other provider',
        async (params) => params.set('state', stateOf(await browser.authorize(other))),
      ],
    ])('%s', async (_, change, message) => {
      const params = await browser.authorize(provider)
      await change(params)
      await expectRefused(params, message)
    })

    test('after ten minutes, and not a moment before', async () => {
      const early = openBrowser(harness)
      const params = await early.authorize(provider)
      const lateParams = await browser.authorize(provider)
      later(10 * 60 * 1000 - 1)
      expect((await callback(early, provider, params)).status).toBe(204)
      harness.calls.length = 0
      later(1)
      await expectRefused(lateParams)
    })

    test('with another browser’s state, which its owner can still use', async () => {
      const owner = openBrowser(harness)
      const params = await owner.authorize(provider)
      await browser.authorize(provider)
      await expectRefused(params)
      expect((await callback(owner, provider, params)).status).toBe(204)
    })

    test('a second time, even when the first is still under way', async () => {
      const params = await browser.authorize(provider)
      const answers = await Promise.all([comeBack(params), comeBack(params), comeBack(params)])
      expect(answers.map((answer) => answer.status).sort()).toEqual([204, 400, 400])
      expect(harness.calls.filter((call) => call === tokenPaths[provider])).toHaveLength(1)
      harness.calls.length = 0
      await expectRefused(params)
    })
  })

  describe('fails with 502, no secrets and no connection', () => {
    const reason = 'SECRET http://x/?code=1 <script>'
    const refused = { code: 'exchange_refused', message: 'HubSpot refused the authorization.' }
    const unavailable = {
      code: 'provider_unavailable',
      message: `${name} could not be reached. Try again.`,
    }
    test.each([
      ['answers 500', () => new Response('SECRET stack', { status: 500 })],
      ['answers what is no JSON', () => new Response('<p>SECRET')],
      ['answers JSON of another shape', () => Response.json({ ok: true, access_token: 'SECRET' })],
      ['limits us', () => new Response('', { status: 429, headers: { 'Retry-After': '3600' } })],
      provider === 'slack'
        ? ['refuses without a plain word', () => Response.json({ ok: false, error: reason })]
        : [
            'refuses without a plain word',
            () => Response.json({ error: reason, status: reason }, { status: 400 }),
            refused,
          ],
    ])('when the provider %s', async (_, fault, error = unavailable) => {
      const params = await browser.authorize(provider)
      harness.faults.current = fault
      const answer = await comeBack(params)
      const text = await answer.text()
      for (const said of [text, harness.logged.join()]) {
        expect(said).not.toContain(params.get('code') ?? '-')
        expect(said).not.toContain(stateOf(params))
        expect(said).not.toContain(harness.addresses.providers[provider].clientSecret)
        expect(said).not.toMatch(/http|SECRET/)
      }
      expect(answer.status).toBe(502)
      expect(JSON.parse(text)).toEqual({ error })
      const failed = { event: 'authorization failed', provider, stage: expect.any(String) }
      expect(logged()).toMatchObject([failed])
      harness.faults.current = undefined
      expect(await browser.connected(provider)).toEqual({ connected: false })
      // The exchange was tried once.
      expect(harness.calls).toEqual([tokenPaths[provider]])
    })
  })

  test('again replaces the connection and keeps its id and the rules', async () => {
    await browser.connect(provider)
    await browser.keep(['deal-closed'])
    const before = await rowOf(browser)
    await browser.connect(provider)
    const after = await rowsOf(browser)
    expect(after).toMatchObject([{ id: before.id }])
    expect(after[0]?.secrets).not.toBe(before.secrets)
    expect(await browser.rules()).toEqual({ rules: ['deal-closed'] })
  })

  test('a code reaches the provider byte for byte', async () => {
    for (const code of ['12345678901234567890', 'null', '"x"', 'a+b/c=', '%2B', 'ü €']) {
      const params = await browser.authorize(provider)
      params.set('code', code)
      let sent: string | null = null
      harness.faults.current = async (request) => {
        sent = new URLSearchParams(await request.text()).get('code')
        return new Response('', { status: 500 })
      }
      await comeBack(params)
      expect(sent).toBe(code)
    }
  })

  test('says that the address has no code', async () => {
    const error = { code: 'missing_code', message: 'The address has no authorization code.' }
    for (const query of ['state=x', 'code=&state=x']) {
      expect(await (await comeBack(query)).json()).toEqual({ error })
    }
  })

  test('says the provider’s own word for a refusal, if that is a plain one', async () => {
    const params = await browser.authorize(provider)
    params.set('code', 'made-up')
    const { error } = await (await comeBack(params)).json()
    const reason = provider === 'hubspot' ? 'BAD_AUTH_CODE' : 'invalid_code'
    expect(error.message).toBe(`${name} refused the authorization (${reason}).`)
    expect(logged()[0]).toMatchObject({ kind: 'refused', reason })
  })

  test('fails with 500 if the fault is our own, and does not blame the provider', async () => {
    const params = await browser.authorize(provider)
    const seal = vi.spyOn(harness.vault, 'seal').mockImplementation(() => {
      throw new Error('SECRET')
    })
    expect(await refusal(await comeBack(params))).toBe('500 internal')
    seal.mockRestore()
    expect(harness.logged.join()).toContain('request failed')
    const notEnded = { event: 'unused grant not ended', provider, error: 'Error' }
    expect(logged()).toContainEqual(expect.objectContaining(notEnded))
    expect(harness.logged.join()).not.toMatch(/SECRET|authorization failed/)
  })
})

test('two tabs of a new browser can connect a service each, one after the other', async () => {
  const ways = [await browser.authorize('slack'), await browser.authorize('hubspot')] as const
  expect((await callback(browser, 'slack', ways[0])).status).toBe(204)
  // The browser is somebody now. What it began as nobody has ended.
  expect(await refusal(await callback(browser, 'hubspot', ways[1]))).toBe('400 invalid_state')
  await browser.connect('hubspot')
  for (const each of [await browser.authorize('slack'), await browser.authorize('slack')]) {
    expect((await callback(browser, 'slack', each)).status).toBe(204)
  }
})

test('a browser that never gets the answer of its first connection can connect again', async () => {
  const params = await browser.authorize('hubspot')
  const before = browser.cookie
  expect((await callback(browser, 'hubspot', params)).status).toBe(204)
  browser.cookie = before
  expect(await browser.connected('hubspot')).toEqual({ connected: false })
  await browser.connect('hubspot')
  expect(await browser.connected('hubspot')).toMatchObject({ connected: true })
})

describe('a stored connection', () => {
  test('of HubSpot has its account and a label, and its tokens are sealed', async () => {
    await browser.connect('hubspot')
    const row = await rowOf(browser)
    const { hubId, domain } = standInHub
    const account = { accountId: String(hubId), accountName: domain, channelId: null }
    expect(row).toMatchObject({ provider: 'hubspot', ...account })
    const lifetimeMs = (row.accessExpiresAt?.getTime() ?? 0) - Date.now()
    expect(lifetimeMs).toBeGreaterThan(1_700_000)
    expect(lifetimeMs).toBeLessThanOrEqual(1_800_000)
    const { accessToken, refreshToken } = openSecrets(harness.vault, row)
    for (const token of [accessToken, refreshToken]) expect(token).toMatch(/^hubspot-stand-in-/)
    expect(JSON.stringify(row)).not.toContain('hubspot-stand-in-')
  })

  test('of Slack has its workspace and channel, and the token and the webhook’s address are sealed', async () => {
    await browser.connect('slack')
    const row = await rowOf(browser)
    const { teamId, teamName } = standInWorkspace
    const account = { accountId: teamId, accountName: teamName, accessExpiresAt: null }
    const channel = { channelId: 'C0SALES001', channelName: '#sales-floor' }
    expect(row).toMatchObject({ provider: 'slack', ...account, ...channel })
    const secrets = openSecrets(harness.vault, row)
    expect(secrets.accessToken).toMatch(/^xoxb-stand-in-/)
    expect(secrets.incomingWebhookUrl).toContain('/services/')
    expect(JSON.stringify(row)).not.toMatch(/xoxb|services/)
  })

  test('of HubSpot has no label if introspection fails and the token answer names the user', async () => {
    harness.faults.current = async (request) => {
      if (request.url.endsWith('/introspect')) return new Response('', { status: 500 })
      const answer = await (await harness.standIn(request)).json()
      return Response.json({ ...answer, user_id: standInHub.userId })
    }
    await browser.connect('hubspot')
    const { accountName, userId } = await rowOf(browser)
    expect(accountName).toBeNull()
    const owner = await harness.database.select().from(users).where(eq(users.id, userId))
    expect(owner).toMatchObject([{ crmUserId: String(standInHub.userId) }])
  })

  test.each([
    ['fails', () => new Response('', { status: 500 })],
    ['says that the token is not valid', () => Response.json({ active: false })],
  ])('is not made if only introspection can name the user and it %s', async (_, answer) => {
    answerIntrospection(answer)
    const refused = await callback(browser, 'hubspot', await browser.authorize('hubspot'))
    expect(await refusal(refused)).toBe('502 provider_unavailable')
    expect(await harness.database.$count(connections)).toBe(0)
  })

  test('does not open in the row of another user', async () => {
    await browser.connect('slack')
    const other = openBrowser(harness)
    await other.connect('slack')
    const [mine, theirs] = [await rowOf(browser), await rowOf(other)]
    expect(() => openSecrets(harness.vault, { ...mine, secrets: theirs.secrets })).toThrow()
    expect(() => openSecrets(harness.vault, { ...mine, provider: 'hubspot' })).toThrow()
  })
})

test.each([
  ['hubspot', createHubspot],
  ['slack', createSlack],
] as const)('%s is waited for only so long', async (provider, create) => {
  harness.faults.current = () => new Promise(() => {})
  const impatient = create(harness.addresses.providers[provider], { callMs: 50, revokeMs: 50 })
  const unreachable = { provider, kind: 'unreachable' }
  const exchange = { code: 'c', redirectUri: `${appUrl}/${provider}/callback`, codeVerifier: 'v' }
  await expect(impatient.exchange(exchange)).rejects.toMatchObject(unreachable)
  await expect(impatient.revoke({ accessToken: 't' })).rejects.toMatchObject(unreachable)
})

describe('disconnecting', () => {
  const revoke = {
    hubspot: 'POST /sandbox/hubspot/oauth/2026-03/token/revoke',
    slack: 'POST /sandbox/slack/api/auth.revoke',
  }
  const uninstall = 'DELETE /sandbox/hubspot/appinstalls/2026-03/external-install'
  /** What is called by the end of a disconnect. */
  async function callsOf(disconnect: () => Promise<unknown>): Promise<string[]> {
    harness.calls.length = 0
    await disconnect()
    return harness.calls
  }
  /** The app is uninstalled in the background. */
  const eventually = (check: () => void) => vi.waitFor(check, 20_000)

  test('HubSpot leaves the app installed while a colleague uses it, and uninstalls it with the last one', async () => {
    await browser.connect('hubspot')
    const colleague = openBrowser(harness)
    const { hubId: hub_id, domain: hub_domain } = standInHub
    answerIntrospection(() => Response.json({ hub_id, user_id: 8, hub_domain }))
    await colleague.connect('hubspot')
    expect(await callsOf(() => browser.disconnect('hubspot'))).toEqual([revoke.hubspot])
    expect(await colleague.connected('hubspot')).toMatchObject({ connected: true })
    const calls = await callsOf(() => colleague.disconnect('hubspot'))
    await eventually(() => expect(calls).toEqual([uninstall]))
    await eventually(() => expect(harness.logged.join()).toContain('app uninstalled'))
  })

  test('uninstalls with a new access token if the last one has expired', async () => {
    await browser.connect('hubspot')
    await harness.database.update(connections).set({ accessExpiresAt: new Date() })
    let used: string | null = null
    harness.faults.current = (request) => {
      if (request.method === 'DELETE') used = request.headers.get('Authorization')
      return undefined
    }
    const { accessToken } = openSecrets(harness.vault, await rowOf(browser))
    const calls = await callsOf(() => browser.disconnect('hubspot'))
    await eventually(() => expect(calls).toEqual([tokenPaths.hubspot, uninstall]))
    expect(used).not.toBe(`Bearer ${accessToken}`)
  })

  test('leaves the app installed if the account is connected again in the meantime', async () => {
    await browser.connect('hubspot')
    await harness.database.update(connections).set({ accessExpiresAt: new Date() })
    const refresh = hold()
    harness.faults.current = async (request) => {
      const form = new URLSearchParams(await request.clone().text())
      if (form.get('grant_type') === 'refresh_token') await refresh.wait()
      return harness.standIn(request)
    }
    await browser.disconnect('hubspot')
    await refresh.reached
    await browser.connect('hubspot')
    refresh.release()
    harness.calls.length = 0
    await eventually(() => expect(harness.logged.join()).toContain('app still used'))
    expect(harness.calls).not.toContain(uninstall)
  })

  test('revokes the token if the app cannot be uninstalled', async () => {
    await browser.connect('hubspot')
    harness.calls.length = 0
    const refused = Promise.withResolvers<Response>()
    harness.faults.current = ({ method }) => (method === 'DELETE' ? refused.promise : undefined)
    // It does not wait for the app to be uninstalled.
    expect((await browser.disconnect('hubspot')).status).toBe(204)
    refused.resolve(new Response('SECRET', { status: 500 }))
    await eventually(() => expect(harness.calls).toEqual([uninstall, revoke.hubspot]))
    expect(harness.logged.join()).toContain('uninstall failed')
    expect(harness.logged.join()).not.toMatch(/SECRET|http|stand-in/)
  })

  test.each([
    ['the provider refuses to revoke', 'hubspot', undefined],
    ['the provider refuses to revoke', 'slack', undefined],
    ['the token cannot be opened', 'hubspot', 'v1.gone.x.y.z'],
  ] as const)('is done though %s (%s)', async (_, provider, secrets) => {
    await browser.connect(provider)
    if (secrets !== undefined) await harness.database.update(connections).set({ secrets })
    harness.faults.current = () => new Response('SECRET', { status: 500 })
    expect((await browser.disconnect(provider)).status).toBe(204)
    expect(await browser.connected(provider)).toEqual({ connected: false })
    await eventually(() => expect(harness.logged.join()).toContain('revoke failed'))
    expect(harness.logged.join()).not.toMatch(/SECRET|http|stand-in/)
  })

  test('does not revoke a token that another user’s connection shares', async () => {
    const other = openBrowser(harness)
    await browser.connect('slack')
    await other.connect('slack')
    expect(await callsOf(() => browser.disconnect('slack'))).toEqual([])
    expect(await other.connected('slack')).toMatchObject({ connected: true })
    expect(await callsOf(() => other.disconnect('slack'))).toEqual([revoke.slack])
  })

  test('twice at once revokes once', async () => {
    await browser.connect('slack')
    const twice = () => Promise.all([browser.disconnect('slack'), browser.disconnect('slack')])
    expect(await callsOf(twice)).toEqual([revoke.slack])
  })
})

describe('Slack’s token, which all users of a workspace share', () => {
  let revoked: Array<string | null>
  beforeEach(() => {
    revoked = []
  })

  /** Slack gives this token from now on. It answers after `beforeAnswer`. */
  function slackOf(
    { accessToken, team = 'T1' }: { accessToken: string; team?: string },
    beforeAnswer: { exchange?: () => Promise<unknown>; revoke?: () => Promise<unknown> } = {},
  ) {
    harness.faults.current = async (request) => {
      const bearer = request.headers.get('Authorization')?.replace('Bearer ', '') ?? ''
      if (request.url.endsWith('/oauth.v2.access')) {
        const answer = { ...(await (await harness.standIn(request)).json()) }
        await beforeAnswer.exchange?.()
        const granted = { access_token: accessToken, team: { id: team, name: team } }
        return Response.json({ ...answer, ...granted })
      }
      if (request.url.endsWith('/auth.revoke')) {
        await beforeAnswer.revoke?.()
        revoked.push(bearer)
        return Response.json({ ok: true, revoked: true })
      }
      return await harness.standIn(request)
    }
  }

  test('ends when its last user connects another workspace: nobody waits, but it waits for the message that is being sent', async () => {
    slackOf({ accessToken: 'first', team: 'T1' })
    await browser.connect('slack')
    const { userId } = await rowOf(browser)
    const sending = {
      state: 'pending',
      finishedAt: null,
      sendingUntil: new Date(Date.now() + 60_000),
    } as const
    const ofMessage = eq(
      deliveries.id,
      Number(await storeDelivery(harness.database, userId, sending)),
    )
    const atRevocation: unknown[] = []
    const revoke = async () => {
      atRevocation.push(...(await harness.database.select().from(deliveries).where(ofMessage)))
    }
    slackOf({ accessToken: 'second', team: 'T2' }, { revoke })
    await browser.connect('slack')
    expect(await browser.connected('slack')).toMatchObject({ connected: true, account: 'T2' })
    expect(revoked).toEqual([])
    const sent = { state: 'sent', sendingUntil: null } as const
    await harness.database.update(deliveries).set(sent).where(ofMessage)
    await vi.waitFor(() => expect(revoked).toEqual(['first']), 20_000)
    expect(atRevocation).toMatchObject([sent])
  })

  test('is connected though the database then fails, which is logged', async () => {
    slackOf({ accessToken: 'first', team: 'T1' })
    await browser.connect('slack')
    const former = await rowOf(browser)
    const { database } = harness
    const fail = async () => {
      for (const step of ['select', 'update'] as const) {
        vi.spyOn(database, step).mockThrow(new TypeError('SECRET'))
      }
    }
    slackOf({ accessToken: 'second', team: 'T2' }, { exchange: fail })
    await browser.connect('slack').finally(vi.restoreAllMocks)
    expect(logged()).toMatchObject([
      { event: 'former connection not ended', connection: former.id, error: 'TypeError' },
    ])
  })

  test('is revoked if the session ends while Slack’s answer with it is on its way', async () => {
    await browser.connect('hubspot')
    const exchange = hold()
    slackOf({ accessToken: 'unused' }, { exchange: exchange.wait })
    const way = await browser.authorize('slack')
    const answer = callback(browser, 'slack', way)
    await exchange.reached
    await browser.call('/api/session', { method: 'DELETE' })
    exchange.release()
    expect(await refusal(await answer)).toBe('400 invalid_state')
    await vi.waitFor(() => expect(revoked).toEqual(['unused']), 20_000)
  })
})
