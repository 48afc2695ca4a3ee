import { Hono, type MiddlewareHandler } from 'hono'
import { expect, test } from 'vitest'
import { personHeader } from '../../contract/endpoints.ts'
import { answerError } from '../../server/http/errors.ts'
import {
  atOneLoopbackName,
  byFetchOnly,
  byOwnNavigation,
  corsForDashboard,
  fromDashboardOnly,
  toStandIn,
  writesFromDashboardOnly,
} from '../../server/http/origin.ts'
import { logTo } from '../../server/log.ts'

// Each guard on its own: who gets through, by the headers that a browser sends and a script cannot change.
const dashboard = 'https://dealbell.example'
const answered = 'answered'

function guardedBy(guard: MiddlewareHandler) {
  const app = new Hono()
  app.onError(answerError(logTo(() => {})))
  app.use('*', guard)
  app.all('*', (c) => c.text(answered))
  return async (headers: Record<string, string>, init: RequestInit = {}, url = '/') => {
    const answer = await app.request(url, { ...init, headers })
    const text = await answer.text()
    if (answer.status === 403) {
      const message = 'This call may only be made by the dashboard itself.'
      expect(JSON.parse(text)).toEqual({ error: { code: 'cross_site', message } })
      return 'refused'
    }
    return answer.status === 200 ? text : `${answer.status} ${answer.headers.get('Location')}`
  }
}

