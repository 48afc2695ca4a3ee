import { describe, expect, test, vi } from 'vitest'
import { exportAccount } from '../../server/activity/export-account.ts'
import { connections } from '../../server/database/schema.ts'
import { createRateLimits, rateLimits } from '../../server/http/rate-limit.ts'
import { logTo } from '../../server/log.ts'
import { createChecks } from '../../server/people/checks.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { recordRefusal } from '../../server/people/refusals.ts'
import { type AddressChat, createByAddress } from '../../server/providers/by-address.ts'
import { type AddressSettings, defaultTimeouts } from '../../server/providers/calls.ts'
import { discord } from '../../server/providers/discord/discord.ts'
import { createTeams, teams } from '../../server/providers/microsoft-teams/microsoft-teams.ts'
import type { Chat } from '../../server/providers/provider.ts'
import {
  appUrl,
  type Browser,
  browser,
  fromAddress,
  hold,
  openBrowser,
  refusal,
  shareHarness,
  storedIn,
} from './harness.ts'

let webhooks = ''
const harness = await shareHarness((outside) => {
  webhooks = outside
  return { VITE_CHAT_NAME: 'Microsoft Teams', MICROSOFT_TEAMS_WEBHOOK_ORIGINS: outside }
})

const id = 'microsoft-teams'
const page = `/api/${id}/address`
const secret = 'S3cretSignature'
const addressOf = (workflow: string) =>
  `${webhooks}/powerautomate/automations/direct/workflows/${workflow}/triggers/manual/paths/invoke?api-version=1&sig=${secret}`
const address = addressOf('0123456789abcdef')
const settings = harness.addresses.providers[id]
const { standInAddress = '' } = settings
const allowedForm: Record<string, string> = {
  Origin: appUrl,
  'Sec-Fetch-Site': 'same-origin',
  'Sec-Fetch-Mode': 'navigate',
}

/** What the webhook answers with. */
function answerPosts(answer: () => Response | Promise<Response>): void {
  harness.faults.current = ({ url }) => (url.includes('/powerautomate/') ? answer() : undefined)
}
const accepted = () => new Response(null, { status: 202 })
const withProvider = (chat: Chat) =>
  harness.appWith({ providers: { ...harness.providers, [id]: chat } })
const withSettings = (changes: Partial<AddressSettings>, callMs = 10_000) =>
  withProvider(createTeams({ ...settings, ...changes }, { ...defaultTimeouts, callMs }))

/** @returns the state that our page was opened with. */
async function begin(one: Browser, provider: 'hubspot' | typeof id = id): Promise<string> {
  const begun = await one.send(`/api/${provider}/auth`)
  return new URL(begun.headers.get('Location') ?? '').searchParams.get('state') ?? ''
}
const submit = (one: Browser, form: Record<string, string>, headers = allowedForm) =>
  one.send(page, {
    method: 'POST',
    body: new URLSearchParams({ answer: 'connect', ...form }),
    headers,
  } as RequestInit)
const wayBack = (answer: Response) => new URL(answer.headers.get('Location') ?? '')
/** Pastes the address. @returns how the browser comes back to the dashboard. */
async function paste(one: Browser, pasted = address): Promise<URLSearchParams> {
  answerPosts(accepted)
  return wayBack(await submit(one, { state: await begin(one), address: pasted })).searchParams
}
const comeBack = (one: Browser, params: URLSearchParams) =>
  one.call(`/api/${id}/callback?${params}`)
const stored = () => harness.database.select().from(connections)
const storedAddress = async () => {
  const [row] = await stored()
  return row && openSecrets(harness.vault, row).incomingWebhookUrl
}
const later = (ms: number) => {
  harness.clock.now = new Date(harness.clock.now.getTime() + ms)
}

test('a pasted address is proved with one message, and stored encrypted', async () => {
  const params = await paste(browser)
  expect(harness.calls).toEqual([`POST ${new URL(address).pathname}`])
  expect((await comeBack(browser, params)).status).toBe(204)
  expect(await storedAddress()).toBe(address)
  expect(await stored()).toMatchObject([{ provider: id, standIn: false }])
  expect(harness.calls).toHaveLength(1)
})

