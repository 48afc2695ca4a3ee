import { eq } from 'drizzle-orm'
import { describe, expect, test, vi } from 'vitest'
import { connections, sessions, usedTokens, users } from '../../server/database/schema.ts'
import { openSecrets } from '../../server/people/connections.ts'
import type { ProviderId } from '../../server/providers/registry.ts'
import {
  appUrl,
  type Browser,
  browser,
  hold,
  openBrowser,
  refusal,
  shareHarness,
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
      /^dealbell(-[0-9a-f]{8}){2}=new\.[\w-]{43}; Max-Age=600; Path=\/; HttpOnly; SameSite=Strict$/,
    )
    expect(await stored()).toEqual([0, 0, 0])
  })

  describe('is refused before anyone is called', () => {
    async function expectRefused(
      params: URLSearchParams,
      message = `Connect ${name} again.`,
      code = 'invalid_state',
    ) {
      const answer = await comeBack(params)
      expect(await answer.clone().text()).toContain(message)
      expect(await refusal(answer)).toBe(`400 ${code}`)
      expect(harness.calls).toEqual([])
      return answer
    }

    test('without a state, as after an installation from a marketplace: the page says what to do', async () => {
      const params = new URLSearchParams({ code: '1' })
      const message = `It was begun at ${name}, not in Dealbell. To finish it, press Connect in Dealbell.`
      const answer = await expectRefused(params, message, 'exchange_refused')
      // With this header, the page would say that cookies are missing.
      expect(answer.headers.get('Dealbell-Person')).toBeNull()
    })

    test.each<[string, (params: URLSearchParams) => unknown]>([
      ['with a wrong state', (params) => params.set('state', 'A'.repeat(43))],
      ['without its cookie', () => (browser.cookie = undefined)],
      [
        'with the state of the other provider',
        async (params) => params.set('state', stateOf(await browser.authorize(other))),
      ],
    ])('%s', async (_, change) => {
      const params = await browser.authorize(provider)
      await change(params)
      await expectRefused(params)
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
  })

  describe('is called a second time, as a proxy does that has lost the answer', () => {
    const exchanges = () => harness.calls.filter((call) => call === tokenPaths[provider])
    /** The same call as the browser has sent, to another process on the same database. */
    function repeaterOf({ cookie }: Browser) {
      const repeater = openBrowser({ ...harness, app: harness.appWith({}) })
      repeater.cookie = cookie
      return repeater
    }
    const told = async (answer: Response) => [
      answer.status,
      await answer.text(),
      answer.headers.get('Dealbell-Person'),
      answer.headers.getSetCookie(),
    ]

    test.each(['nobody', 'somebody'])(
      'by %s, and the answers are equal, also while the first is under way, and in another process',
      async (who) => {
        if (who === 'somebody') await browser.connect('hubspot')
        const params = await browser.authorize(provider)
        const before = repeaterOf(browser)
        harness.calls.length = 0
        const exchange = hold()
        harness.faults.current = (request) =>
          request.url.includes('oauth')
            ? exchange.wait().then(() => harness.standIn(request))
            : undefined
        const first = callback(browser, provider, params)
        await exchange.reached
        const during = callback(repeaterOf(before), provider, params)
        exchange.release()
        const expected = await told(await first)
        expect(expected.slice(0, 2)).toEqual([204, ''])
        expect(await told(await during)).toEqual(expected)
        // With the former cookie, and with the new one.
        for (const repeater of [before, repeaterOf(browser)]) {
          expect(await told(await callback(repeater, provider, params))).toEqual(expected)
        }
        expect(await before.connected(provider)).toMatchObject({ connected: true })
        expect(exchanges()).toHaveLength(1)
      },
    )

    test.each<[string, number, () => Response | undefined]>([
      ['was refused', 502, () => undefined],
      ['got no answer', 502, () => new Response('', { status: 503 })],
      [
        'failed by our own fault',
        500,
        () => {
          throw new Error('SECRET')
        },
      ],
    ])('after the exchange %s: the result stays %i', async (_, status, fault) => {
      const params = await browser.authorize(provider)
      params.set('code', 'made-up')
      harness.calls.length = 0
      harness.faults.current = fault
      const exchange = vi.spyOn(harness.providers[provider], 'exchange')
      if (status === 500) exchange.mockRejectedValue(new Error('SECRET'))
      const repeater = repeaterOf(browser)
      const expected = await told(await comeBack(params))
      expect(expected[0]).toBe(status)
      expect(await told(await callback(repeater, provider, params))).toEqual(expected)
      expect(exchange).toHaveBeenCalledTimes(1)
      exchange.mockRestore()
    })

    test('with another code, from another browser or after a sign-out gets nothing', async () => {
      const params = await browser.authorize(provider)
      const before = repeaterOf(browser)
      expect((await comeBack(params)).status).toBe(204)
      const others = [openBrowser(harness), openBrowser(harness)]
      await others[1]?.connect('slack')
      const otherCode = new URLSearchParams({ code: 'other', state: stateOf(params) })
      const refused = async (one: Browser, sent = params) => {
        const answer = await callback(one, provider, sent)
        expect(answer.headers.getSetCookie()).toEqual([])
        expect(await refusal(answer)).toBe('400 invalid_state')
      }
      for (const one of others) await refused(one)
      await refused(browser, otherCode)
      await browser.call('/api/session', { method: 'DELETE' })
      await refused(before)
    })
  })

  test('refused, names nobody only if the browser has kept no cookie: the page says so then', async () => {
    const said = async (one: Browser, params: URLSearchParams) => {
      const answer = await callback(one, provider, params)
      expect(answer.status).toBe(400)
      return answer.headers.get('Dealbell-Person')
    }
    const without = openBrowser(harness)
    // It keeps cookies: it has sent one, the state was begun with one, or it is too late.
    const params = await browser.authorize(provider)
    expect(await said(without, params)).toBe('nobody')
    without.cookie = `dealbell-0123abcd=new.${'A'.repeat(43)}`
    expect(await said(without, params)).toBeNull()
    const again = await browser.authorize(provider)
    without.cookie = undefined
    expect(await said(without, again)).toBeNull()
    later(10 * 60 * 1000)
    expect(await said(without, params)).toBeNull()
  })

  describe('fails with 502, no secrets and no connection', () => {
    const error = {
      code: 'provider_unavailable',
      message: `${name} could not be reached. Try again.`,
    }
    test.each([
      ['answers 500', () => new Response('SECRET stack', { status: 500 })],
      ['answers what is no JSON', () => new Response('<p>SECRET')],
      ['answers JSON of another shape', () => Response.json({ ok: true, access_token: 'SECRET' })],
      ['limits us', () => new Response('', { status: 429, headers: { 'Retry-After': '3600' } })],
    ])('when the provider %s', async (_, fault) => {
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

  test('says the provider’s own word for a refusal, if that is a plain one', async () => {
    const said = async () => {
      const params = await browser.authorize(provider)
      params.set('code', 'made-up')
      return (await (await comeBack(params)).json()).error.message
    }
    const reason = provider === 'hubspot' ? 'BAD_AUTH_CODE' : 'invalid_code'
    expect(await said()).toBe(`${name} refused the authorization (${reason}).`)
    const odd = 'SECRET http://x/?code=1 <script>'
    harness.faults.current = () =>
      Response.json(
        { ok: false, error: odd, status: odd },
        { status: provider === 'slack' ? 200 : 400 },
      )
    expect(await said()).not.toContain('SECRET')
    expect(harness.logged.join()).not.toContain('SECRET')
  })

  test('fails with 500 if the fault is our own, and does not blame the provider', async () => {
    const params = await browser.authorize(provider)
    const seal = vi.spyOn(harness.vault, 'seal').mockImplementation(() => {
      throw new Error('SECRET')
    })
    expect(await refusal(await comeBack(params))).toBe('500 internal')
    seal.mockRestore()
    expect(harness.logged.join()).not.toMatch(/SECRET|authorization failed/)
  })
})

test.each([
  ['fails', () => new Response('', { status: 500 })],
  ['says that the token is not valid', () => Response.json({ active: false })],
])('no connection is made if only introspection can name the user and it %s', async (_, answer) => {
  answerIntrospection(answer)
  const refused = await callback(browser, 'hubspot', await browser.authorize('hubspot'))
  expect(await refusal(refused)).toBe('502 provider_unavailable')
  expect(await harness.database.$count(connections)).toBe(0)
})

describe('disconnecting', () => {
  const uninstall = 'DELETE /sandbox/hubspot/appinstalls/2026-03/external-install'
  /** What is called by the end of a disconnect. */
  async function callsOf(disconnect: () => Promise<unknown>): Promise<string[]> {
    harness.calls.length = 0
    await disconnect()
    return harness.calls
  }
  /** The app is uninstalled in the background. */
  const eventually = (check: () => void) => vi.waitFor(check, 20_000)

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

  test.each([
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
})

test('Slack’s token ends when its last user connects another workspace', async () => {
  const revoked: Array<string | null> = []
  const slackOf = (team: string) => {
    harness.faults.current = async (request) => {
      if (request.url.endsWith('/auth.revoke')) revoked.push(request.headers.get('Authorization'))
      const answer = await harness.standIn(request)
      if (!request.url.endsWith('/oauth.v2.access')) return answer
      return Response.json({
        ...(await answer.json()),
        access_token: team,
        team: { id: team, name: team },
      })
    }
  }
  for (const team of ['T1', 'T2']) {
    slackOf(team)
    await browser.connect('slack')
  }
  expect(await browser.connected('slack')).toMatchObject({ connected: true, account: 'T2' })
  await vi.waitFor(() => expect(revoked).toEqual(['Bearer T1']), 20_000)
})

test.each([{ refresh_token: 'xoxe-1', expires_in: 43_200 }, { expires_in: 43_200 }])(
  'a Slack app with token rotation is refused in words, and ended where nobody else uses it: %j',
  async (rotation) => {
    let revoked = 0
    harness.faults.current = async (request) => {
      if (request.url.endsWith('/auth.revoke')) revoked++
      const answer = await harness.standIn(request)
      if (!request.url.endsWith('/oauth.v2.access')) return answer
      return Response.json({ ...(await answer.json()), ...rotation })
    }
    const refused = async () => {
      const answer = await callback(browser, 'slack', await browser.authorize('slack'))
      expect((await answer.clone().json()).error.message).toMatch(
        /^Slack refused the authorization: token rotation is on .+ must be switched off/,
      )
      expect(await refusal(answer)).toBe('502 exchange_refused')
    }
    await refused()
    await vi.waitFor(() => expect(revoked).toBe(1), 20_000)
    expect(await harness.database.$count(connections)).toBe(0)
    // A revocation of the test before may end late.
    const failed = logged().filter(({ event }) => event === 'authorization failed')
    expect(failed).toMatchObject([{ reason: 'token_rotation_on' }])
    // The settings of the app changed after somebody had connected.
    const fault = harness.faults.current
    harness.faults.current = undefined
    const other = openBrowser(harness)
    await other.connect('slack')
    harness.faults.current = fault
    await refused()
    expect(await other.connected('slack')).toMatchObject({ connected: true })
    expect(revoked).toBe(1)
  },
)
