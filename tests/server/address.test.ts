import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { createRateLimits, rateLimits } from '../../server/http/rate-limit.ts'
import { logTo } from '../../server/log.ts'
import {
  appUrl,
  type Browser,
  browser,
  fromAddress,
  hold,
  openBrowser,
  refusal,
} from './harness.ts'
import { accepted, allowedForm, id, page, secret, sharePasting, wayBack } from './pasting.ts'

const {
  harness,
  address,
  standInAddress,
  answerPosts,
  withSettings,
  later,
  begin,
  submit,
  comeBack,
  stored,
} = await sharePasting()

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
  const said = unescaped(/id="problem"[^>]*>([^<]*)</.exec(text)?.[1])
  expect(said).toMatch(problem)
  // It was copied already.
  expect(said).not.toMatch(/copy|as the steps say/i)
  expect(text).toMatch(/aria-describedby="problem"/)
  expect(unescaped(/id="address"[^>]*value="([^"]*)"/.exec(text)?.[1])).toBe(form.address)
  expect(unescaped(/id="channel"[^>]*value="([^"]*)"/.exec(text)?.[1])).toBe(form.channel ?? '')
  expect(text).not.toMatch(/<script|<img/)
  expect(answer.headers.get('Cache-Control')).toBe('no-store')
  expect([answer.headers.get('Location'), await stored()]).toEqual([null, []])
  return answer
}

const refusedOf = async (fault: string) => {
  const metrics = await fromAddress(harness.app, '127.0.0.1').request('/metrics')
  const series = new RegExp(
    `^dealbell_addresses_refused_total.*provider="${id}",fault="${fault}".* (\\d+)$`,
    'm',
  )
  return Number(series.exec(await metrics.text())?.[1])
}