test('the address is in nothing that anyone reads: no Location, log, metric, error, row or export', async () => {
  await browser.connect('hubspot')
  const [{ accountId = '' } = {}] = await stored()
  const said: string[] = []
  const hear = async (answer: Response) => {
    said.push(await answer.clone().text(), JSON.stringify([...answer.headers]))
    return answer
  }
  // The page alone says what was typed.
  answerPosts(() => new Response(address, { status: 500 }))
  const refused = await submit(browser, { state: await begin(browser), address })
  said.push(JSON.stringify([...refused.headers]))
  const state = await begin(browser)
  const seal = vi.spyOn(harness.vault, 'seal').mockImplementation(() => {
    throw new Error(address)
  })
  answerPosts(accepted)
  const failed = await hear(await submit(browser, { state, address }))
  expect(await refusal(failed)).toBe('500 internal')
  seal.mockRestore()
  const back = await hear(await submit(browser, { state: await begin(browser), address }))
  const done = await hear(await comeBack(browser, wayBack(back).searchParams))
  expect(done.status).toBe(204)
  await hear(await browser.call(`/api/${id}/status`))
  const metrics = await fromAddress(harness.app, '127.0.0.1').request('/metrics')
  expect(await (await hear(metrics)).text()).toContain(id)
  for await (const part of exportAccount(harness.database, accountId)) said.push(part)
  expect(said.join()).toMatch(/"connections"(?!.*"secrets")/s)
  said.push(await storedIn(harness.database, connections), ...harness.logged)
  for (const each of [secret, '0123456789abcdef']) expect(said.join('\n')).not.toContain(each)
})

describe('the code of a pasted address', () => {
  const connectAgain = '400 invalid_state'

  test('ends after ten minutes, and not a moment before', async () => {
    const early = openBrowser(harness)
    const [params, lateParams] = [await paste(early), await paste(browser)]
    later(10 * 60 * 1000 - 1)
    expect((await comeBack(early, params)).status).toBe(204)
    later(1)
    expect(await refusal(await comeBack(browser, lateParams))).toBe(connectAgain)
  })

  test('works once; a repeated call gets the same result, and another code none', async () => {
    const params = await paste(browser)
    const before = openBrowser(harness)
    before.cookie = browser.cookie
    const second = new URLSearchParams({ ...Object.fromEntries(params), code: 'other' })
    expect((await comeBack(browser, params)).status).toBe(204)
    const token = browser.cookie
    expect((await comeBack(before, params)).status).toBe(204)
    expect(before.cookie).toBe(token)
    expect(await refusal(await comeBack(browser, second))).toBe(connectAgain)
    expect(harness.calls).toHaveLength(1)
  })

  test.each<[string, (params: URLSearchParams) => Promise<[Browser, URLSearchParams]>]>([
    ['in another browser', async (params) => [openBrowser(harness), params]],
    [
      'with another state',
      async (params) => {
        params.set('state', await begin(browser))
        return [browser, params]
      },
    ],
    [
      'with the state of another service',
      async (params) => {
        const other = await browser.authorize('hubspot')
        params.set('state', other.get('state') ?? '')
        return [browser, params]
      },
    ],
    [
      'not sealed',
      async (params) => {
        params.set('code', JSON.stringify({ address, channel: '' }))
        return [browser, params]
      },
    ],
  ])('is refused %s', async (_, change) => {
    const [one, params] = await change(await paste(browser))
    expect(await refusal(await comeBack(one, params))).toBe(connectAgain)
    expect(await stored()).toEqual([])
  })

  test('is refused if the settings no longer allow the address', async () => {
    for (const pasted of [address, standInAddress]) {
      const params = await paste(browser, pasted)
      const app = withSettings({ origins: [], standInAddress: undefined })
      const later = openBrowser({ app })
      later.cookie = browser.cookie
      expect(await refusal(await comeBack(later, params))).toBe('502 exchange_refused')
    }
    expect(await stored()).toEqual([])
  })
})

