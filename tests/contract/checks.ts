import * as v from 'valibot'
import {
  connectionStatusAnswer,
  endpoints,
  healthAnswer,
  navigations,
  pathOf,
  rulesAnswer,
} from '../../contract/endpoints.ts'
import { featureCalls } from '../../contract/features.ts'
import { availableRuleIds } from '../../contract/rules.ts'
import { isHtml } from '../../server/cli/ask.ts'
import {
  type Answered,
  type Client,
  endsCookie,
  Finding,
  type Provider,
  siteOf,
  type Target,
} from './client.ts'

// What the dashboard relies on. Vitest runs these checks against the server and the MSW handlers, and
// `npm run check:backend` runs them against any address.

/** The providers of the specification. */
export const names = {
  crm: { id: 'hubspot', name: 'HubSpot' },
  chat: { id: 'slack', name: 'Slack' },
}

export interface Check {
  name: string
  /** A section of the specification, and a sentence of it as it stands there: '§7 A sentence.' */
  specification: string
  needs?: 'origin' | 'write'
  /** @throws Finding if the check does not pass. */
  run(backend: Client): Promise<void>
}

export interface Outcome {
  check: Check
  result: 'passed' | Finding['result']
  finding?: Finding
}

export async function runCheck(check: Check, backend: Client): Promise<Outcome> {
  const earlier = backend.exchanges.length
  try {
    await check.run(backend)
    return { check, result: 'passed' }
  } catch (error) {
    if (!(error instanceof Finding)) throw error
    const last = backend.exchanges.length > earlier ? backend.exchanges.at(-1) : undefined
    const { result, message, exchange = last, isUnreachable } = error
    return { check, result, finding: new Finding(result, message, { exchange, isUnreachable }) }
  }
}

