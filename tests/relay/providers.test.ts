import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHubspot } from '../../server/providers/hubspot.ts'

interface Answer {
  status?: number
  headers?: Record<string, string>
  body?: string
}

/** What a path that ends so is answered with. */
type Answers = Readonly<Record<string, Answer>>

let server: Server
let base: string
// Tests run at once, each below a path of its own.
const answersOf = new Map<string, Answers>()

function send(response: ServerResponse, { status = 200, headers, body }: Answer) {
  response.writeHead(status, headers)
  response.end(body)
}

beforeAll(async () => {
  server = createServer((request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    const answers = answersOf.get(path.split('/')[1] ?? '') ?? {}
    const [, answer] = Object.entries(answers).find(([end]) => path.endsWith(end)) ?? []
    send(response, answer ?? { status: 404 })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('No port was given.')
  base = `http://127.0.0.1:${address.port}`
})
afterAll(async () => {
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

function outside(answers: Answers) {
  const name = `t${answersOf.size}`
  answersOf.set(name, answers)
  const url = `${base}/${name}`
  const settings = {
    clientId: 'id',
    clientSecret: 'secret',
    apiUrl: url,
    authorizeUrl: url,
    standIn: false,
  }
  return {
    refresh: (): Promise<unknown> =>
      createHubspot(settings).refresh({ accessToken: 'a', refreshToken: 'r' }),
    read: (): Promise<unknown> => createHubspot(settings).deal('a', '1'),
  }
}

const json = (value: unknown, status = 200): Answer => ({
  status,
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify(value),
})
const page: Answer = {
  headers: { 'Content-Type': 'text/html' },
  body: '<html><h1>Please wait…</h1></html>',
}
describe('HubSpot refuses', () => {
  test.each([
    [json({ status: 'BAD_REFRESH_TOKEN', message: 'missing or invalid' }, 400)],
    [json({ error: 'invalid_grant', status: 'BAD_REFRESH_TOKEN' }, 400)],
    [json({ error: 'invalid_grant' }, 400)],
  ])('a refresh only by its word on the token: %j', async (answer) => {
    await expect(outside({ '/token': answer }).refresh()).rejects.toMatchObject({ kind: 'refused' })
  })

  test.each([
    [{ status: 408 }, 'http_408'],
    [{ status: 423 }, 'http_423'],
    [{ ...page, status: 403 }, 'http_403'],
    [json({ error: 'invalid_client', status: 'BAD_CLIENT_SECRET' }, 401), 'BAD_CLIENT_SECRET'],
    [json({ error: 'invalid_client', status: 'BAD_CLIENT_ID' }, 401), 'BAD_CLIENT_ID'],
    [json({ status: 'BAD_REFRESH_TOKEN' }, 500), 'BAD_REFRESH_TOKEN'],
  ])('no refresh by %j', async (answer, reason) => {
    const failure = { kind: 'unreachable', reason }
    await expect(outside({ '/token': answer }).refresh()).rejects.toMatchObject(failure)
  })

  test('a read only by a word of its own: no page of a proxy does', async () => {
    const refused = json({ status: 'error', category: 'MISSING_SCOPES' }, 403)
    await expect(outside({ '/1': refused }).read()).rejects.toMatchObject({ kind: 'refused' })
    const proxied = outside({ '/1': { ...page, status: 403 } }).read()
    await expect(proxied).rejects.toMatchObject({ kind: 'unreachable', reason: 'http_403' })
  })
})