describe('the form is refused, and calls nothing', () => {
  test.each<[string, Record<string, string>]>([
    ['from another site', { Origin: 'https://evil.example' }],
    ['from another site that knows our name', { ...allowedForm, Origin: 'http://evil.example' }],
    ['from nowhere', { ...allowedForm, Origin: 'null' }],
    ['from a page of another site, without an origin', { 'Sec-Fetch-Site': 'cross-site' }],
  ])('%s', async (_, headers) => {
    const state = await begin(browser)
    for (const answer of ['connect', 'stand-in', 'cancel']) {
      const refused = await submit(browser, { state, address, answer }, headers)
      expect(await refusal(refused)).toBe('403 cross_site')
    }
    expect(harness.calls).toEqual([])
  })

  test('without a state, with a false one, without a cookie, too late, or too long', async () => {
    const state = await begin(browser)
    const said = async (one: Browser, form: Record<string, string>) => {
      const answer = await submit(one, { address, ...form })
      expect([answer.headers.get('Location'), harness.calls]).toEqual([null, []])
      return `${answer.status} ${/<h1>(.*)<\/h1>/.exec(await answer.text())?.[1]}`
    }
    const ended = '400 Connect Microsoft Teams again'
    expect(await said(browser, {})).toBe(ended)
    expect(await said(browser, { state: 'A'.repeat(99) })).toBe(ended)
    expect(await said(browser, { state: await begin(browser, 'hubspot') })).toBe(ended)
    expect(await said(openBrowser(harness), { state })).toBe(ended)
    expect(await said(browser, { state, channel: 'x'.repeat(17_000) })).toBe('413 Too much text')
    later(10 * 60 * 1000)
    expect(await said(browser, { state })).toBe(ended)
  })
})

/** The page says why, beside the field with what was typed. Nothing is stored. */
async function expectPage(one: Browser, form: Record<string, string>, problem: RegExp) {
  const answer = await submit(one, form)
  const text = await answer.text()
  const unescaped = (html = '') =>
    html
      .replaceAll('&quot;', '"')
      .replaceAll('&lt;', '<')
      .replaceAll('&gt;', '>')
      .replaceAll('&#39;', "'")
      .replaceAll('&amp;', '&')
  expect(unescaped(/id="problem"[^>]*>([^<]*)</.exec(text)?.[1])).toMatch(problem)
  expect(text).toMatch(/aria-describedby="problem"/)
  expect(unescaped(/id="address"[^>]*value="([^"]*)"/.exec(text)?.[1])).toBe(form.address)
  expect(unescaped(/id="channel"[^>]*value="([^"]*)"/.exec(text)?.[1])).toBe(form.channel ?? '')
  expect(text).not.toMatch(/<script|<img/)
  expect(answer.headers.get('Cache-Control')).toBe('no-store')
  expect([answer.headers.get('Location'), await stored()]).toEqual([null, []])
  return answer
}

test.each<(right: string) => string>([
  () => '',
  () => '"><script>alert(1)</script>',
  () => "javascript:alert('&amp;')",
  (right) => right.replace('http:', 'ftp:'),
  (right) => right.replace('//', '//me@'),
  (right) => right.replace('127.0.0.1', '127.1'),
  (right) => right.replace(/:\d+/, ':1'),
  (right) => right.replace(/:\d+/, ''),
  (right) => right.replace('/workflows/', '/workflows/../workflows/'),
  (right) => right.replace('/paths', '//paths'),
  (right) => `${right}#fragment`,
  (right) => `${right}${'x'.repeat(2_000)}`,
])('a wrong address is refused beside the field, and nothing is called (%#)', async (wrong) => {
  const form = { address: wrong(address), channel: '"><img src=x>' }
  const state = await begin(browser)
  await expectPage(browser, { ...form, state }, /^This is not the address of a webhook in Mic/)
  expect(harness.calls).toEqual([])
})

test.each<[RegExp, () => Response | Promise<Response>]>([
  [/deleted\. Make a new one\.$/, () => new Response('', { status: 404 })],
  [
    /“Anyone”/,
    () => Response.json({ error: { code: 'DirectApiAuthorizationRequired' } }, { status: 401 }),
  ],
  [/did not take a message at this address \(http_413\)/, () => new Response('', { status: 413 })],
  [/could not be reached \(http_500\)\. Try again/, () => new Response('', { status: 500 })],
  [
    /again in 1 second\.$/,
    () => new Response('', { status: 429, headers: { 'Retry-After': '1' } }),
  ],
  [/could not be reached/, () => Response.redirect('http://127.0.0.1:1/', 302)],
  [/could not be reached \(TIMEOUT\)/, () => new Promise(() => {})],
])('if the webhook does not take the message, the page says: %s', async (problem, answer) => {
  answerPosts(answer)
  const one = openBrowser({ app: withSettings({}, 100) })
  const state = await begin(one)
  await expectPage(one, { state, address, channel: 'sales <b>' }, problem)
  // A second try is a new one.
  answerPosts(accepted)
  expect((await submit(one, { state, address })).status).toBe(303)
})