/** All checks for two providers and one dashboard. */
export function createChecks({ crm, chat, origin }: Pick<Target, 'crm' | 'chat' | 'origin'>) {
  const each = (create: (provider: Provider, role: 'crm' | 'chat') => Check) => [
    create(crm, 'crm'),
    create(chat, 'chat'),
  ]
  const page = origin ?? 'the dashboard'
  const checks: Check[] = [
    {
      name: 'GET /health answers a status',
      specification:
        '§7 GET /health | none | field status. Any failure means the service is unavailable.',
      async run({ call }) {
        const answered = await call(endpoints.health.path)
        const json = readJson(answered)
        if (!v.is(healthAnswer, json)) {
          fail('`status` is missing.', answered)
        }
      },
    },

    ...each(({ id, name }, role) => ({
      name: `GET /api/${id}/status says whether ${name} is connected`,
      specification: `§7 GET /api/{${role}}/status | none | connected`,
      async run({ call }) {
        const answered = await call(pathOf(endpoints.status, id))
        const json = readJson(answered)
        if (!v.is(connectionStatusAnswer, json)) {
          fail(
            `\`connected\` must be true or false, but it is ${shown(json, 'connected')}. The dashboard shows ${name} as not connected.`,
            answered,
          )
        }
      },
    })),

    {
      name: 'GET /api/notifications/rules answers the rules',
      specification:
        '§7 GET /api/notifications/rules | none | rules, an array of rule id strings. A non-array is treated as empty.',
      async run({ call }) {
        const answered = await call(endpoints.rules.path)
        const json = readJson(answered)
        if (!isObject(json)) fail('The answer must be an object with the field `rules`.', answered)
        const { rules } = json
        if (!Array.isArray(rules)) {
          const text = `\`rules\` is ${shown(json, 'rules')}, not an array. The dashboard treats it as empty, and the next save overwrites what it means.`
          if ((rules ?? null) === null && !isRenamed(json)) warn(text, answered)
          fail(text, answered)
        }
        if (!rules.every((id) => typeof id === 'string')) {
          fail('`rules` has items that are no texts. The dashboard drops them.', answered)
        }
      },
    },

    {
      name: 'no cache keeps what is about a person',
      specification: '§4 Rules load once when the dashboard opens.',
      async run({ call }) {
        for (const path of [pathOf(endpoints.status, crm.id), endpoints.rules.path]) {
          const answered = await call(path)
          const caching = answered.answer.headers.get('Cache-Control') ?? ''
          if (!answered.answer.ok || /no-store|no-cache|private/.test(caching)) continue
          const what =
            caching === '' ? 'There is no Cache-Control' : `Cache-Control is '${caching}'`
          warn(
            `${what}. A cache in front of the backend may answer others with it. Send no-store.`,
            answered,
          )
        }
      },
    },

    ...featureCalls
      .filter(({ call }) => call.method === 'GET')
      .map(
        ({ call: { path, feature }, answer }): Check => ({
          name: `GET ${path} answers what the dashboard reads, if the backend lists ${feature}`,
          specification:
            '§1 What the server does beyond the calls listed in section 7 is not shown.',
          async run(backend) {
            if (answer === undefined || !(await isListed(backend, feature))) return
            const answered = await backend.call(path)
            // Before the services are connected, a backend may have no answer.
            if (answered.answer.status === 409) return
            const { issues } = v.safeParse(answer, readJson(answered))
            if (issues) {
              const field = v.getDotPath(issues[0])
              fail(
                `contract/features/ has another answer: ${field ?? ''} ${issues[0].message}.`,
                answered,
              )
            }
          },
        }),
      ),

    ...each(({ id, name }) => ({
      name: `GET /api/${id}/auth redirects to ${name}`,
      specification:
        '§7 The browser navigates (not a background request) to /api/{crm}/auth and /api/{chat}/auth on the backend to start each authorization flow.',
      async run({ call, target }) {
        const answered = await call(pathOf(navigations.authorize, id), { navigates: true })
        const { status, headers } = answered.answer
        const location = headers.get('Location')
        if (![301, 302, 303, 307, 308].includes(status) || location === null) {
          fail(
            `The browser must be redirected (3xx with a Location). ${saysStatus(answered)}`,
            answered,
          )
        }
        if (!URL.canParse(location, answered.url)) fail('The Location is no URL.', answered)
        const to = new URL(location, answered.url)
        const callbackPage = pathOf(navigations.callbackPage, id)
        const own = new URL(target.url).origin
        const dashboard = target.origin ?? own
        // A backend that plays the service has a consent page of its own, or consents at once.
        const asks = to.searchParams.has('client_id')
        const consents =
          to.origin === dashboard && to.pathname === callbackPage && to.searchParams.has('code')
        if ([own, dashboard].includes(to.origin) && !asks && !consents) {
          fail(
            `The redirect leads neither to ${name} nor, with a code, to the dashboard's page ${callbackPage}.`,
            answered,
          )
        }
        const back = to.searchParams.get('redirect_uri')
        const expected = target.origin === undefined ? callbackPage : target.origin + callbackPage
        if (back !== null && !back.endsWith(expected)) {
          warn(
            `\`redirect_uri\` does not lead to the dashboard's page ${expected}. Make sure that its target ends there, with the code.`,
            answered,
          )
        }
      },
    })),

    ...each(({ id }) => ({
      name: `GET /api/${id}/callback without a code is an error`,
      specification: '§5 Authorization callbacks require a code query parameter.',
      async run({ call }) {
        const answered = await call(pathOf(endpoints.callback, id))
        if (answered.answer.ok) {
          fail(
            `The answer must be an error, because any 2xx means connected. ${saysStatus(answered)}`,
            answered,
          )
        }
        if ([404, 405, 501].includes(answered.answer.status)) {
          fail(`The backend does not seem to know this call. ${saysStatus(answered)}`, answered)
        }
      },
    })),

    {
      name: 'an unknown address below /api is an error',
      specification:
        '§7 Response: not shown. The answer is not read; only success or failure matters.',
      async run({ call }) {
        const answered = await call('/api/notifications/no-such-call')
        if (answered.answer.ok) {
          fail('A call that the backend does not know would look successful.', answered)
        }
      },
    },

    {
      name: `${page} may read the answers`,
      specification: '§7 All calls go to the backend service and carry credentials.',
      needs: 'origin',
      async run({ call, target: { url } }) {
        const { protocol, hostname } = new URL(url)
        if (origin?.startsWith('https:') && protocol === 'http:' && !isLoopback(hostname)) {
          fail('Browsers block calls over http from a page on https.')
        }
        for (const path of [
          endpoints.health.path,
          pathOf(endpoints.status, crm.id),
          pathOf(endpoints.status, chat.id),
          endpoints.rules.path,
        ]) {
          expectAccess(await call(path), page)
        }
        const refused = await call(pathOf(endpoints.callback, crm.id))
        if (accessProblem(refused, page) !== undefined) {
          warn(
            'An error has no CORS headers, so the dashboard says that the server could not be reached.',
            refused,
          )
        }
      },
    },
    {
      name: `${page} may send DELETE, and rules as JSON`,
      specification:
        '§7 DELETE /api/{crm}/disconnect | no body | Response: not shown. It is not read.',
      needs: 'origin',
      async run(backend) {
        for (const [path, method, header] of [
          [pathOf(endpoints.disconnect, crm.id), 'DELETE', undefined],
          [pathOf(endpoints.disconnect, chat.id), 'DELETE', undefined],
          [endpoints.saveRules.path, 'POST', 'content-type'],
        ] as const) {
          const headers = {
            'Access-Control-Request-Method': method,
            ...(header && { 'Access-Control-Request-Headers': header }),
          }
          // A preflight carries no cookies.
          const options = { method: 'OPTIONS', headers, withoutSession: true }
          const answered = await backend.call(path, options)
          if (!answered.answer.ok) {
            fail(`The preflight must be answered with a 2xx. ${saysStatus(answered)}`, answered)
          }
          expectAccess(answered, page)
          // With credentials, '*' allows nothing.
          if (method === 'DELETE' && !isAllowed(answered, 'Access-Control-Allow-Methods', method)) {
            fail('Access-Control-Allow-Methods must name DELETE.', answered)
          }
          if (header && !isAllowed(answered, 'Access-Control-Allow-Headers', header)) {
            fail('Access-Control-Allow-Headers must name Content-Type.', answered)
          }
        }
      },
    },
    {
      name: 'no other origin may read the answers',
      specification: '§6 Requests carry cookies and credentials, so access is by session.',
      needs: 'origin',
      async run({ call }) {
        const stranger = 'https://another-site.invalid'
        const answered = await call(endpoints.rules.path, {
          headers: { Origin: stranger, 'Sec-Fetch-Site': 'cross-site' },
          withoutSession: true,
        })
        if (accessProblem(answered, stranger) === undefined) {
          warn('Any website may read the answers with the session of its visitors.', answered)
        }
      },
    },

    {
      name: 'POST /api/notifications/rules keeps what is saved',
      specification: '§3 Notification rules: a list of rule identifier strings, stored per user',
      needs: 'write',
      run: (backend) =>
        withOldRules(backend, async (old, kept) => {
          // A selection that is not the old one, so that a save without an effect is noticed.
          const [first, ...others] = availableRuleIds
          const rules = sameRules(old, [...kept, ...others]) ? [first ?? ''] : others
          await saveAndRead(backend, [...kept, ...rules])
        }),
    },
    {
      name: 'an empty selection may be saved',
      specification: '§5 An empty selection may be saved.',
      needs: 'write',
      run: (backend) =>
        withOldRules(backend, async (old, kept) => {
          if (kept.length > 0) {
            notRun(
              'The rules hold an id that the dashboard does not offer. A backend may refuse to take it back.',
            )
          }
          if (old.length === 0) await saveAndRead(backend, [...availableRuleIds].slice(0, 1))
          await saveAndRead(backend, [])
        }),
    },

    {
      name: 'the browser sends the cookies with every call, and scripts cannot read them',
      specification: '§6 Requests carry cookies and credentials, so access is by session.',
      async run({ call, exchanges, pageOrigin, target }) {
        // A new browser: a backend may set its cookie only then.
        await call(pathOf(navigations.authorize, crm.id), { navigates: true, withoutSession: true })
        const answered = exchanges.filter((exchange): exchange is Answered => !!exchange.answer)
        const set = answered.flatMap((exchange) =>
          exchange.answer.headers
            .getSetCookie()
            .filter((cookie) => !endsCookie(cookie))
            .map((cookie) => ({ exchange, cookie })),
        )
        if (set.length === 0) notRun('The backend set no cookie.')
        const calls = [
          pathOf(endpoints.status, crm.id),
          pathOf(endpoints.status, chat.id),
          endpoints.rules.path,
        ].map((path) => new URL(target.url + path).pathname)
        for (const { exchange, cookie } of set) {
          const problems = cookieProblems(cookie, { url: exchange.url, calls, pageOrigin })
          const name = cookie.split('=')[0]
          if (problems.length > 0) fail(`The cookie ${name}: ${problems.join('; ')}.`, exchange)
        }
      },
    },
  ]
  return checks
}

