import { randomUUID } from 'node:crypto'
import { getRequestListener } from '@hono/node-server'
import { eq, sql } from 'drizzle-orm'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeEach, vi } from 'vitest'
import { connections, crmAccounts, deliveries, rules } from '../../server/database/schema.ts'
import { webhookPassword } from '../../server/providers/pipedrive/webhook.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { createPipedriveApi } from '../../stand-ins/pipedrive/api.ts'
import {
  createUsers,
  DailyBudget,
  type DealData,
  type PipedriveCompany,
  type StandInDeal,
  StandInDeals,
  type StandInUser,
} from '../../stand-ins/pipedrive/company.ts'
import { createPipedriveOAuth } from '../../stand-ins/pipedrive/oauth.ts'
import { StandInWebhooks } from '../../stand-ins/pipedrive/webhooks.ts'
import { tokensOf } from '../pipedrive-openapi.ts'
import { storeAccounts } from './accounts.ts'
import { appUrl } from './hubspot-webhook.ts'
import { listen } from './listen.ts'
import {
  ago,
  backend,
  day,
  open,
  outside,
  second,
  shareBackend,
  soon,
  startSearch,
} from './shared.ts'

const clientSecret = 'pipedrive-client-secret'
const scopes = ['deals:read', 'users:read', 'recents:read', 'webhooks:full', 'base']

interface Call {
  by: StandInUser | undefined
  method: string
  path: string
  tokens: number
}

/** Each test has a company of its own. Ada sees all its deals, and Ben only his own ones. */
export let company: PipedriveCompany
export let ada: StandInUser
export let ben: StandInUser
export let webhooks: StandInWebhooks
/** What reached Pipedrive's API, in order. */
export const calls: Call[] = []
/** What Pipedrive answers to a call in place of its own answer. */
export const fault: { current: ((call: Call) => Response | undefined) | undefined } = {
  current: undefined,
}
let lastCompany = 5_300_000
let standIn = new Hono()

/** One backend for the tests of a file, with a stand-in of Pipedrive over real HTTP. Slack is the double of `outside`. */
export async function shareCompany(): Promise<void> {
  const web = await listen(getRequestListener((request) => answer(request)))
  const apiUrl = `${web.url}/sandbox/pipedrive`
  const env = {
    VITE_CRM_NAME: 'Pipedrive',
    PIPEDRIVE_CLIENT_ID: 'pipedrive-client',
    PIPEDRIVE_CLIENT_SECRET: clientSecret,
    PIPEDRIVE_API_URL: apiUrl,
    API_URL: web.url,
    APP_URL: appUrl,
  }
  const settings = parseEnv({ ...env, SLACK_CLIENT_ID: 'a', SLACK_CLIENT_SECRET: 'b' }).addressesAt(
    1,
  ).providers.pipedrive
  shareBackend('PGlite', { settings: env })
  beforeEach(() => {
    const users = createUsers(clientSecret)
    const [first, second] = users
    if (second === undefined) throw new Error('The company has only one user.')
    ada = first
    ben = second
    lastCompany += 1
    const about = { company_id: lastCompany, company_name: 'Acme', company_domain: 'acme' }
    const list = '/sandbox/pipedrive/deals'
    const redirectUri = `${appUrl}/pipedrive/callback`
    const site = { id: 'pipedrive' as const, appUrl, pages: {} }
    const deals = new StandInDeals(users)
    for (const { data } of deals.all()) deals.delete(`${data.id}`)
    const of = { users, deals, budget: new DailyBudget(), about, list, redirectUri }
    company = { ...of, site, settings, appUrl, apiUrl: web.url }
    webhooks = new StandInWebhooks(company)
    standIn = new Hono()
      .route(
        '/',
        createPipedriveOAuth(company, () => {}),
      )
      .route('/api', createPipedriveApi(company, webhooks))
    calls.length = 0
    outside.posts.length = 0
  })
  afterEach(async () => {
    fault.current = undefined
    await Promise.all(searches.splice(0).map((each) => each.stop()))
    await open.database.execute(
      sql`truncate users, deal_events, crm_accounts, crm_budgets, channels cascade`,
    )
  })
  afterAll(web.close)

  async function answer(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url)
    if (!pathname.startsWith('/sandbox/pipedrive/')) return await backend.app.fetch(request)
    const token = request.headers.get('Authorization') ?? ''
    const by = company.users.find(({ id }) => token.includes(`pipedrive-stand-in-${id}-`))
    const path = pathname.replace('/sandbox', '')
    const { method } = request
    const call = { by, method, path, tokens: tokensOf(`${method} ${path}`) }
    calls.push(call)
    return (
      fault.current?.(call) ??
      (await new Hono().route('/sandbox/pipedrive', standIn).fetch(request))
    )
  }
}