test('a double click, or Back and Connect again, posts once', async () => {
  const state = await begin(browser)
  const posting = hold()
  answerPosts(() => posting.wait().then(accepted))
  const clicks = [submit(browser, { state, address }), submit(browser, { state, address })]
  await posting.reached
  posting.release()
  const answers = [...(await Promise.all(clicks)), await submit(browser, { state, address })]
  expect(answers.map(({ status }) => status)).toEqual([303, 303, 303])
  expect(harness.calls).toHaveLength(1)
  const [, last] = answers.map((answer) => wayBack(answer).searchParams)
  if (last) expect((await comeBack(browser, last)).status).toBe(204)
})

test('of two tabs, the last one counts, as for the other chats', async () => {
  await browser.connect('hubspot')
  const tabs = [await paste(browser), await paste(browser, addressOf('fedcba9876543210'))]
  for (const tab of tabs) expect((await comeBack(browser, tab)).status).toBe(204)
  // An authorization that is complete posts nothing more.
  harness.calls.length = 0
  const again = await submit(browser, {
    state: tabs[0]?.get('state') ?? '',
    address: standInAddress,
  })
  expect([again.status, again.headers.get('Location'), harness.calls]).toEqual([400, null, []])
  const rows = (await stored()).filter(({ provider }) => provider === id)
  expect(rows.map((row) => openSecrets(harness.vault, row).incomingWebhookUrl)).toEqual([
    addressOf('fedcba9876543210'),
  ])
})

test('Cancel leads back as a consent page does, and reads nothing else of the form', async () => {
  const state = await begin(browser)
  const { href } = wayBack(await submit(browser, { state, address: 'x', answer: 'cancel' }))
  expect(href).toBe(`${appUrl}/${id}/callback?state=${state}&error=access_denied`)
  expect(harness.calls).toEqual([])
})

test('the stand-in is accepted only where stand-ins may be used', async () => {
  const text = async (one: Browser) => {
    const state = await begin(one)
    return [state, await (await one.send(`${page}?state=${state}`)).text()] as const
  }
  expect((await text(browser))[1]).toContain('Use the stand-in')
  await browser.connect(id)
  expect(await stored()).toMatchObject([{ standIn: true, channelName: 'sales (stand-in)' }])
  await browser.disconnect(id)
  harness.calls.length = 0

  const elsewhere = openBrowser({
    app: withSettings({ standInAddress: undefined, standIn: false }),
  })
  const [state, shown] = await text(elsewhere)
  expect(shown).not.toContain('Use the stand-in')
  await expectPage(elsewhere, { state, address: standInAddress }, /^This is not the address/)
  const pressed = await submit(elsewhere, { state, answer: 'stand-in' })
  expect([pressed.status, harness.calls]).toEqual([400, []])
})

test('a disconnect forgets the address and calls nothing', async () => {
  await comeBack(browser, await paste(browser))
  harness.calls.length = 0
  const revoke = vi.spyOn(harness.providers[id], 'revoke')
  expect((await browser.disconnect(id)).status).toBe(204)
  await vi.waitFor(() => expect(revoke).toHaveBeenCalled(), 20_000)
  expect([await stored(), harness.calls]).toEqual([[], []])
})

test('the tries of one client are limited, and the page says so', async () => {
  const limits = createRateLimits({ trustedProxies: 0, log: logTo(() => {}) })
  const one = openBrowser({ app: fromAddress(harness.appWith({ limits }), '192.0.2.1') })
  answerPosts(() => new Response('', { status: 404 }))
  const state = await begin(one)
  const { times } = rateLimits.authorizationsOfAddress
  for (let n = 2; n < times; n++) await one.send('/api/hubspot/auth')
  await expectPage(one, { state, address }, /deleted/)
  const answer = await expectPage(one, { state, address }, /^Too many requests\./)
  expect([answer.status, harness.calls.length]).toEqual([429, 1])
  expect(Number(answer.headers.get('Retry-After'))).toBeGreaterThan(0)
})