function fail(message: string, exchange?: Answered): never {
  throw new Finding('failed', (exchange && inItsPlace(exchange)) ?? message, { exchange })
}

/** What answered in the backend's place. What its answer lacks would say nothing about the backend. */
function inItsPlace(exchange: Answered): string | undefined {
  const { url, headers, answer } = exchange
  const location = answer.headers.get('Location') ?? ''
  const isRead = headers.get('Sec-Fetch-Mode') !== 'navigate'
  const isRedirect = answer.status >= 300 && answer.status < 400
  const end = isRead && isRedirect ? URL.parse(location, url) : new URL(answer.url)
  const plain = (to: URL) => to.host + to.pathname.replace(/\/$/, '')
  const from =
    end &&
    plain(end) !== plain(new URL(url)) &&
    `, after a redirect to ${end.origin}${end.pathname}`
  const isPage = isHtml(answer.headers, answer.body) && !(isRedirect && !isRead)
  if (!from && !isPage) return undefined
  return `${isPage ? 'A page of HTML' : 'Another address'} answered with ${answer.status}${from || ''}: perhaps the sign-in page of a proxy, or the page that a host shows at unknown addresses. Let the proxy pass the calls of the dashboard to the backend.`
}

function warn(message: string, exchange: Answered): never {
  throw new Finding('warning', message, { exchange })
}