export const callsOf = (user: StandInUser) => calls.filter(({ by }) => by === user)
export const spentBy = (user: StandInUser) =>
  callsOf(user).reduce((sum, { tokens }) => sum + tokens, 0)

/** A user of the company, who has been connected for four days, and has a webhook. */
export async function connect(
  user: StandInUser,
  channel: string,
  ruleIds = ['deal-stage-changed'],
): Promise<string> {
  const userId = await backend.newUser()
  const { company_id } = company.about
  const { apiUrl } = company.settings
  const grant = { grant: randomUUID(), scopes }
  const endsAt = Date.now() + day
  const accessToken = user.tokens.issue({ ...grant, use: 'access', endsAt })
  const refreshToken = user.tokens.issue({ ...grant, use: 'refresh', endsAt: null })
  await storeAccounts(
    backend.database,
    backend.vault,
    userId,
    {
      crm: 'pipedrive',
      portal: company_id,
      crmUser: `${user.id}`,
      accessExpiresAt: new Date(endsAt),
      hubspot: { accessToken, refreshToken, apiUrl },
      team: `T${company_id}`,
      channel,
      chatSecrets: { accessToken: 'xoxb-secret' },
    },
    new Date(ago(4 * day) + (await backend.database.$count(connections)) * second),
  )
  await backend.database.insert(rules).values({ userId, ruleIds, savedAt: new Date() })
  const access = { accountId: `${company_id}`, accessToken, apiUrl, urgency: 'fresh' } as const
  await backend.providers.pipedrive.webhooks?.make(access)
  return userId
}

/** A deal that was opened a week ago. */
export const newDeal = (title: string, owner: StandInUser, value = 1_000) =>
  company.deals.add(
    { title, value, owner_id: owner.id, person_id: 301, org_id: null, stage_id: 10 },
    ago(7 * day),
  )

type Edit = Partial<Pick<DealData, 'stage_id' | 'status' | 'value'>>

/** Somebody edits a deal. The webhooks of all who may see it tell of that, unless it is dropped. */
export function edit(deal: StandInDeal, change: Edit, { at = Date.now(), dropped = false } = {}) {
  const previous = company.deals.edit(deal, change, at) ?? {}
  if (!dropped) webhooks.report('change', deal.data, previous)
  return previous
}

/** Pipedrive tells of an edit by a user's webhook, with ids of its own. @returns the status of the answer. */
export async function tell(
  user: StandInUser,
  { data, previous = {} }: { data: object | null; previous?: object | null },
  { company_id = company.about.company_id, auth = authOf(company_id), ...more }: Told = {},
): Promise<number> {
  const meta = {
    ...{ action: 'change', entity: 'deal', version: '2.0', company_id: `${company_id}` },
    ...{ id: randomUUID(), webhook_id: `${webhooks.of(user)[0]?.id}`, user_id: `${user.id}` },
    ...{ timestamp: new Date().toISOString(), ...more },
  }
  return await post({ meta, data, previous }, auth)
}
type Told = { company_id?: number; auth?: string } & Record<string, unknown>

export const authOf = (id: number) => `${id}:${webhookPassword(clientSecret, `${id}`)}`

/** A request to the address of Pipedrive's webhooks. @returns the status of the answer. */
export async function post(body: unknown, auth: string): Promise<number> {
  const headers = { 'Content-Type': 'application/json', Authorization: `Basic ${btoa(auth)}` }
  const request = { method: 'POST', headers, body: JSON.stringify(body) }
  return (await backend.app.request('/webhooks/pipedrive', request)).status
}

/** Resolves when a user has so many deliveries, and none of anybody is pending. @returns state and reason of each. */
export async function outcomes(userId: string, count: number) {
  await vi.waitFor(async () => {
    const own = await backend.database.$count(deliveries, eq(deliveries.userId, userId))
    const pending = await backend.database.$count(deliveries, eq(deliveries.state, 'pending'))
    if (own < count || pending > 0) throw new Error(`${own} of ${count}, ${pending} pending`)
  }, soon)
  return await backend.outcomes(userId)
}

const searches: ReturnType<typeof startSearch>[] = []

/** Searches the company for missed changes now. */
export async function search(): Promise<void> {
  const { database } = backend
  const due = { searchedAt: new Date(0), searchAt: new Date(0) }
  const accountId = `${company.about.company_id}`
  await database
    .insert(crmAccounts)
    .values({ crm: 'pipedrive', accountId, searchedUntil: new Date(ago(4 * day)), ...due })
    .onConflictDoUpdate({ target: [crmAccounts.crm, crmAccounts.accountId], set: due })
  if (searches.length === 0) searches.push(startSearch())
  await vi.waitFor(async () => {
    const [account] = await database.select().from(crmAccounts)
    if (!account?.searchedAt.getTime()) throw new Error('No search is complete.')
  }, soon)
}
