import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import { addressPath } from '../../server/providers/registry.ts'
import { connect } from '../server/program.ts'

// Requests that a caller can send as fast as he likes. Most need no session.

/** The loopback addresses that attack. The user of the dashboard has another one. */
export const attackers = Array.from({ length: 40 }, (_, index) => `127.0.0.${index + 2}`)

interface Flood {
  name: string
  /** How often each answer came: a status, or 'none'. */
  answers: Map<string, number>
  stop(): void
}

interface Call {
  method: 'GET' | 'POST'
  path: string
  headers?: Record<string, string>
  body?: string
}
type Send = (call: Call) => Promise<IncomingHttpHeaders>

const providers = ['hubspot', 'slack']

/** More than HubSpot lets the server read at once, so that previews have to wait. */
const changedDeals = 300

/**
 * Connects HubSpot in as many browsers as there are attackers, and changes deals there. With the stand-in, all are the
 * same person.
 * @returns the sessions' cookies.
 */
export async function signIn(url: string): Promise<string[]> {
  const deal = new URLSearchParams({ name: 'x', stage: 'closedwon' })
  for (let count = 0; count < changedDeals; count++) {
    await fetch(`${url}/sandbox/hubspot/deals`, { method: 'POST', body: deal, redirect: 'manual' })
  }
  const cookies: string[] = []
  for (const _ of attackers) cookies.push(await connect(url, 'hubspot'))
  return cookies
}

/**
 * Starts all floods: about 320 requests a second from all addresses together, if 100 of them are authorizations.
 * @param cookies of signed-in sessions, one for each address.
 */
export function startFloods(
  url: string,
  cookies: readonly string[],
  authPerSecond: number,
): Flood[] {
  return [
    // The server has to ask HubSpot. If each call waited, they would fill all connections.
    startFlood(
      url,
      'GET /api/…/preview, signed in',
      60,
      async (send, n) => {
        const path = '/api/notifications/preview'
        const Cookie = cookies[n % cookies.length] ?? ''
        await send({ method: 'GET', path, headers: { Cookie } })
      },
      { mostSockets: 400 },
    ),
    startFlood(url, 'GET /api/…/auth', authPerSecond, async (send, n) => {
      await send({ method: 'GET', path: `/api/${providers[n % 2]}/auth` })
    }),
    startFlood(url, 'POST /api/notifications/rules', 60, async (send) => {
      await send({
        method: 'POST',
        path: '/api/notifications/rules',
        headers: { 'Content-Type': 'application/json' },
        body: '{"rules":["deal-closed"]}',
      })
    }),
    startFlood(url, 'GET /api/…/callback, unknown state', 20, async (send, n) => {
      const path = `/api/${providers[n % 2]}/callback?code=${n}&state=${n}`
      await send({ method: 'GET', path, headers: { Cookie: `dealbell-0123abcd=${n}` } })
    }),
    // Each makes the server call the provider, and stores the used state.
    startFlood(url, 'GET /api/…/callback, own state', 10, async (send, n) => {
      const provider = providers[n % 2]
      const begun = await send({ method: 'GET', path: `/api/${provider}/auth` })
      const cookie = begun['set-cookie']?.[0]?.split(';')[0]
      if (begun.location === undefined || cookie === undefined) return
      const state = new URL(begun.location).searchParams.get('state')
      const path = `/api/${provider}/callback?code=${n}&state=${state}`
      await send({ method: 'GET', path, headers: { Cookie: cookie } })
    }),
    // A chat with an address: wrong ones, foreign forms, and codes that come twice or in another browser.
    startFlood(url, `POST ${addressPath('microsoft-teams')}`, 20, async (send, n) => {
      await attackAddress(url, send, n)
    }),
  ]
}

async function attackAddress(url: string, send: Send, n: number): Promise<void> {
  const begun = await send({ method: 'GET', path: '/api/microsoft-teams/auth' })
  const cookie = begun['set-cookie']?.[0]?.split(';')[0]
  if (begun.location === undefined || cookie === undefined) return
  const state = new URL(begun.location).searchParams.get('state') ?? ''
  const post = (Origin: string, fields: Record<string, string>) =>
    send({
      method: 'POST',
      path: addressPath('microsoft-teams'),
      headers: { Origin, Cookie: cookie, 'Content-Type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ state, ...fields }).toString(),
    })
  await post('https://evil.example', { answer: 'stand-in' })
  await post(url, { answer: 'connect', address: `http://169.254.169.254/${n}` })
  if (n % 50 > 0) return
  const { location } = await post(url, { answer: 'stand-in' })
  if (location === undefined) return
  const path = `/api${new URL(location).pathname}${new URL(location).search}`
  for (const Cookie of [`dealbell-0123abcd=${n}`, cookie, cookie]) {
    await send({ method: 'GET', path, headers: { Cookie } })
  }
}

function startFlood(
  url: string,
  name: string,
  perSecond: number,
  attack: (send: Send, n: number) => Promise<void>,
  { mostSockets = 160 } = {},
): Flood {
  const { host, port } = new URL(url)
  const agents = attackers.map((localAddress) => {
    const maxSockets = mostSockets / attackers.length
    return new Agent({ keepAlive: true, maxSockets, localAddress, timeout: 10_000 })
  })
  const answers = new Map<string, number>()
  const startedAt = performance.now()
  let sent = 0
  let open = 0
  let stopped = false

  function note(answer: string) {
    if (!stopped) answers.set(answer, (answers.get(answer) ?? 0) + 1)
  }

  const sendFrom =
    (agent: Agent): Send =>
    ({ body, headers, ...call }) =>
      new Promise((resolve, reject) => {
        const sending = request({
          ...call,
          // `localhost` may be ::1, which an attacking address cannot connect to.
          host: '127.0.0.1',
          port,
          headers: { Host: host, ...headers },
          agent,
          timeout: 10_000,
        })
        sending.on('response', (answer) => {
          note(String(answer.statusCode))
          answer.on('close', () => resolve(answer.headers)).resume()
        })
        sending.on('timeout', () => sending.destroy(new Error('no answer')))
        sending.on('error', reject)
        sending.end(body)
      })

  const timer = setInterval(() => {
    const due = ((performance.now() - startedAt) / 1000) * perSecond
    for (; sent < due; sent++) {
      const agent = agents[sent % agents.length]
      // The bound keeps this program alive if the server no longer answers.
      if (agent === undefined || open >= 3 * mostSockets) continue
      open++
      attack(sendFrom(agent), sent)
        .catch(() => note('none'))
        .finally(() => open--)
    }
  }, 20)

  return {
    name,
    answers,
    stop() {
      stopped = true
      clearInterval(timer)
      for (const agent of agents) agent.destroy()
    },
  }
}
