import { webhookPassword } from '../../server/providers/pipedrive/webhook.ts'
import { addressPath } from '../../server/providers/registry.ts'
import { listen } from '../relay/listen.ts'
import { freePort } from '../relay/postgres.ts'
import { connect } from '../server/program.ts'
import { startServer } from './server.ts'

// What a caller can make up, in a form that the server believes or tries at a provider.

const secret = 'stand-in-pipedrive-secret'
const atOnce = 50

/**
 * Attacks a server of its own, which waits for nobody else, so that the counts are those of the attack:
 * - Strangers at many addresses make up addresses of webhooks, until Discord would block the server.
 * - A user of a company makes up webhooks, with the password that the company's users can read. Some are of the future.
 * @returns how often the server has called Discord, how often each answer to a webhook came, and how many lines its log has
 * of all this.
 */
export async function attackWithMadeUp(folder: string, tries: number, webhooks: number) {
  let asked = 0
  const discord = await listen((_, response) => {
    asked++
    response.writeHead(401, { 'Content-Type': 'application/json' })
    response.end('{"code":50027,"message":"Invalid Webhook Token"}')
  })
  const port = await freePort()
  const url = `http://localhost:${port}`
  const settings = { VITE_CRM_NAME: 'Pipedrive', DISCORD_WEBHOOK_ORIGINS: discord.url }
  const server = await startServer({ folder, databaseUrl: undefined, port, url }, settings)
  try {
    await connect(url, 'slack', await connect(url, 'pipedrive'))
    const before = server.lines()
    for (let n = 0; n < tries; n += atOnce) await paste(url, discord.url, n)
    const answers = new Map<number, number>()
    const [now, future] = [new Date().toISOString(), '2199-01-01T00:00:00Z']
    for (let id = 1; id <= webhooks; id += atOnce) {
      const some = Array.from({ length: atOnce }, (_, n) => forge(url, id + n, n ? now : future))
      for (const status of await Promise.all(some)) {
        answers.set(status, (answers.get(status) ?? 0) + 1)
      }
    }
    return { asked, answers, lines: server.lines() - before }
  } finally {
    await server.stop(30_000)
    await discord.close()
  }
}

/** A stranger at an address of his own pastes several addresses of webhooks. */
async function paste(url: string, origin: string, n: number): Promise<void> {
  // The server believes the last proxy.
  const from = { 'X-Forwarded-For': `2001:db8:${n.toString(16)}::1` }
  const begun = await fetch(`${url}/api/discord/auth`, { headers: from, redirect: 'manual' })
  const [cookie = ''] = begun.headers.getSetCookie()[0]?.split(';') ?? []
  const state = new URL(begun.headers.get('Location') ?? '').searchParams.get('state') ?? ''
  const tries = Array.from({ length: atOnce }, async (_, m) => {
    const address = `${origin}/api/webhooks/${10 ** 17 + n}/${String(m).padEnd(68, 'x')}`
    const body = new URLSearchParams({ state, answer: 'connect', address })
    const headers = { ...from, Cookie: cookie, Origin: url }
    const answer = await fetch(url + addressPath('discord'), { method: 'POST', headers, body })
    await answer.arrayBuffer()
  })
  await Promise.all(tries)
}

/** @returns the status of the answer. */
async function forge(url: string, id: number, update_time: string): Promise<number> {
  const company = '5300001'
  const data = { id, title: 'x', stage_id: 11, pipeline_id: 1, status: 'open', update_time }
  const meta = { entity: 'deal', action: 'change', company_id: company }
  const answer = await fetch(`${url}/webhooks/pipedrive`, {
    method: 'POST',
    headers: { Authorization: `Basic ${btoa(`${company}:${webhookPassword(secret, company)}`)}` },
    body: JSON.stringify({ meta, data, previous: { stage_id: 10 } }),
  })
  await answer.arrayBuffer()
  return answer.status
}
