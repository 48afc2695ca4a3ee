import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { launch } from '../server/program.ts'
import { createChecks, names, runCheck } from './checks.ts'
import { openClient, type Target } from './client.ts'
import { dashboardOrigin, type Fault, faults, openExampleBackend } from './example-backend.ts'

const root = resolve(import.meta.dirname, '../..')
const closing: Array<() => unknown> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** Runs `npm run check:backend -- …`. */
async function run(...args: string[]) {
  const program = launch(['scripts/check-backend.ts', ...args])
  closing.push(() => program.kill())
  const code = await program.exited
  const { output } = program
  /** The names of the checks with this sign. */
  const withSign = (sign: string) =>
    [...output.matchAll(new RegExp(`^${sign} (.*)$`, 'gm'))].map(([, name]) => name)
  const [failed, warned, notRun] = ['✗', '!', '-'].map(withSign)
  return { code, output, failed, warned, notRun }
}

async function example(fault?: Partial<Fault>) {
  const backend = await openExampleBackend(fault)
  closing.push(backend.close)
  return backend
}

const inAll = ['--origin', dashboardOrigin, '--write', '--cookie', 'sid=secret-0']

test('the example connects both services and disconnects them, each for one browser', async () => {
  const program = launch(['examples/backend.ts'], { PORT: '0' })
  closing.push(() => program.kill())
  const url = await program.listens()
  const passed = await run(url, '--origin', 'http://localhost:5173')
  expect(passed).toMatchObject({ code: 0, failed: [], warned: [] })

  const browser = { Cookie: '' }
  const call = (path: string, method = 'GET') =>
    fetch(url + path, { method, headers: browser, redirect: 'manual' })
  const services = ['hubspot', 'slack']
  const connected = async () => {
    const answers = services.map(async (service) => (await call(`/api/${service}/status`)).json())
    return (await Promise.all(answers)).map((status) => status.connected)
  }
  const statusOf = async (path: string, method?: string) => (await call(path, method)).status
  for (const service of services) {
    const { headers } = await call(`/api/${service}/auth`)
    browser.Cookie ||= headers.getSetCookie()[0]?.split(';')[0] ?? ''
    const back = new URL(headers.get('Location') ?? '')
    expect(back.origin + back.pathname).toBe(`http://localhost:5173/${service}/callback`)
    const callback = `/api/${service}/callback${back.search}`
    expect(await statusOf(callback.replace('state=', 'state=0'))).toBe(400)
    expect([await statusOf(callback), await statusOf(callback)]).toEqual([204, 400])
  }
  expect(await connected()).toEqual([true, true])
  expect(await statusOf('/api/slack/disconnect', 'DELETE')).toBe(403)
  Object.assign(browser, { Origin: 'http://localhost:5173' })
  expect(await statusOf('/api/slack/disconnect', 'DELETE')).toBe(204)
  expect(await connected()).toEqual([true, false])
  browser.Cookie = ''
  expect(await connected()).toEqual([false, false])
})

test('a fault is shown with what was sent, what came back, and the sentence; without secrets', async () => {
  const { url } = await example(faults['connected is a text'])
  const result = await run(url, ...inAll)
  expect(result).toMatchObject({ code: 1, warned: [] })
  expect(result.failed).toEqual([faults['connected is a text']?.check])
  expect(result.output).toMatch(/\n {4}sent {6}GET http:.*\n(.*\n)+ {4}came back 200/)
  expect(result.output).toMatch(/\n {4}§7 {8}\S/)
  expect(result.output).not.toContain('secret')
  expect(result.output).toMatch(/\d\d passed, 1 failed, 0 with a warning, 0 not run/)
})

test.each(Object.entries(faults))('names the fault: %s', async (_name, fault) => {
  const { url, user } = await example(fault)
  const target = { url, ...names, origin: dashboardOrigin, cookie: 'sid=secret-0' }
  const backend = openClient(target)
  const failed: string[] = []
  for (const each of createChecks(target)) {
    const { result } = await runCheck(each, backend)
    if (result === 'failed') failed.push(each.name)
    else expect(result, each.name).not.toBe('warning')
  }
  expect(failed).toEqual([fault.check])
  expect(user.rules).toEqual(['deal-closed'])
})

// actual PR 3286, qui PR 1438, twenty #24927, oauth2-proxy #2292.
const signIn = 'https://login.test/sign_in'
/** As `fetch` answers after it has followed a redirect. */
const followed = (answer: Response) =>
  Object.defineProperties(answer, { url: { value: signIn }, redirected: { value: true } })
