import { Hono, type MiddlewareHandler } from 'hono'
import { describe, expect, test } from 'vitest'
import { personHeader } from '../../contract/endpoints.ts'
import { answerError } from '../../server/http/errors.ts'
import {
  atOneLoopbackName,
  byFetchOnly,
  corsForDashboard,
  fromDashboardOnly,
  notFromAnotherSite,
  writesFromDashboardOnly,
} from '../../server/http/origin.ts'

// Each guard on its own: who gets through, by the headers that a browser sends and a script cannot change.
const dashboard = 'https://dealbell.example'
const answered = 'answered'

function guardedBy(guard: MiddlewareHandler) {
  const app = new Hono()
  app.onError(answerError(() => {}))
  app.use('*', guard)
  app.all('*', (c) => c.text(answered))
  return async (headers: Record<string, string>, init: RequestInit = {}, url = '/') => {
    const answer = await app.request(url, { ...init, headers })
    const text = await answer.text()
    if (answer.status === 403) {
      expect(JSON.parse(text)).toEqual({
        error: {
          code: 'cross_site',
          message: 'This call may only be made by the dashboard itself.',
        },
      })
      return 'refused'
    }
    return answer.status === 200 ? text : `${answer.status} ${answer.headers.get('Location')}`
  }
}

const own: Record<string, string>[] = [
  {},
  { Origin: dashboard },
  { Origin: dashboard, 'Sec-Fetch-Site': 'same-origin' },
  { Origin: dashboard, 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'same-origin' },
]
const foreign: Record<string, string>[] = [
  { Origin: 'https://evil.example' },
  { Origin: 'null' },
  { Origin: `${dashboard}.evil.example` },
  { Origin: 'http://dealbell.example' },
  { Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' },
  // DNS rebinding: the other site's name leads to this server.
  { Origin: 'http://evil.example:3000', 'Sec-Fetch-Site': 'same-origin' },
  { Origin: 'https://other.dealbell.example', 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'cross-site' },
  { 'Sec-Fetch-Site': 'same-site' },
  { 'Sec-Fetch-Site': 'none' },
]

describe('what the dashboard alone may call', () => {
  const ask = guardedBy(fromDashboardOnly(dashboard))
  test.each(own)('is answered to %j', async (headers) => {
    expect(await ask(headers)).toBe(answered)
  })
  test.each(foreign)('is refused to %j', async (headers) => {
    expect(await ask(headers)).toBe('refused')
  })
})

test.each([
  ['GET', answered],
  ['OPTIONS', answered],
  ['HEAD', ''],
  ['POST', 'refused'],
  ['PUT', 'refused'],
  ['PATCH', 'refused'],
  ['DELETE', 'refused'],
])('what the dashboard alone may write: %s by another answers %j', async (method, result) => {
  const ask = guardedBy(writesFromDashboardOnly(dashboard))
  for (const headers of foreign) expect(await ask(headers, { method })).toBe(result)
  for (const headers of own) {
    expect(await ask(headers, { method })).toBe(method === 'HEAD' ? '' : answered)
  }
})

test('what is called by fetch alone is refused to a navigation', async () => {
  const ask = guardedBy(byFetchOnly)
  for (const mode of ['cors', 'same-origin', 'no-cors']) {
    expect(await ask({ 'Sec-Fetch-Mode': mode })).toBe(answered)
  }
  expect(await ask({})).toBe(answered)
  expect(await ask({ 'Sec-Fetch-Mode': 'navigate' })).toBe('refused')
  expect(await ask({ 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Site': 'same-origin' })).toBe(
    'refused',
  )
})

test('what makes a session is refused to a navigation that another site began, and to no other', async () => {
  const ask = guardedBy(notFromAnotherSite)
  for (const site of ['none', 'same-origin', 'same-site']) {
    expect(await ask({ 'Sec-Fetch-Site': site })).toBe(answered)
  }
  expect(await ask({})).toBe(answered)
  expect(await ask({ 'Sec-Fetch-Site': 'cross-site' })).toBe('refused')
})

describe('another host that serves the dashboard', () => {
  const app = new Hono()
  app.use('*', corsForDashboard(dashboard))
  app.all('*', (c) => c.text(answered))
  const access = async (origin: string | undefined, init: RequestInit = {}) => {
    const answer = await app.request('/', {
      ...init,
      headers: { ...init.headers, ...(origin !== undefined && { Origin: origin }) },
    })
    return Object.fromEntries(
      [...answer.headers].filter(([name]) => name.startsWith('access-control-')),
    )
  }

  test('may call with the session, and learns whose it is', async () => {
    expect(await access(dashboard)).toEqual({
      'access-control-allow-origin': dashboard,
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': personHeader,
    })
  })

  test('is told what it may send, and may remember it for ten minutes', async () => {
    const asked = { method: 'OPTIONS', headers: { 'Access-Control-Request-Method': 'DELETE' } }
    expect(await access(dashboard, asked)).toEqual({
      'access-control-allow-origin': dashboard,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'GET,POST,DELETE',
      'access-control-allow-headers': `Content-Type,${personHeader}`,
      'access-control-expose-headers': personHeader,
      'access-control-max-age': '600',
    })
  })

  test.each([undefined, 'null', 'https://evil.example', `${dashboard}.evil.example`])(
    'is not %s',
    async (origin) => {
      expect(await access(origin)).toEqual({})
      expect(await access(origin, { method: 'OPTIONS' })).toEqual({})
    },
  )
})

describe('a page that was opened at the number of this machine', () => {
  const ask = guardedBy(atOneLoopbackName('http://localhost:3000'))
  const get = (url: string) => ask({}, {}, url)

  test.each(['127.0.0.1', '[::1]'])('%s moves to its name, with path and query', async (host) => {
    expect(await get(`http://${host}:3000/contact?a=1&b=%20`)).toBe(
      '302 http://localhost:3000/contact?a=1&b=%20',
    )
    expect(await get(`http://${host}:3000/`)).toBe('302 http://localhost:3000/')
  })

  test.each([
    'http://localhost:3000/',
    'http://127.0.0.1:8080/',
    'http://127.0.0.1/',
    'http://192.168.0.2:3000/',
    'http://dealbell.example:3000/',
  ])('stays where it is at %s', async (url) => {
    expect(await get(url)).toBe(answered)
  })

  test('is not moved while it sends something', async () => {
    expect(await ask({}, { method: 'POST' }, 'http://127.0.0.1:3000/')).toBe(answered)
  })

  test.each([dashboard, 'http://127.0.0.1:3000', 'http://box.local:3000'])(
    'stays where APP_URL is not localhost but %s',
    async (appUrl) => {
      const there = guardedBy(atOneLoopbackName(appUrl))
      const { port } = new URL(appUrl)
      expect(await there({}, {}, `http://127.0.0.1${port && `:${port}`}/`)).toBe(answered)
    },
  )
})
