import { once } from 'node:events'
import { type IncomingHttpHeaders, request } from 'node:http'
import { connect } from '../server/program.ts'
import { attackers } from './requests.ts'

// What one request of a stranger tries, past nginx where that is possible.

/** A request with any headers, also those that `fetch` sets itself. @returns undefined if nobody answers. */
async function ask(
  port: number,
  path: string,
  { headers = {}, body, host = '127.0.0.1' }: { headers?: object; body?: string; host?: string },
): Promise<{ status: number | undefined; headers: IncomingHttpHeaders; text: string } | undefined> {
  const options = { host, port, path, method: body === undefined ? 'GET' : 'POST' }
  const type = { 'Content-Type': 'application/x-www-form-urlencoded' }
  const asked = request({ ...options, headers: { ...type, ...headers } }).end(body)
  try {
    const [answer] = await once(asked, 'response')
    let text = ''
    for await (const chunk of answer) text += chunk
    return { status: answer.statusCode, headers: answer.headers, text }
  } catch {
    return undefined
  }
}

/**
 * Tries each way in. @param url where nginx answers. @param port of the server behind it.
 * @returns what held, in words, and whether it did.
 */
export async function tryWaysIn(
  url: string,
  port: number,
): Promise<[check: string, held: boolean][]> {
  const { host } = new URL(url)
  const deals = '/sandbox/hubspot/deals'
  const deal = new URLSearchParams({ name: 'planted', stage: 'closedwon' }).toString()
  const foreign: object[] = [
    { Host: host, Origin: 'https://evil.example' },
    { Host: host, Origin: 'null' },
    { Host: host, Origin: 'http://localhost:1' },
    { Host: host, 'Sec-Fetch-Site': 'same-site' },
    // DNS rebinding.
    { Host: `evil.example:${port}`, Origin: `http://evil.example:${port}` },
    { Host: `evil.example:${port}`, 'Sec-Fetch-Site': 'same-origin' },
  ]
  const planted = await Promise.all(
    foreign.map((headers) => ask(port, deals, { headers, body: deal })),
  )
  const shown = await ask(port, deals, { headers: { Host: host } })

  const images = await Promise.all(
    Array.from({ length: 60 }, () =>
      ask(port, '/api/hubspot/auth', {
        headers: { Host: host, 'Sec-Fetch-Dest': 'image', 'Sec-Fetch-Site': 'same-site' },
      }),
    ),
  )
  const begun = await ask(port, '/api/hubspot/auth', { headers: { Host: host } })
  const name = begun?.headers['set-cookie']?.[0]?.split('=')[0]?.replace(/-[^-]*$/, '')
  const collected = Array.from({ length: 60 }, (_, n) => `${name}-${n + 1e7}=new.${'A'.repeat(43)}`)
  const own = await connect(url, 'hubspot')
  const Cookie = [...collected, own].join('; ')
  const status = await ask(port, '/api/hubspot/status', { headers: { Host: host, Cookie } })

  const elsewhere = await Promise.all(
    attackers.slice(0, 3).map((each) => ask(port, '/health', { host: each })),
  )
  return [
    ['nobody but this machine reaches a server with stand-ins', elsewhere.every((each) => !each)],
    [
      'no other site writes in a stand-in, not even by DNS rebinding',
      planted.every((each) => each?.status === 403) && shown?.text.includes('planted') === false,
    ],
    [
      'an image of the consent page leaves no cookie',
      images.every((each) => each?.status === 403 && !each.headers['set-cookie']),
    ],
    [
      'sixty cookies of a page keep nobody from being signed in',
      status?.text.includes('"connected":true') === true,
    ],
  ]
}