const ownSite = { 'Sec-Fetch-Site': 'same-origin' }
const own: Record<string, string>[] = [
  {},
  { Origin: dashboard },
  { Origin: dashboard, ...ownSite },
  { Origin: dashboard, 'Sec-Fetch-Site': 'same-site' },
  ownSite,
]
const foreign: Record<string, string>[] = [
  { Origin: 'https://evil.example' },
  { Origin: 'null' },
  { Origin: `${dashboard}.evil.example` },
  { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' },
  // DNS rebinding: the other site's name leads to this server.
  { Origin: 'http://evil.example:3000', 'Sec-Fetch-Site': 'same-origin' },
  { Origin: 'https://other.dealbell.example', 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'cross-site' },
  { 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'none' },
]

test.each([
  ...own.map((headers) => [headers, answered] as const),
  ...foreign.map((headers) => [headers, 'refused'] as const),
])('what the dashboard alone may call: to %j it is %s', async (headers, result) => {
  expect(await guardedBy(fromDashboardOnly(dashboard))(headers)).toBe(result)
})

test.each([
  ['GET', answered],
  ['POST', 'refused'],
  ['DELETE', 'refused'],
])('what the dashboard alone may write: %s by another is %j', async (method, result) => {
  const ask = guardedBy(writesFromDashboardOnly(dashboard))
  for (const headers of foreign) expect(await ask(headers, { method })).toBe(result)
  for (const headers of own) expect(await ask(headers, { method })).toBe(answered)
})

test('what only fetch calls is refused to a navigation', async () => {
  const ask = guardedBy(byFetchOnly)
  for (const mode of ['cors', 'same-origin', 'no-cors']) {
    expect(await ask({ 'Sec-Fetch-Mode': mode })).toBe(answered)
  }
  expect(await ask({})).toBe(answered)
  expect(await ask({ 'Sec-Fetch-Mode': 'navigate', ...ownSite })).toBe('refused')
})

test('what gives a cookie is refused to a navigation that another site began, and to all that is none', async () => {
  const ask = guardedBy(byOwnNavigation)
  for (const site of ['none', 'same-origin', 'same-site']) {
    expect(await ask({ 'Sec-Fetch-Site': site })).toBe(answered)
  }
  expect(await ask({})).toBe(answered)
  expect(await ask({ 'Sec-Fetch-Site': 'cross-site' })).toBe('refused')
  expect(await ask({ 'Sec-Fetch-Dest': 'document', ...ownSite })).toBe(answered)
  for (const purpose of ['image', 'iframe', 'empty', 'script', 'style', 'video']) {
    const headers = { 'Sec-Fetch-Dest': purpose, 'Sec-Fetch-Site': 'same-site' }
    expect(await ask(headers), purpose).toBe('refused')
  }
})

test.each<[string, string, Record<string, string>, string?]>([
  // Our own server and a browser, at each name that this machine has, and through a proxy.
  ['its own program', 'http://127.0.0.1:3000', {}],
  ['its own page', 'http://localhost:3000', { Origin: 'http://localhost:3000', ...ownSite }],
  ['its own page, at a number', 'http://192.168.1.5:3000', { Origin: 'http://192.168.1.5:3000' }],
  ['a proxy that passes the host on', dashboard, { Origin: dashboard }],
  ['a proxy that does not', 'http://127.0.0.1:3000', { Origin: dashboard, ...ownSite }],
  ['another port', 'http://localhost:3000', { Origin: 'http://localhost:9999' }, 'reads only'],
  ['a frame without an origin', 'http://localhost:3000', { Origin: 'null' }, 'reads only'],
  ['another site', 'http://localhost:3000', { Origin: 'https://evil.example' }, 'reads only'],
  ['the same site', 'http://localhost:3000', { 'Sec-Fetch-Site': 'same-site' }, 'reads only'],
  // DNS rebinding: the other site's name leads to this server.
  ['a rebound name', 'http://evil.example:3000', { Origin: 'http://evil.example:3000' }, 'refused'],
  ['a rebound name, same-origin', 'http://evil.example:3000', ownSite, 'refused'],
])('a stand-in and %s: %s with %j', async (_, address, headers, result = answered) => {
  const ask = guardedBy(toStandIn(dashboard))
  const got = { read: await ask(headers, {}, address), write: '' }
  got.write = await ask(headers, { method: 'POST' }, address)
  const [read, write] = result === 'reads only' ? [answered, 'refused'] : [result, result]
  expect(got).toEqual({ read, write })
})

const cors = new Hono().use('*', corsForDashboard(dashboard)).all('*', (c) => c.text(answered))
/** What a page of this origin learns, by the method that it asks with. */
async function access(origin: string | undefined, method: string) {
  const asked = { 'Access-Control-Request-Method': 'DELETE', ...(origin && { Origin: origin }) }
  const { headers } = await cors.request('/', { method, headers: asked })
  return Object.fromEntries([...headers].filter(([name]) => name.startsWith('access-control-')))
}

test('the dashboard at another host may call with the session, and remember that for ten minutes', async () => {
  const always = {
    'access-control-allow-origin': dashboard,
    'access-control-allow-credentials': 'true',
    'access-control-expose-headers': `${personHeader},Date`,
  }
  expect(await access(dashboard, 'GET')).toEqual(always)
  expect(await access(dashboard, 'OPTIONS')).toEqual({
    ...always,
    'access-control-allow-methods': 'GET,POST,DELETE',
    'access-control-allow-headers': `Content-Type,${personHeader}`,
    'access-control-max-age': '600',
  })
})

test.each([undefined, 'null', 'https://evil.example', `${dashboard}.evil.example`])(
  'the dashboard is not at %s',
  async (origin) => {
    for (const method of ['GET', 'OPTIONS']) expect(await access(origin, method)).toEqual({})
  },
)

const local = 'http://localhost:3000'
test.each([
  [local, 'GET', 'http://127.0.0.1:3000/contact?a=1&b=%20', `302 ${local}/contact?a=1&b=%20`],
  [local, 'GET', `${local}/`, answered],
  [local, 'GET', 'http://127.0.0.1:8080/', answered],
  [local, 'POST', 'http://127.0.0.1:3000/', answered],
  ['http://box.local:3000', 'GET', 'http://127.0.0.1:3000/', answered],
])(
  'a page moves from the number of this machine to its name; APP_URL %s: %s %s is %s',
  async (appUrl, method, url, result) => {
    expect(await guardedBy(atOneLoopbackName(appUrl))({}, { method }, url)).toBe(result)
  },
)
