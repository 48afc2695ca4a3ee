import { getRequestListener } from '@hono/node-server'
import { createExample, type User } from '../../examples/backend.ts'
import { listen } from '../relay/listen.ts'

/** What is wrong with the answers to some calls, and the check that says it. */
export interface Fault {
  check: string
  calls: RegExp
  change: Change
}
type Change = (answer: Response, user: User) => Response
const body =
  (text: string): Change =>
  ({ headers }) =>
    new Response(text, { headers })
const header =
  (name: string, value: string): Change =>
  (answer) => {
    answer.headers.set(name, value)
    return answer
  }
export const faults: Record<string, Fault> = {
  'connected is a text': {
    check: 'GET /api/hubspot/status says whether HubSpot is connected',
    calls: /^GET .*hubspot\/status/,
    change: body('{"connected":"true","of":"sid=secret-0"}'),
  },
  'auth leads to the callback without a code': {
    check: 'GET /api/slack/auth redirects to Slack',
    calls: /^GET .*slack\/auth/,
    change: header('Location', '/slack/callback'),
  },
  'a missing code is answered with 200': {
    check: 'GET /api/hubspot/callback without a code is an error',
    calls: /^GET .*hubspot\/callback/,
    change: body('{"error":"missing code"}'),
  },
  'answers allow every origin': {
    check: 'https://dashboard.example may read the answers',
    calls: /^GET /,
    change: header('Access-Control-Allow-Origin', '*'),
  },
  'preflights forget DELETE': {
    check: 'https://dashboard.example may send DELETE, and rules as JSON',
    calls: /^OPTIONS /,
    change: header('Access-Control-Allow-Methods', 'GET,POST'),
  },
  'the cookie stays on its own site': {
    check: 'the browser sends the cookies with every call, and scripts cannot read them',
    calls: /auth$/,
    change: header('Set-Cookie', 'sid=1; Path=/; HttpOnly; Secure; SameSite=Lax'),
  },
  'only the first rule is saved': {
    check: 'POST /api/notifications/rules keeps what is saved',
    calls: /^POST /,
    change(answer, user) {
      user.rules = user.rules.slice(0, 1)
      return answer
    },
  },
}

export const dashboardOrigin = 'https://dashboard.example'

/** The example with a fault, on another site than its dashboard. Its only user has the session sid=secret-0. */
export async function openExampleBackend({ calls = /^$/, change }: Partial<Fault> = {}) {
  const user: User = { connected: new Set(['hubspot', 'slack']), rules: ['deal-closed'] }
  const app = createExample(dashboardOrigin, new Map([['secret-0', user]]))
  const requests: string[] = []
  const { url, close } = await listen(
    getRequestListener(async (request) => {
      const call = `${request.method} ${new URL(request.url).pathname}`
      requests.push(call)
      const answer = await app.fetch(request)
      return change !== undefined && calls.test(call) ? change(answer, user) : answer
    }),
  )
  return { url, close, user, requests }
}