test.each<[string, (method: string) => Response, RegExp]>([
  [
    'by a page',
    () => new Response('<!doctype html><title>Sign in</title>', { status: 200 }),
    /^A page of HTML answered with 200: perhaps the sign-in page/,
  ],
  [
    'by a page that forbids',
    () => new Response('\n<HTML lang="en">', { status: 403 }),
    /^A page of HTML answered with 403: perhaps the sign-in page/,
  ],
  [
    'by a redirect to a page',
    (method) =>
      method === 'GET'
        ? followed(new Response('<!doctype html>'))
        : Response.redirect(`${signIn}?rd=1`, 302),
    /^(A page of HTML answered with 200|Another address answered with 302), after a redirect to https:\/\/login\.test\/sign_in: perhaps/,
  ],
  [
    'by a redirect to JSON',
    (method) =>
      method === 'GET'
        ? followed(Response.json({ error: 'login' }, { status: 200 }))
        : Response.redirect(signIn, 307),
    /^Another address answered with (200|307), after a redirect to https:\/\/login\.test\/sign_in: perhaps/,
  ],
])(
  'names a proxy that asks for a sign-in in the backend’s place, and not what its answer lacks: %s',
  async (_, answer, what) => {
    const url = 'https://api.example.com'
    const send = async ({ method }: Request) => answer(method)
    const target: Target = { url, ...names, origin: dashboardOrigin, send }
    const messages: string[] = []
    for (const each of createChecks(target).filter(({ needs }) => needs !== 'write')) {
      const { result, finding } = await runCheck(each, openClient(target))
      if (result === 'failed') messages.push(finding?.message ?? '')
    }
    expect(messages.length).toBeGreaterThan(5)
    for (const message of messages) expect(message).toMatch(what)
  },
)

test.each(['max-age=600', ''])("warns of answers that a cache may keep: '%s'", async (caching) => {
  const { url } = await example({
    calls: /^GET .*status/,
    change({ body }) {
      return new Response(body, { headers: caching === '' ? {} : { 'Cache-Control': caching } })
    },
  })
  const { code, warned } = await run(url)
  expect([code, warned]).toEqual([0, ['no cache keeps what is about a person']])
})

test('nothing is changed without --write', async () => {
  const { url, requests } = await example()
  const result = await run(url, '--origin', dashboardOrigin)
  expect(result.code).toBe(0)
  expect(result.notRun).toContain('Checks that need --write: 2.')
  expect(requests).toContain('OPTIONS /api/slack/disconnect')
  expect(requests.filter((request) => !/^(GET|OPTIONS) /.test(request))).toEqual([])
})

test('explains wrong usage', async () => {
  const { code, output } = await run()
  expect(code).toBe(2)
  expect(output).toContain('Name the address of one backend.')
  expect(output).toContain('Usage: npm run check:backend -- URL [options]')
})

/**
 * Runs the checks that save against a backend that begins with these rules.
 * @param keep what it keeps of a save; undefined if it answers 500.
 */
async function checkSaves(
  rules: string[],
  keep: (next: string[], before: string[]) => string[] | undefined,
) {
  const saved: string[][] = []
  const target: Target = {
    url: 'https://api.example.com',
    ...names,
    async send(request) {
      const before = saved.at(-1) ?? rules
      if (request.method === 'GET') return Response.json({ rules: before })
      const { rules: next } = await request.json()
      const kept = keep(next, before)
      if (kept !== undefined) saved.push(kept)
      return new Response(null, { status: kept === undefined ? 500 : 204 })
    },
  }
  const results: string[] = []
  for (const each of createChecks(target).filter(({ needs }) => needs === 'write')) {
    const { result, finding } = await runCheck(each, openClient(target))
    results.push(`${result} ${finding?.message}`)
  }
  return { results, saved }
}

test('an old id that the dashboard does not offer is never saved without', async () => {
  const { results, saved } = await checkSaves(['of-tomorrow'], (next) => next)
  expect(results).toEqual([expect.stringMatching(/^passed/), expect.stringMatching(/^not run/)])
  expect(saved).toHaveLength(2)
  for (const ids of saved) expect(ids).toContain('of-tomorrow')
})

test('old rules that the backend does not take again are printed', async () => {
  const old = ['deal-closed', 'of-tomorrow']
  const { results } = await checkSaves(old, (next, before) =>
    before.includes('deal-closed') ? next.slice(-1) : undefined,
  )
  expect(results.join()).toContain('They were ["deal-closed","of-tomorrow"].')
})

test('each check names a sentence of the specification', async () => {
  const specification = await readFile(join(root, 'docs/specification.md'), 'utf8')
  for (const { specification: cited } of createChecks(names)) {
    const [, section, sentence] = cited.match(/^§(\d) (.+)$/) ?? []
    const text = specification.split(/^## /m).find((part) => part.startsWith(`${section}.`))
    expect(text).toContain(sentence)
  }
})
