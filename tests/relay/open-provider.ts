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
  /** Unlike what the provider documents, on purpose. */
  unlike?: boolean
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
    /** The answers, by the end of the path, or of the method and the path. Of several, each is given once, and the last one again. */
    answers: {} as Record<string, Answer | Answer[] | ((call: string, body: string) => Answer)>,
    calls: [] as Array<{
      call: string
      headers: IncomingHttpHeaders
      body: string
      answer: Answer
    }>,
  }
  const server = await listen(async (request, response) => {
    const url = request.url ?? ''
    const call = `${request.method} ${decodeURIComponent(url)}`
    const body = await text(request)
    const [path = ''] = url.split('?')
    const found = Object.entries(provider.answers).find(([end]) =>
      `${request.method} ${path}`.endsWith(end),
    )
    const wanted = found?.[1] ?? otherwise
    const given = typeof wanted === 'function' ? [wanted(call, body)] : [wanted].flat()
    if (given.length > 1) provider.answers[found?.[0] ?? ''] = given.slice(1)
    const answer = given[0] ?? otherwise
    provider.calls.push({ call, headers: request.headers, body, answer })
    const { status = 200, headers, stalls } = answer
    if (stalls) await delay(lateHeadersMs)
    const isJson = typeof answer.body === 'object'
    const type = isJson && { 'Content-Type': 'application/json' }
    response.writeHead(status, { ...type, ...headers })
    if (stalls) response.write('{')
    else response.end(isJson ? JSON.stringify(answer.body) : answer.body)
  })
  return Object.assign(provider, server)
}
