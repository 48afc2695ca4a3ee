import { join } from 'node:path'
import { type DeliveryCounts, operatorToken } from '../../server/activity/operator-answers.ts'
import { newFolder } from '../database.ts'
import { inherited, launch } from '../server/program.ts'
import { appUrl, clientSecret, signedWebhook } from './hubspot-webhook.ts'
import type { Outside } from './outside.ts'

export const serverKey = Buffer.from('a key that is long enough, 32 B.')

export interface ServerOptions {
  outside: Outside
  /** A folder for PGlite, or PostgreSQL's address. */
  database: { folder: string } | { url: string }
  failpoint?: string
  encryptionKey?: string
  /** The folder of another version of the code. */
  version?: string
  /** The folder of a release. */
  release?: string
  nodeOptions?: string
  /** Further settings. */
  env?: Readonly<Record<string, string>>
}

export function serverEnv(
  { outside, database, failpoint, encryptionKey, nodeOptions, env }: ServerOptions,
  port: number,
) {
  return {
    ...inherited(),
    PORT: String(port),
    APP_URL: appUrl,
    SERVE_DASHBOARD: 'false',
    ENCRYPTION_KEY: encryptionKey ?? serverKey.toString('base64'),
    HUBSPOT_CLIENT_ID: 'hubspot-client',
    HUBSPOT_CLIENT_SECRET: clientSecret,
    HUBSPOT_API_URL: outside.hubspotUrl,
    SLACK_CLIENT_ID: 'slack-client',
    SLACK_CLIENT_SECRET: 'slack-client-secret',
    SLACK_API_URL: `${outside.slackUrl}/api`,
    ...('url' in database ? { DATABASE_URL: database.url } : { DATA_DIR: database.folder }),
    ...(failpoint !== undefined && { DEALBELL_FAILPOINT: failpoint }),
    ...(nodeOptions !== undefined && { NODE_OPTIONS: nodeOptions }),
    DEBUG: '1',
    ...env,
  }
}

export type ServerProcess = Awaited<ReturnType<typeof startServer>>

/** Starts the whole server as a process of its own, which a test may kill. */
export async function startServer(options: ServerOptions) {
  const env = serverEnv(options, 0)
  const program = options.release
    ? launch(['start'], env, {
        program: join(options.release, 'bin/dealbell'),
        cwd: await newFolder(),
      })
    : launch(['server/main.ts'], env, options.version ? { cwd: options.version } : {})
  const url = (await program.listens()).replace('localhost', '127.0.0.1')

  return {
    url,
    pid: program.child.pid,
    /** The lines that it wrote, on both outputs. */
    get output() {
      return program.output.split('\n')
    },
    exited: program.exited.then(() => undefined),
    kill: program.kill,
    /** SIGTERM. */
    async stop() {
      program.child.kill('SIGTERM')
      await program.exited
    },
    /** HubSpot tells of items. @returns the answer's status; undefined when none came. */
    async tell(items: unknown): Promise<number | undefined> {
      try {
        const answer = await fetch(`${url}/webhooks/hubspot`, signedWebhook(items))
        await answer.arrayBuffer()
        return answer.status
      } catch {
        return undefined
      }
    },
    async status(): Promise<DeliveryCounts> {
      const answer = await fetch(`${url}/relay/count`, {
        headers: { Authorization: `Bearer ${operatorToken([serverKey])}` },
      })
      return (await answer.json()) as DeliveryCounts
    },
  }
}

/** Connects an account and saves rules by the calls that the dashboard makes. */
export async function connectAccount(
  { url }: { url: string },
  {
    portal,
    channel,
    // A workspace of its own, because Slack limits the messages of a workspace.
    team = `T-${channel}`,
    ruleIds = ['deal-stage-changed'],
    hubspotUser = 1,
  }: {
    portal: number
    channel: string
    team?: string
    ruleIds?: string[]
    hubspotUser?: number
  },
): Promise<{ cookie: string }> {
  let cookie = ''
  async function call(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = {
      Cookie: cookie,
      Origin: appUrl,
      'Sec-Fetch-Site': 'same-origin',
      'Sec-Fetch-Mode': path.endsWith('/auth') ? 'navigate' : 'cors',
      'Content-Type': 'application/json',
    }
    const answer = await fetch(url + path, { ...init, headers, redirect: 'manual' })
    cookie = answer.headers.getSetCookie()[0]?.split(';')[0] ?? cookie
    await answer.arrayBuffer()
    if (answer.status >= 400) throw new Error(`${path}: ${answer.status}`)
    return answer
  }
  const codes = { hubspot: `${portal}:${hubspotUser}`, slack: `${team}:${channel}` }
  for (const [provider, code] of Object.entries(codes)) {
    const begun = await call(`/api/${provider}/auth`)
    const state = new URL(begun.headers.get('Location') ?? '').searchParams.get('state')
    await call(`/api/${provider}/callback?code=${code}&state=${state}`)
  }
  const body = JSON.stringify({ rules: ruleIds })
  await call('/api/notifications/rules', { method: 'POST', body })
  return { cookie }
}

/** Resolves when nothing is pending. */
export async function drained(server: ServerProcess, withinMs: number): Promise<DeliveryCounts> {
  const end = Date.now() + withinMs
  for (;;) {
    const status = await server.status()
    if (status.pending === 0) return status
    if (Date.now() > end) throw new Error(`${status.pending} are pending after ${withinMs} ms.`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