test.each<[fault: string, wrong: (right: string) => string, says: RegExp]>([
  ['no_address', () => '', /no web address/],
  ['no_address', () => '"><script>alert(1)</script>', /no web address/],
  ['scheme', () => "javascript:alert('&amp;')", /“https:\/\/”/],
  ['scheme', (right) => right.replace('http:', 'ftp:'), /“https:\/\/”/],
  ['user', (right) => right.replace('//', '//me@'), /“@” before the host/],
  [
    'spelling',
    (right) => right.replace('127.0.0.1', '127.1'),
    /must begin with “http:\/\/127\.0\.0\.1:\d+\/”/,
  ],
  ['scheme', (right) => right.replace(/:\d+/, ':1'), /“https:\/\/”/],
  ['origin', (right) => right.replace('http:', 'https:'), /calls only http:\/\/127\.0\.0\.1:\d+\./],
  ['spelling', (right) => right.replace('/workflows/', '/workflows/../workflows/'), /“\/\.\.”/],
  ['spelling', (right) => right.replace('/paths', '//paths'), /“\/\/”/],
  ['spelling', (right) => `${right}&a=[x]`, /“\[” does not belong in its parameters/],
  ['spelling', (right) => `${right}?a=x`, /“\?” does not belong in its parameters/],
  ['fragment', (right) => `${right}#fragment`, /“#”/],
  ['characters', (right) => right.replace('sig', ' sig'), /a space/],
  ['too_long', (right) => `${right}${'x'.repeat(2_000)}`, /longer than 2,000/],
  [
    'path',
    (right) => right.replace('/workflows/', '/flows/'),
    /part “\/powerautomate\/automations\/direct\/flows\/….*”.*“\/workflows\/.*tell whoever runs/,
  ],
])(
  'a wrong address (%s) is refused beside the field, counted, and not called (%#)',
  async (fault, wrong, says) => {
    const form = { address: wrong(address), channel: '"><img src=x>' }
    const state = await begin(browser)
    const before = await refusedOf(fault)
    harness.logged.length = 0
    await expectPage(browser, { ...form, state }, says)
    await expectPage(browser, { ...form, state }, /^Dealbell (cannot|does not) /)
    expect(harness.calls).toEqual([])
    expect(await refusedOf(fault)).toBe(before + 2)
    // Only what the chat may have changed is for the operator.
    const logged = harness.logged.join('\n')
    const mayBeNew = ['origin', 'fragment', 'characters', 'spelling', 'path'].includes(fault)
    expect(logged.includes('address not understood')).toBe(mayBeNew)
    if (fault === 'origin') expect(logged).toMatch(/"part":"127\.0\.0\.1:\d+"/)
    for (const each of [secret, '0123456789abcdef']) expect(logged).not.toContain(each)
  },
)

test.each<[RegExp, () => Response | Promise<Response>, callMs?: number]>([
  [
    /deleted\. Make a new one\. Its answer was http_404\.$/,
    () => new Response('', { status: 404 }),
  ],
  [
    /“Anyone”/,
    () => Response.json({ error: { code: 'DirectApiAuthorizationRequired' } }, { status: 401 }),
  ],
  [
    /did not take .* answer was http_413\. .*may be deleted/,
    () => new Response('', { status: 413 }),
  ],
  [/signature .* Its answer was http_401\.$/, () => new Response('', { status: 401 })],
  [/could not be reached \(http_500\)\. Try again/, () => new Response('', { status: 500 })],
  [
    /again in 1 second\.$/,
    () => new Response('', { status: 429, headers: { 'Retry-After': '1' } }),
  ],
  [/could not be reached/, () => Response.redirect('http://127.0.0.1:1/', 302)],
  [/could not be reached \(TIMEOUT\)/, () => new Promise(() => {}), 50],
])(
  'if the webhook does not take the message, the page says: %s',
  async (problem, answer, callMs) => {
    answerPosts(answer)
    const one = openBrowser({ app: callMs === undefined ? harness.app : withSettings({}, callMs) })
    const state = await begin(one)
    await expectPage(one, { state, address, channel: 'sales <b>' }, problem)
    // A second try is a new one. A short limit is only for who never answers.
    answerPosts(accepted)
    if (callMs === undefined) expect((await submit(one, { state, address })).status).toBe(303)
  },
)

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

test('Cancel leads to the dashboard without a word, and reads nothing else of the form', async () => {
  const state = await begin(browser)
  const { href } = wayBack(await submit(browser, { state, address: 'x', answer: 'cancel' }))
  expect(href).toBe(`${appUrl}/`)
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
  await expectPage(
    elsewhere,
    { state, address: standInAddress },
    /part “\/sandbox\/microsoft-teams\/services\/sales”/,
  )
  const pressed = await submit(elsewhere, { state, answer: 'stand-in' })
  expect([pressed.status, harness.calls]).toEqual([400, []])
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

test.each([id, 'hubspot'] as const)(
  'after too many strangers have failed at %s, it is called only for a person whom the CRM knows',
  async (provider) => {
    const log = logTo((_level, event) => void harness.logged.push(event))
    const limits = createRateLimits({ trustedProxies: 0, log })
    const app = harness.appWith({ limits })
    const outside = new Hono().get('/', async (c) => {
      const fails = () =>
        limits.attempt(
          c,
          provider,
          undefined,
          async () => false,
          (works) => works,
        )
      for (let n = 0; n < rateLimits.failuresOfAll.times; n++) await fails()
      return c.text('')
    })
    const known = openBrowser({ app })
    await known.connect('hubspot')
    const stranger = openBrowser({ app })
    // It has a session, but anybody has a webhook of his own.
    await stranger.connect(id)
    await outside.request('/')
    /** @returns whether the provider was called. */
    async function fail(one: Browser): Promise<boolean> {
      harness.calls.length = 0
      if (provider === id) {
        answerPosts(() => new Response('', { status: 404 }))
        const { status } = await submit(one, { state: await begin(one), address })
        expect(status).toBe(harness.calls.length > 0 ? 400 : 429)
      } else {
        const params = await one.authorize(provider)
        params.set('code', 'made-up')
        harness.calls.length = 0
        const { status } = await one.call(`/api/${provider}/callback?${params}`)
        expect(status).toBe(harness.calls.length > 0 ? 502 : 429)
      }
      return harness.calls.length > 0
    }
    expect(await fail(openBrowser({ app }))).toBe(false)
    expect(await fail(stranger)).toBe(false)
    expect(harness.logged).toEqual(['rate limit reached'])
    expect(await fail(known)).toBe(true)
  },
)
