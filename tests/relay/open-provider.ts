import type { IncomingHttpHeaders } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as delay } from 'node:timers/promises'
import { defaultTimeouts } from '../../server/providers/calls.ts'
import { listen } from './listen.ts'

export interface Answer {
  status?: number
  headers?: Record<string, string>
  /** An object is sent as JSON. */
  body?: object | string
  /** The headers come late, and the body never ends. */
  stalls?: boolean
}

/** A page of a proxy. */
export const page: Answer = {
  headers: { 'Content-Type': 'text/html' },
  body: '<html><h1>Please wait…</h1></html>',
}

/** A call ends by them, although the headers come late and the body stalls. */
export const shortTimeouts = { ...defaultTimeouts, callMs: 200 }
const lateHeadersMs = 100

/** A provider that gives the answers of a test. */
export async function openProvider(otherwise: Answer) {
  const provider = {
    /** The answers, by the end of the path. Of several, each is given once, and the last one again. */
    answers: {} as Record<string, Answer | Answer[]>,
    calls: [] as Array<{ call: string; headers: IncomingHttpHeaders; body: string }>,
  }
  const server = await listen(async (request, response) => {
    const url = request.url ?? ''
    const call = `${request.method} ${decodeURIComponent(url)}`
    provider.calls.push({ call, headers: request.headers, body: await text(request) })
    const [path = ''] = url.split('?')
    const found = Object.entries(provider.answers).find(([end]) => path.endsWith(end))
    const given = [found?.[1] ?? otherwise].flat()
    if (given.length > 1) provider.answers[found?.[0] ?? ''] = given.slice(1)
    const { status = 200, headers, body, stalls } = given[0] ?? otherwise
    if (stalls) await delay(lateHeadersMs)
    const type = typeof body === 'object' && { 'Content-Type': 'application/json' }
    response.writeHead(status, { ...type, ...headers })
    if (stalls) response.write('{')
    else response.end(typeof body === 'object' ? JSON.stringify(body) : body)
  })
  return Object.assign(provider, server)
}
