import { readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { launch } from '../server/program.ts'
import { createChecks, names, runCheck } from './checks.ts'
import { openClient, type Target } from './client.ts'
import {
  dashboardOrigin,
  type Fault,
  faults,
  listen,
  openExampleBackend,
} from './example-backend.ts'

const root = resolve(import.meta.dirname, '../..')
const closing: Array<() => unknown> = []
afterEach(async () => {
  for (const close of closing.splice(0)) await close()
})

/** `npm run check:backend -- …` as a process. */
function start(...args: string[]) {
  const program = launch(['scripts/check-backend.ts', ...args])
  closing.push(() => program.kill())
  return {
    child: program.child,
    async ended() {
      const code = await program.exited
      const { output } = program
      /** The names of the checks with this sign. */
      const withSign = (sign: string) =>
        [...output.matchAll(new RegExp(`^${sign} (.*)$`, 'gm'))].map(([, name]) => name)
      return {
        code,
        output,
        passed: withSign('✓'),
        failed: withSign('✗'),
        warned: withSign('!'),
        notRun: withSign('-'),
      }
    },
  }
}
const run = (...args: string[]) => start(...args).ended()

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

test('a save that is lost is one fault, not one for each check that saves', async () => {
  const { url, user } = await example({
    calls: /^POST /,
    change(answer, user) {
      user.rules = ['deal-closed']
      return answer
    },
  })
  const { failed, notRun } = await run(url, ...inAll)
  expect(failed).toEqual(['POST /api/notifications/rules keeps what is saved'])
  expect(notRun).toContain('Checks that need saves that are kept: 1.')
  expect(user.rules).toEqual(['deal-closed'])
})

test('nothing is changed without --write', async () => {
  const { url, requests } = await example()
  const result = await run(url, '--origin', dashboardOrigin)
  expect(result.code).toBe(0)
  expect(result.notRun).toContain('Checks that need --write: 2.')
  expect(requests).toContain('OPTIONS /api/slack/disconnect')
  expect(requests.filter((request) => !/^(GET|OPTIONS) /.test(request))).toEqual([])
})

test('an address that does not answer is named in one sentence', async () => {
  const { url, close } = await listen(() => {})
  close()
  const { code, output } = await run(url)
  expect(code).toBe(1)
  expect(output.trim().split('\n').slice(1)).toEqual([
    `${url} cannot be reached. The connection failed (ECONNREFUSED).`,
  ])
})

test.each([
  [[], 'Name the address of one backend.'],
  [['http://localhost:1', '--chat', 'hubspot'], '--crm and --chat must differ'],
])('explains wrong usage: %j', async (args, message) => {
  const { code, output } = await run(...args)
  expect(code).toBe(2)
  expect(output).toContain(message)
  expect(output).toContain('Usage: npm run check:backend -- URL [options]')
})

describe('an answer', () => {
  type Answers = Record<string, (request: Request) => Response | Promise<Response>>

  /** The result of one check against a backend that gives only these answers. */
  async function check(name: string, answers: Answers, changes: Partial<Target> = {}) {
    const target: Target = {
      url: 'https://api.example.com',
      ...names,
      ...changes,
      send: async (request) => {
        const { pathname } = new URL(request.url)
        const answer = answers[`${request.method} ${pathname}`] ?? answers[pathname]
        return (await answer?.(request)) ?? new Response(null, { status: 404 })
      },
    }
    const found = createChecks(target).find((one) => one.name.includes(name))
    if (found === undefined) throw new Error(`There is no check ${name}.`)
    const { result, finding } = await runCheck(found, openClient(target))
    return finding === undefined ? result : `${result}: ${finding.message}`
  }
  const rulesPath = '/api/notifications/rules'
  /** What a backend answers to reads of the rules, and with which status to saves. */
  const rulesAnswers = (
    read: () => object,
    save: (rules: string[], request: Request) => number,
  ): Answers => ({
    [`GET ${rulesPath}`]: () => Response.json(read()),
    [`POST ${rulesPath}`]: async (request) => {
      const { rules } = (await request.json()) as { rules: string[] }
      return new Response(null, { status: save(rules, request) })
    },
  })

  test.each([
    ['sid=1; Path=/; HttpOnly; Secure; SameSite=Strict', 'passed'],
    ['sid=1; HttpOnly; Secure', 'Path /api/hubspot leaves out calls'],
    ['sid=1; Path=/; HttpOnly; SameSite=None', 'drop SameSite=None'],
    ['sid=; Max-Age=0', 'not run'],
  ])('with the cookie %s: %s', async (cookie, expected) => {
    const answers = {
      '/api/hubspot/auth': () => new Response(null, { headers: { 'Set-Cookie': cookie } }),
    }
    const sameSite = { origin: 'https://app.example.com' }
    expect(await check('the cookies', answers, sameSite)).toContain(expected)
  })

  test('that refuses the old rules makes the command print them', async () => {
    let rules = ['deal-closed', 'of-tomorrow']
    const answers = rulesAnswers(
      () => ({ rules }),
      (saved) => {
        if (!rules.includes('deal-closed')) return 500
        rules = saved.slice(-1)
        return 204
      },
    )
    const printed = 'They were ["deal-closed","of-tomorrow"].'
    expect(await check('keeps what is saved', answers)).toContain(printed)
  })

  test('with an old id that the dashboard does not offer is never saved without it', async () => {
    const saved: string[][] = []
    const answers = rulesAnswers(
      () => ({ rules: saved.at(-1) ?? ['of-tomorrow'] }),
      (rules) => {
        saved.push(rules)
        return 204
      },
    )
    expect(await check('keeps what is saved', answers)).toBe('passed')
    expect(await check('an empty selection', answers)).toContain('not run')
    expect(saved).toHaveLength(2)
    for (const ids of saved) expect(ids).toContain('of-tomorrow')
  })
})

test('each check names a sentence of the specification', async () => {
  const specification = await readFile(join(root, 'docs/specification.md'), 'utf8')
  for (const { specification: cited } of createChecks(names)) {
    const [, section, sentence] = cited.match(/^§(\d) (.+)$/) ?? []
    const text = specification.split(/^## /m).find((part) => part.startsWith(`${section}.`))
    expect(text).toContain(sentence)
  }
})
