import { readFile } from 'node:fs/promises'
import { createServer as createTlsServer } from 'node:https'
import { join } from 'node:path'
import tls from 'node:tls'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createProviders } from '../../server/providers/create.ts'
import { callThrough, readOutside } from '../../server/settings/environment.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { freePort } from '../relay/postgres.ts'
import { openProxy } from './company-proxy.ts'
import { listenInTest } from './harness.ts'

const authority = join(import.meta.dirname, '../build/localhost.pem')
const closedPort = await freePort()

let proxy: Awaited<ReturnType<typeof openProxy>>
/** The proxy's address with user and password, without http://. */
let address: string
let undo = () => {}
const authorities = tls.getCACertificates()
beforeEach(async () => {
  const pem = await readFile(authority)
  const provider = createTlsServer({ key: pem, cert: pem }, (_, response) => {
    response.setHeader('Content-Type', 'application/json').end('{"ok":true}')
  })
  proxy = await openProxy(await listenInTest(provider))
  address = `CORP%5Cann:pass%401@127.0.0.1:${proxy.port}`
})
afterEach(() => {
  undo()
  undo = () => {}
  tls.setDefaultCACertificates(authorities)
})

const settings = parseEnv({
  ...{ HUBSPOT_CLIENT_ID: 'id', HUBSPOT_CLIENT_SECRET: 'secret' },
  ...{ SLACK_CLIENT_ID: 'id', SLACK_CLIENT_SECRET: 'secret' },
  HUBSPOT_API_URL: 'https://provider.example',
  SLACK_API_URL: 'https://provider.example/api',
})
const { slack } = createProviders(settings.addressesAt(1).providers)
const secrets = { accessToken: 'token', refreshToken: 'token' }

/** With what code a call ends; `reached` if the provider has answered. */
const call = () =>
  slack.check?.(secrets, 'C1')?.then(
    () => 'reached',
    ({ code }: { code?: string }) => code,
  )

describe('calls to the providers', () => {
  test.each<[string, () => Record<string, string>]>([
    ['reached', () => ({ HTTPS_PROXY: `http://${address}` })],
    ['reached', () => ({ https_proxy: `http://${address}/`, HTTPS_PROXY: 'http://unknown' })],
    ['reached', () => ({ HTTPS_PROXY: ` ${address} `, NO_PROXY: 'vider.example, other.example' })],
    ['PROXY_407', () => ({ HTTPS_PROXY: address.replace('pass', 'hunter2') })],
    ['ECONNREFUSED', () => ({ HTTPS_PROXY: `127.0.0.1:${closedPort}` })],
    ['DEPTH_ZERO_SELF_SIGNED_CERT', () => ({ HTTPS_PROXY: address, NODE_EXTRA_CA_CERTS: '' })],
    ['not through the proxy', () => ({ HTTPS_PROXY: address, NO_PROXY: '.example' })],
    ['not through the proxy', () => ({ https_proxy: address, no_proxy: 'a.example, *' })],
  ])('end with %s', async (expected, env) => {
    undo = callThrough(readOutside({ NODE_EXTRA_CA_CERTS: authority, ...env() }))
    const ended = await call()
    if (expected.startsWith('not')) return expect(proxy.asked).toEqual([])
    expect(ended).toBe(expected)
    if (expected === 'reached') expect(proxy.asked[0]).toBe('provider.example:443')
  })

  test('of this machine never use a proxy', async () => {
    const env = { HTTP_PROXY: address, HTTPS_PROXY: address, APP_URL: 'http://127.0.0.5:3000' }
    undo = callThrough(readOutside({ ...env, HOST: '127.0.0.9', NO_PROXY: 'other.example' }))
    const hosts = [
      'localhost',
      'dealbell.localhost',
      '127.0.0.1',
      '[::1]',
      '127.0.0.5',
      '127.0.0.9',
    ]
    const origins = hosts.flatMap((host) => [`http://${host}`, `https://${host}`])
    await Promise.allSettled(origins.map((origin) => fetch(`${origin}:${closedPort}`)))
    expect(proxy.asked).toEqual([])
  })
})

test.each([
  ['HTTPS_PROXY', 'socks5://ann:hunter2@proxy.example:1080'],
  ['https_proxy', 'http://CORP\\ann:hunter2@proxy.example:3128'],
  ['HTTP_PROXY', 'http://ann:hunter2%@proxy.example:3128'],
  ['http_proxy', 'http://ann:hunter2@proxy.example/proxy.pac'],
  ['NODE_EXTRA_CA_CERTS', import.meta.filename],
])('%s=%s is refused, and its password is not said', (name, value) => {
  const read = () => callThrough(readOutside({ [name]: value }))
  expect(read).toThrow(name.endsWith('S') ? `${name} is ${value}, but` : name.toUpperCase())
  expect(read).not.toThrow('hunter2')
})