describe('checks', () => {
  /** Connects by an address of the chat. @returns a function that checks the connection once, and what is stored then. */
  async function connectTo(chat: AddressChat) {
    const { database, vault } = harness
    const provider = createByAddress(chat, settings, defaultTimeouts)
    const one = openBrowser({ app: withProvider(provider) })
    answerPosts(() => Response.json({ id: '1', channel_id: '2' }))
    const back = wayBack(await submit(one, { state: await begin(one), address }))
    expect((await comeBack(one, back.searchParams)).status).toBe(204)
    harness.calls.length = 0
    return async (changes: Partial<typeof connections.$inferInsert> = {}) => {
      const providers = { ...harness.providers, [id]: provider }
      const sendLastAgain = async () => false
      const checks = createChecks(
        { database, vault, providers, log: logTo(() => {}), sendLastAgain },
        { pollMs: 10, askAgainMs: 10 },
      )
      await database.update(connections).set({ ...changes, checkedAt: new Date(0) })
      checks.start()
      await vi.waitFor(async () => {
        const [row] = await stored()
        expect(row?.checkedAt.getTime()).toBeGreaterThan(0)
      }, 20_000)
      // It waits for the check that has begun.
      await checks.stop()
      const [row] = await stored()
      return row
    }
  }

  test('never call an address again after a final refusal', async () => {
    const check = await connectTo({
      ...teams,
      look: { request: { method: 'get' }, read: ({ status }) => (status === 200 ? {} : undefined) },
      finalReasons: new Set(['http_404']),
    })
    answerPosts(() => new Response('', { status: 404 }))
    for (let day = 1; day <= 3; day++) {
      expect(await check()).toMatchObject({ brokenReason: 'http_404', askAgainAt: null })
    }
    expect(harness.calls).toHaveLength(1)
  })

  // With an address that this server may call.
  const discordHere: AddressChat = { ...discord, id, path: teams.path }
  const discordAnswers = (status: number, code: number) =>
    answerPosts(() => Response.json({ message: 'No.', code }, { status }))

  test.each([10015, 10003, 0])(
    'never call a webhook of Discord again after 404 (%i)',
    async (code) => {
      const check = await connectTo(discordHere)
      discordAnswers(404, code)
      for (let day = 1; day <= 3; day++) {
        expect(await check()).toMatchObject({ brokenSince: expect.any(Date), askAgainAt: null })
      }
      expect(harness.calls).toHaveLength(1)
    },
  )

  test.each([10015, 10003, 0])('nor if a message got 404 (%i)', async (code) => {
    const check = await connectTo(discordHere)
    discordAnswers(404, code)
    const { post, finalReasons } = createByAddress(discordHere, settings, defaultTimeouts)
    const secrets = { accessToken: '', incomingWebhookUrl: address }
    const outcome = await post(secrets, '2', { text: 'x', paragraphs: [], footer: [] }, [])
    const [row] = await stored()
    if (outcome.kind !== 'refused' || row === undefined) throw new Error(outcome.kind)
    const { reason } = outcome
    const isFinal = finalReasons?.has(reason) === true
    await recordRefusal(harness.database, row, reason, { afterMs: 10, isFinal })
    for (let day = 1; day <= 3; day++) {
      expect(await check()).toMatchObject({ brokenReason: reason, askAgainAt: null })
    }
    expect(harness.calls).toHaveLength(1)
  })

  test('ask again after another refusal of Discord', async () => {
    const check = await connectTo(discordHere)
    discordAnswers(401, 50027)
    await check({ brokenReason: 'code_50027', brokenSince: new Date() })
    expect(harness.calls).toHaveLength(1)
  })

  test('that cannot ask say nothing: only a message does', async () => {
    const check = await connectTo(teams)
    const askAgainAt = new Date('2099-01-01')
    expect(await check({ askAgainAt })).toMatchObject({ askAgainAt, brokenSince: null })
    const broken = { brokenReason: 'http_404', brokenSince: new Date(), askAgainAt: null }
    // The next message is tried.
    expect(await check(broken)).toMatchObject({ ...broken, askAgainAt: expect.any(Date) })
    expect(harness.calls).toEqual([])
  })
})