function notRun(message: string): never {
  throw new Finding('not run', message)
}

function saysStatus({ url, answer }: Answered): string {
  const redirected = answer.url === url ? '' : ', after a redirect'
  const hint = answer.status === 401 ? ' Pass a session with --cookie.' : ''
  return `The status is ${answer.status}${redirected}.${hint}`
}

function isObject(json: unknown): json is Record<string, unknown> {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
}

/** Whether the answer has only other fields than `rules`, one of which may hold the rules. */
function isRenamed(json: Record<string, unknown>): boolean {
  return !('rules' in json) && Object.keys(json).length > 0
}

/** A field of an answer, as JSON. */
function shown(json: unknown, field: string): string {
  if (!isObject(json)) return 'missing'
  return JSON.stringify(json[field])?.slice(0, 60) ?? 'missing'
}

/** Reads an answer that the dashboard reads. */
function readJson(answered: Answered): unknown {
  const { ok, body } = answered.answer
  if (!ok) fail(`The answer must be a 2xx. ${saysStatus(answered)}`, answered)
  if (body === '') fail('The answer is empty, but the dashboard reads it.', answered)
  try {
    return JSON.parse(body)
  } catch {
    return fail('The answer must be JSON, but it is not.', answered)
  }
}

/** Whether the backend says that it offers this feature. */
async function isListed({ call }: Client, feature: string): Promise<boolean> {
  const { answer } = await call(endpoints.health.path)
  const health = v.safeParse(v.pipe(v.string(), v.parseJson(), healthAnswer), answer.body)
  return health.success && health.output.features?.includes(feature) === true
}

function isAllowed({ answer }: Answered, header: string, value: string): boolean {
  const allowed = (answer.headers.get(header) ?? '').toLowerCase().split(',')
  return allowed.map((item) => item.trim()).includes(value.toLowerCase())
}

/** Why a script of this origin may not read an answer to a call with credentials (Fetch standard). */
function accessProblem({ answer: { headers } }: Answered, origin: string): string | undefined {
  const allowed = headers.get('Access-Control-Allow-Origin')
  if (allowed !== origin) {
    const star = allowed === '*' ? ". With credentials, browsers refuse '*'" : ''
    return `Access-Control-Allow-Origin must be ${origin}, but it is ${allowed ?? 'missing'}${star}.`
  }
  const credentials = headers.get('Access-Control-Allow-Credentials')
  if (credentials === 'true') return undefined
  return `Access-Control-Allow-Credentials must be true, but it is ${credentials ?? 'missing'}.`
}

function expectAccess(answered: Answered, origin: string): void {
  const problem = accessProblem(answered, origin)
  if (problem !== undefined) fail(problem, answered)
}

/** Browsers trust this machine over http as they trust https. */
function isLoopback(hostname: string): boolean {
  return /^(localhost|.*\.localhost|127\..*|\[::1\])$/.test(hostname)
}

