import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { connections, rules, users } from '../../server/database/schema.ts'
import { createVault } from '../../server/people/vault.ts'
import { webhookPassword } from '../../server/providers/pipedrive/webhook.ts'
import { tokensOf } from '../pipedrive-openapi.ts'
import { storeAccounts } from '../relay/accounts.ts'
import { appUrl, dealsIn } from '../relay/hubspot-webhook.ts'
import { listen } from '../relay/listen.ts'
import { openOutside } from '../relay/outside.ts'
import {
  createPipedriveOutside,
  type PipedriveWebhook,
  pipedrivePath,
} from '../relay/pipedrive-outside.ts'
import { startPostgres } from '../relay/postgres.ts'
import { serverKey, startServer } from '../relay/process.ts'
import { onNewDatabase, openTarget, type Target } from './seed.ts'

// Measures what an event of Pipedrive costs of the company's day. docs/performance.md explains the table.
const companies = 10
const usersOfCompany = 10
const secret = 'pipedrive-client-secret'
const seconds = process.argv.includes('--quick') ? 10 : 30
const rows: Array<Record<string, string | number>> = []

const postgres = await startPostgres()
await onNewDatabase('PostgreSQL', postgres.url, measure)
await postgres.stop()
console.table(rows)

async function measure(database: Target): Promise<void> {
  const outside = await openOutside()
  let calls = 0
  let tokens = 0
  const crm = await listen(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const body = Buffer.concat(chunks).toString()
    const { method = 'GET', url: path = '/' } = request
    calls++
    tokens += tokensOf(`${method} ${path}`)
    const [, token = ''] = request.headers.authorization?.split(' ') ?? []
    const answer = pipedrive.answer({ method, path, token, body })
    response.writeHead(answer.status, { 'Content-Type': 'application/json', ...answer.headers })
    response.end(JSON.stringify(answer.body))
  })
  const pipedrive = createPipedriveOutside(crm.url)
  const webhooks = await seed(database, pipedrive.apiDomain)
  const server = await startServer({
    outside,
    database,
    env: {
      PIPEDRIVE_CLIENT_ID: 'pipedrive-client',
      PIPEDRIVE_CLIENT_SECRET: secret,
      PIPEDRIVE_API_URL: crm.url + pipedrivePath,
    },
  })
  try {
    let deal = 0
    for (const [name, rate] of [
      ['the first events, which read the stages', 0],
      ['1 event/s', 1],
      ['10 events/s', 10],
    ] as const) {
      const told = new Map<number, number>()
      const before = { calls, tokens, posts: outside.posts.length }
      const telling: Array<Promise<unknown>> = []
      const started = performance.now()
      const events = rate === 0 ? companies : rate * seconds
      for (let n = 0; n < events; n++) {
        if (rate > 0) await delay(Math.max(0, started + (n * 1000) / rate - performance.now()))
        const company = String((n % companies) + 1)
        const at = Date.now()
        const moved = { to: 'next', at, inHistoryAt: at } as const
        pipedrive.deals.set(++deal, { company, moves: [moved] })
        told.set(deal, performance.now())
        for (const webhook of webhooks.filter((each) => each.company === company)) {
          const request = pipedrive.eventFor(webhook, { deal, to: 'next' })
          telling.push(fetch(`${server.url}/webhooks/pipedrive`, request).then(expect204))
        }
      }
      await Promise.all(telling)
      const messages = events * usersOfCompany
      const countTold = () =>
        outside.posts.slice(before.posts).reduce((sum, post) => sum + dealsIn(post).length, 0)
      await outside.accepted(() => countTold() >= messages, 300_000)
      const latencies = outside.posts
        .slice(before.posts)
        .flatMap((post) => dealsIn(post).map((each) => post.atMs - (told.get(each) ?? 0)))
        .sort((a, b) => a - b)
      const ms = (share: number) =>
        `${Math.round(latencies[Math.floor(latencies.length * share)] ?? 0)} ms`
      rows.push({
        measured: name,
        messages,
        'tokens for each event and user': ((tokens - before.tokens) / messages).toFixed(2),
        'calls for each event and user': ((calls - before.calls) / messages).toFixed(2),
        p50: ms(0.5),
        p99: ms(0.99),
      })
    }
  } finally {
    await server.kill()
    await outside.close()
    await crm.close()
  }
}

async function expect204(answer: Response): Promise<void> {
  await answer.arrayBuffer()
  if (answer.status !== 204) throw new Error(`A webhook was answered with ${answer.status}.`)
}

/** Stores the users of each company, each with a channel of their own. @returns their webhooks. */
async function seed(target: Target, apiUrl: string): Promise<PipedriveWebhook[]> {
  const vault = createVault([serverKey])
  const { database, close } = await openTarget(target)
  const webhooks: PipedriveWebhook[] = []
  const now = new Date()
  for (let n = 0; n < companies * usersOfCompany; n++) {
    const company = String(Math.floor(n / usersOfCompany) + 1)
    const userId = randomUUID()
    const token = `${company}-${n}-1`
    await database
      .insert(users)
      .values({ id: userId, crm: 'pipedrive', crmAccountId: company, crmUserId: `${n}` })
    await database.insert(rules).values({ userId, ruleIds: ['deal-stage-changed'], savedAt: now })
    const secrets = { accessToken: `access-${token}`, refreshToken: `refresh-${token}`, apiUrl }
    const accounts = {
      ...{ crm: 'pipedrive' as const, portal: Number(company), crmUser: `${n}`, hubspot: secrets },
      accessExpiresAt: new Date(Date.now() + 3_600_000),
      ...{ team: `T${n}`, channel: `C${n}`, chatSecrets: { accessToken: `s${n}` } },
    }
    await storeAccounts(database, vault, userId, accounts, now)
    webhooks.push({
      ...{ id: n + 1, company, user_id: n, is_active: 1, name: 'Dealbell' },
      subscription_url: `${appUrl}/webhooks/pipedrive`,
      ...{ http_auth_user: company, http_auth_password: webhookPassword(secret, company) },
    })
  }
  // New connections are checked at once, which would cost calls.
  await database.update(connections).set({ checkAt: new Date(now.getTime() + 86_400_000) })
  await close()
  return webhooks
}