function cookieProblems(
  cookie: string,
  { url, calls, pageOrigin }: { url: string; calls: string[]; pageOrigin: string },
): string[] {
  const attributes = new Map(
    cookie
      .split(';')
      .slice(1)
      .map((part) => [
        (part.split('=')[0] ?? '').trim().toLowerCase(),
        part.split('=').slice(1).join('=').trim(),
      ]),
  )
  const { protocol, pathname } = new URL(url)
  const isSecure = attributes.has('secure')
  const sameSite = attributes.get('samesite')?.toLowerCase()
  const ownPath = attributes.get('path')
  const path = ownPath?.startsWith('/') ? ownPath : pathname.replace(/\/[^/]*$/, '') || '/'
  const covers = (called: string) =>
    called === path || called.startsWith(path.endsWith('/') ? path : `${path}/`)

  const problems: Array<string | false> = [
    !attributes.has('httponly') && 'without HttpOnly, a script can read it',
    siteOf(url, pageOrigin) === 'cross-site' &&
      sameSite !== 'none' &&
      `only SameSite=None; Secure lets browsers send it from ${pageOrigin}, which is another site`,
    sameSite === 'none' && !isSecure && 'browsers drop SameSite=None without Secure',
    !isSecure && protocol === 'https:' && 'without Secure, it also travels over http',
    !calls.every(covers) && `its Path ${path} leaves out calls; use Path=/`,
  ]
  return problems.filter((problem) => problem !== false)
}

/** Whether two selections hold the same rules, in any order. */
function sameRules(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((id) => b.includes(id))
}

async function readRules({ call }: Client) {
  const answered = await call(endpoints.rules.path)
  const json = readJson(answered)
  if (!v.is(rulesAnswer, json)) fail('The answer must be an object.', answered)
  return { answered, rules: v.parse(rulesAnswer, json).rules, json }
}

function save({ call }: Client, rules: readonly string[]) {
  const body = JSON.stringify({ rules })
  return call(endpoints.saveRules.path, { method: endpoints.saveRules.method, body })
}

async function saveAndRead(backend: Client, rules: readonly string[]): Promise<void> {
  const answered = await save(backend, rules)
  const { status, ok } = answered.answer
  if (status >= 400 && status < 500 && !(await isConnected(backend))) {
    notRun(
      `The backend refuses the save (${status}), but the dashboard does not save before both services are connected (§5). Pass a session in which they are.`,
    )
  }
  if (!ok) fail(`A save must be answered with a 2xx. ${saysStatus(answered)}`, answered)
  await expectRules(backend, rules)
}

async function expectRules(backend: Client, saved: readonly string[]): Promise<void> {
  const { rules, answered } = await readRules(backend)
  if (!sameRules(rules, saved)) {
    fail(`The save of ${JSON.stringify(saved)} succeeded, but other rules come back.`, answered)
  }
}

/** Whether both services are connected. */
async function isConnected({ call, target: { crm, chat } }: Client): Promise<boolean> {
  for (const { id } of [crm, chat]) {
    const status = v.safeParse(
      connectionStatusAnswer,
      readJson(await call(pathOf(endpoints.status, id))),
    )
    if (!status.success || !status.output.connected) return false
  }
  return true
}

/**
 * Restores the old rules after `work`, whatever happens. `kept` are the old ids that the dashboard does
 * not offer: a backend may refuse to take them back, so every save must contain them.
 */
async function withOldRules(
  backend: Client,
  work: (old: readonly string[], kept: readonly string[]) => Promise<void>,
): Promise<void> {
  const old = await readOldRules(backend)
  try {
    await work(
      old,
      old.filter((id) => !availableRuleIds.has(id)),
    )
  } finally {
    await restore(backend, old)
  }
}

async function readOldRules(backend: Client): Promise<readonly string[]> {
  const { json } = await readRules(backend).catch((error: unknown) => {
    if (!(error instanceof Finding)) throw error
    return notRun(`The old rules could not be read, so nothing is saved. ${error.message}`)
  })
  const rules = isObject(json) && !isRenamed(json) ? (json.rules ?? []) : undefined
  if (!v.is(v.array(v.string()), rules)) {
    return notRun('The old rules are no list of texts and could not be restored.')
  }
  return rules
}

async function restore(backend: Client, old: readonly string[]): Promise<void> {
  const isBack = async () => sameRules((await readRules(backend)).rules, old)
  try {
    if (await isBack()) return
    await save(backend, old)
    if (await isBack()) return
  } catch (error) {
    if (!(error instanceof Finding)) throw error
  }
  fail(`The old rules could not be restored. They were ${JSON.stringify(old)}. Save them again.`)
}
