import { readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import pg from 'pg'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { operatorToken } from '../../server/activity/operator-answers.ts'
import { writeManifests } from '../../server/doctor/manifests.ts'
import { optionalScopes, requiredScopes } from '../../server/providers/hubspot/oauth.ts'
import { propertyNames } from '../../server/providers/hubspot/properties.ts'
import { watchedProperties } from '../../server/relay/decide/rules.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { newDataFolder, newFolder, newPostgresDatabase } from '../database.ts'
import { freePort } from '../relay/postgres.ts'
import { openProxy } from './company-proxy.ts'
import { listen } from './harness.ts'
import { connect, launch, startServer } from './program.ts'

const certificate = join(import.meta.dirname, '../build/localhost.pem')

const secrets = /stand-in-\w+-secret|xoxb-|hubspot-stand-in-|hunter2/

/** Runs `npm run doctor`. Its output never contains a secret. */
async function doctor(env: Record<string, string>, ...words: string[]) {
  const program = launch(['server/doctor/doctor.ts', ...words], {
    ...{ NODE_EXTRA_CA_CERTS: certificate, NO_COLOR: '1' },
    ...env,
  })
  const code = await program.exited
  expect(program.output).not.toMatch(secrets)
  return { code, output: program.output, lines: program.output.trimEnd().split('\n') }
}

/** What is not as it should be. */
interface Fault {
  env?: Record<string, string>
  /** What the proxy in front of the server answers to a webhook, or to what address it passes it on. */
  webhook?: (target: string) => Response | string
  page?: () => Response
  /** What HubSpot and Slack answer to calls whose path ends so. */
  answers?: Record<string, () => Response>
  /** How fast HubSpot's clock is. */
  minutes?: number
}
let fault: Fault = {}
afterEach(() => {
  fault = {}
})

const dataDir = await newDataFolder()
/** No program listens at it. */
const closedPort = await freePort()
const PORT = String(await freePort())
const serverUrl = `http://127.0.0.1:${PORT}`
const otherKey = Buffer.from('0123456789abcdef0123456789abcdef').toString('base64')

const pem = await readFile(certificate)
const passOn = getRequestListener(async (request) => {
  const pathname = new URL(request.url).pathname.replace(/^\/dealbell/, '')
  if (!/^\/(api|webhooks)\//.test(pathname)) {
    const page = '<!doctype html><div id="root"></div>'
    const html = { headers: { 'Content-Type': 'text/html' } }
    return fault.page?.() ?? new Response(page, html)
  }
  const changed = fault.webhook?.(serverUrl + pathname) ?? serverUrl + pathname
  if (typeof changed !== 'string') return changed
  const { method, headers } = request
  return await fetch(changed, { method, headers, body: await request.arrayBuffer() })
})
const proxy = createTlsServer({ key: pem, cert: pem }, passOn) as unknown as Server
const APP_URL = `https://localhost:${await listen(proxy)}`
/** HubSpot signs this address. The proxy removes the prefix, and passes the request on to another host. */
const API_URL = `${APP_URL}/dealbell`

let sandbox = new Hono()
const providers = createServer(
  getRequestListener(async (request) => {
    const { pathname } = new URL(request.url)
    const changed = Object.entries(fault.answers ?? {}).find(([end]) => pathname.endsWith(end))
    const answer = changed?.[1]() ?? (await new Hono().route('/sandbox', sandbox).fetch(request))
    const date = new Date(Date.now() + (fault.minutes ?? 0) * 60_000)
    answer.headers.set('Date', date.toUTCString())
    return answer
  }),
)
const bound = await listen(providers)
const addresses = parseEnv({ APP_URL, ALLOW_STAND_INS: 'true' }).addressesAt(bound)
sandbox = createSandbox(addresses)
const { hubspot, slack } = addresses.providers
const env = {
  PORT,
  APP_URL,
  API_URL,
  SERVE_DASHBOARD: 'false',
  DATA_DIR: dataDir,
  HUBSPOT_CLIENT_ID: hubspot.clientId,
  HUBSPOT_CLIENT_SECRET: `${hubspot.clientSecret},older-secret`,
  HUBSPOT_API_URL: hubspot.apiUrl,
  HUBSPOT_AUTHORIZE_URL: `http://127.0.0.1:${bound}/sandbox/hubspot/oauth/authorize`,
  SLACK_CLIENT_ID: slack.clientId,
  SLACK_CLIENT_SECRET: slack.clientSecret,
  SLACK_API_URL: slack.apiUrl,
  SLACK_AUTHORIZE_URL: `http://127.0.0.1:${bound}/sandbox/slack/oauth/v2/authorize`,
}
const server = startServer(env)
await server.listens()
afterAll(async () => {
  await server.kill()
  for (const each of [proxy, providers]) {
    each.closeAllConnections()
    each.close()
  }
})

describe('npm run doctor', () => {
  test('says who must connect, and then what is right, a line each', async () => {
    const before = await doctor(env)
    for (const name of ['HubSpot', 'Slack']) {
      const text = `! Nobody has connected ${name}. Open ${APP_URL} and press Connect.`
      expect(before.lines).toContain(text)
    }
    expect(before.code).toBe(0)

    await connect(serverUrl, 'slack', await connect(serverUrl, 'hubspot'))
    const { code, lines } = await doctor(env)
    const local = 'localhost,127.0.0.1,[::1]'
    expect(lines).toEqual([
      `✓ HTTPS_PROXY is http://127.0.0.1:9. Calls to these hosts do without: ${local}.`,
      `✓ HTTP_PROXY is http://127.0.0.1:9. Calls to these hosts do without: ${local}.`,
      `✓ NODE_EXTRA_CA_CERTS is ${certificate}, whose authorities count, too.`,
      `! The dashboard answers at APP_URL (${APP_URL}), which only this machine can open. The redirect URLs of the apps are ${APP_URL}/hubspot/callback and ${APP_URL}/slack/callback.`,
      `✓ Webhooks arrive at ${API_URL}/webhooks/hubspot, and their signature is valid.`,
      '✓ HubSpot accepts client id and secret.',
      "✓ The clock of this machine agrees with HubSpot's.",
      '✓ Slack accepts client id and secret.',
      '✓ The database can be written.',
      '✓ The encryption key fits the database.',
      '✓ 1 connection to HubSpot with all scopes.',
      '✓ 1 connection to Slack with all scopes.',
    ])
    expect(code).toBe(0)
  })

  test('gets tokens from the running server only encrypted', async () => {
    const key = Buffer.from(await readFile(join(dataDir, 'encryption.key'), 'utf8'), 'base64')
    const headers = { Authorization: `Bearer ${operatorToken([key])}` }
    const text = await (await fetch(`${serverUrl}/relay/doctor`, { headers })).text()
    expect(text).toContain('"secrets":"v1.')
    expect(text).not.toMatch(secrets)
  })

  const refusing = (message: string) => () =>
    Response.json({ status: 'error', message }, { status: 403 })

  const elsewhere = {
    HUBSPOT_API_URL: 'https://provider.example',
    SLACK_API_URL: 'https://provider.example',
  }

  // The checks are independent, so one run shows several faults.
  const faults: Record<string, Fault & { says: string[] }> = {
    'wrong client ids, redirects, and another port': {
      env: { HUBSPOT_CLIENT_ID: 'other', SLACK_CLIENT_ID: 'other', PORT: String(closedPort) },
      page: () => Response.redirect('https://www.bell.example/'),
      webhook: () => Response.redirect('https://www.bell.example/webhooks/hubspot', 308),
      says: [
        '✗ HubSpot does not know the client id (BAD_CLIENT_ID). Copy HUBSPOT_CLIENT_ID from',
        '✗ Slack does not know the client id (invalid_client_id). Copy SLACK_CLIENT_ID from',
        `✗ APP_URL is ${APP_URL}, but it redirects to https://www.bell.example, so the redirect URLs lead to another origin. Set APP_URL to https://www.bell.example`,
        `✗ Webhooks do not arrive: ${API_URL}/webhooks/hubspot redirects (308), and HubSpot does not follow. Set API_URL`,
        `✗ A server uses the folder ${dataDir} of DATA_DIR, but none answers at http://127.0.0.1:${closedPort}: no program listens at 127.0.0.1:${closedPort}. Set PORT and HOST`,
      ],
    },
    'wrong client secrets, a clock that is slow, and another key': {
      env: {
        HUBSPOT_CLIENT_SECRET: 'hunter2',
        SLACK_CLIENT_SECRET: 'hunter2',
        ENCRYPTION_KEY: otherKey,
      },
      page: () => new Response('It works!'),
      minutes: 6.5,
      says: [
        '✗ HubSpot refuses the client secret (BAD_CLIENT_SECRET). Copy HUBSPOT_CLIENT_SECRET from',
        '✗ Slack refuses the client secret (bad_client_secret). Copy SLACK_CLIENT_SECRET from',
        "✗ The clock of this machine is 6 minutes behind HubSpot's. Set it, and keep it right with NTP.",
        `✗ ${APP_URL}/hubspot/callback answers 200, but not with the dashboard. The host must answer this address with the dashboard's index.html`,
        `✗ Dealbell answers at ${API_URL}/webhooks/hubspot, but refuses the signature. Restart the server if HUBSPOT_CLIENT_SECRET`,
        `✗ The server at ${serverUrl} has another encryption key. Set ENCRYPTION_KEY and DATA_DIR`,
      ],
    },
    'providers that do not answer, and a proxy that changes the path': {
      env: { HUBSPOT_API_URL: `http://127.0.0.1:${closedPort}` },
      webhook: (target) => target.replace('/webhooks', '/webhook'),
      answers: { 'oauth.v2.access': () => new Response('<html>', { status: 503 }) },
      says: [
        `✗ HubSpot does not answer at http://127.0.0.1:${closedPort}: no program listens at 127.0.0.1:${closedPort}. Let this machine make https calls`,
        '! Slack answers 503, which says nothing about client id and secret. Try again later.',
        `✗ Dealbell answers at ${API_URL}/webhooks/hubspot, but with 404: the proxy changes the path.`,
        '! HubSpot did not tell the scopes of 1 connection. Try later.',
      ],
    },
    'missing scopes, a clock that is a bit fast, and another program for webhooks': {
      webhook: () => new Response('Forbidden', { status: 403 }),
      answers: {
        introspect: () =>
          Response.json({ active: true, scopes: ['oauth', 'crm.objects.deals.read'] }),
        'auth.test': () =>
          Response.json({ ok: true }, { headers: { 'x-oauth-scopes': 'incoming-webhook' } }),
      },
      minutes: -2.5,
      says: [
        '✗ The connection of acme-stand-in.example to HubSpot lacks crm.objects.contacts.read, crm.objects.companies.read, crm.schemas.deals.read. Write the app with them (npm run doctor -- manifests)',
        '✗ The connection of Acme (stand-in) to Slack lacks chat:write. Add them to the app under OAuth & Permissions.',
        "! The clock of this machine is 2 minutes ahead of HubSpot's.",
        `✗ Webhooks do not arrive: at ${API_URL}/webhooks/hubspot, another program answers 403.`,
      ],
    },
    'an unsigned policy, and an account that has not approved the app, but an older secret': {
      env: { HUBSPOT_CLIENT_SECRET: 'older-secret' },
      answers: {
        introspect: refusing(
          "Authorization failed because this app hasn't been approved to access the required scopes",
        ),
        '/oauth/2026-03/token': refusing(
          'The app could not be installed because the app developer has not signed the acceptable use policy',
        ),
      },
      says: [
        `✓ Webhooks arrive at ${API_URL}/webhooks/hubspot, and their signature is valid.`,
        "✗ HubSpot says that its acceptable use policy is not signed. Sign it on the app's page at HubSpot (hs project open): tab Distribution, Begin publishing.",
        '✗ HubSpot says that the account has not approved the app. A Super Admin of acme-stand-in.example must approve it and its optional scopes: Settings › Integrations › Connected Apps › Approved apps.',
      ],
    },
    'an app that was uninstalled, and a proxy without a server': {
      webhook: () => new Response('Bad gateway', { status: 502 }),
      answers: {
        introspect: () => Response.json({ active: false }),
        'auth.test': () => Response.json({ ok: false, error: 'account_inactive' }),
      },
      says: [
        '✗ HubSpot no longer accepts the connection of acme-stand-in.example (revoked or uninstalled). Its user must',
        '✗ Slack no longer accepts the connection of Acme (stand-in) (account_inactive). Its user must',
        `✗ Webhooks do not arrive: ${API_URL}/webhooks/hubspot answers 502. If the proxy answers so, start the server behind it.`,
      ],
    },
    'plain http, and a PostgreSQL that does not run': {
      env: {
        APP_URL: 'http://bell.example.com',
        API_URL: 'http://bell.example.com',
        DATABASE_URL: `postgres://dealbell:hunter2@127.0.0.1:${closedPort}/dealbell`,
      },
      says: [
        '✗ APP_URL is http://bell.example.com, but HubSpot and Slack redirect only to https. Put a proxy with TLS',
        '✗ HubSpot sends webhooks only to https, but the address for them is http://bell.example.com/webhooks/hubspot. Set API_URL',
        `✗ DATABASE_URL: no PostgreSQL listens at 127.0.0.1:${closedPort}. Start it`,
      ],
    },
    'a proxy that does not run': {
      env: { HTTPS_PROXY: `http://ann:hunter2@127.0.0.1:${closedPort}`, ...elsewhere },
      says: [
        `✓ HTTPS_PROXY is http://127.0.0.1:${closedPort}. Calls`,
        `✗ HubSpot does not answer at https://provider.example: no program listens at 127.0.0.1:${closedPort}. Let`,
        `✗ Slack does not answer at https://provider.example: no program listens at 127.0.0.1:${closedPort}. Let`,
      ],
    },
    'another program at PORT': {
      env: { PORT: String(bound) },
      says: [
        `✗ A server uses the folder ${dataDir} of DATA_DIR, but another program answers at http://127.0.0.1:${bound}. Set PORT and HOST`,
      ],
    },
    'no TLS, and a file in place of the data folder': {
      env: {
        APP_URL: `https://localhost:${bound}`,
        API_URL: `https://localhost:${bound}`,
        DATA_DIR: join(certificate, 'data'),
      },
      says: [
        'does not speak TLS. Start the server, and point the name to the proxy',
        'does not speak TLS. Start the server, and let the proxy in front pass',
        `✗ DATA_DIR is ${certificate}/data, but a file has that path or a part of it. Set DATA_DIR to a folder.`,
      ],
    },
    'a certificate that nobody trusts, and connections without optional scopes': {
      env: { NODE_EXTRA_CA_CERTS: '', MENTION_OWNERS: 'true' },
      answers: { introspect: () => Response.json({ active: true, scopes: requiredScopes }) },
      says: [
        `✗ The dashboard does not answer at APP_URL (${APP_URL}): its certificate is not`,
        '✓ 1 connection to HubSpot with all required scopes, but not crm.objects.owners.read. It is optional.',
        '! 1 connection to Slack without users:read, users:read.email, so the messages mention no owner. Add them to the app under OAuth & Permissions. Then the users must press Disconnect, then Connect. Or remove MENTION_OWNERS.',
      ],
    },
  }

  test.each(Object.entries(faults))(
    'says what is wrong and what to do: %s',
    async (_, { says, ...given }) => {
      fault = given
      const { code, lines } = await doctor({ ...env, ...fault.env })
      for (const text of says) {
        expect(lines).toContainEqual(expect.stringContaining(text))
      }
      expect(code).toBe(1)
    },
  )

  test.each([
    ['CORP%5Cann:pass%401', certificate, '! HubSpot answers 200, which says nothing about client'],
    [
      'ann:hunter2',
      certificate,
      '✗ HubSpot does not answer at https://provider.example: the proxy wants',
    ],
    ['CORP%5Cann:pass%401', '', 'its certificate is not from a known authority (DEPTH_ZERO_SELF'],
  ])('asks through the proxy of .env, as %s, with its authorities', async (user, file, says) => {
    const cwd = await newFolder()
    const { port } = await openProxy(Number(new URL(APP_URL).port))
    const lines = [`https_proxy=http://${user}@127.0.0.1:${port}`, `NODE_EXTRA_CA_CERTS=${file}`]
    await writeFile(join(cwd, '.env'), `\uFEFF${lines.join('\n')}`, 'utf16le')
    const program = launch(
      [join(import.meta.dirname, '../../server/doctor/doctor.ts')],
      { ...env, ...elsewhere },
      { cwd },
    )
    await program.exited
    expect(program.output).toContain(says)
    expect(program.output).not.toMatch(/hunter2|pass(@|%)/)
  })

  test('a refused webhook stands in the log of the server, with the time of the line', async () => {
    const signed = { 'X-HubSpot-Signature-v3': `${'A'.repeat(43)}=` }
    const headers = { ...signed, 'X-HubSpot-Request-Timestamp': String(Date.now()) }
    const answer = await fetch(`${serverUrl}/webhooks/hubspot`, { method: 'POST', headers })
    expect(answer.status).toBe(401)
    // operator.test.ts says how often it is logged. A count once replaced the time.
    const line = JSON.parse(await server.said(/.*"webhooks refused".*/))
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT/)
    const refused = { signature: 1, time: 0, missing: 0 }
    expect(line).toEqual({ level: 'warn', event: 'webhooks refused', refused, time, since: time })
  })

  test('reads the database itself when no server runs: wrong key, no key, no right to write', async () => {
    server.child.kill('SIGTERM')
    await server.exited
    const folder = { dataDir: join(dataDir, 'pglite') }
    let client = await PGlite.create(folder)
    await client.exec(
      `update connections set broken_reason = 'token_revoked', broken_since = now(),
         account_name = E'Acme\\x1b]0;owned\\x07\\n\\u202E\\u2713 fine' where provider = 'slack'`,
    )
    await client.close()
    const { lines } = await doctor({ ...env, ENCRYPTION_KEY: otherKey })
    expect(lines).toContain('✓ The database can be written.')
    expect(lines).toContain(
      // Nothing that a terminal would obey, and no line of its own.
      '! The connection of Acme ]0;owned ✓ fine to Slack is broken (token_revoked). Its user must press Connect.',
    )
    expect(lines).toContain(
      '✗ The encryption key does not fit the database: it does not open 2 stored connections. Set ENCRYPTION_KEY to the earlier key, or to the new key, a comma and the earlier one.',
    )

    client = await PGlite.create(folder)
    const { rows } = await client.query('select count(*)::int as users from users')
    await client.exec('alter table users add constraint closed check (false) not valid')
    await client.close()
    // What the doctor inserted is not there.
    expect(rows).toEqual([{ users: 1 }])
    await rm(join(dataDir, 'encryption.key'))
    const { code, output } = await doctor(env)
    expect(output).toContain(
      "\n✗ The database cannot be written (PostgreSQL's code 23514). Give its user the right",
    )
    expect(output).toContain(
      'encryption.key does not exist. Restore the key that encrypted the connections.',
    )
    expect(code).toBe(1)
    expect(await readdir(dataDir)).not.toContain('encryption.key')
  })
})

test('npm run doctor asks PostgreSQL whether it can be written, and creates nothing', async () => {
  const url = await newPostgresDatabase()
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  // Providers, ports and pages do not matter here.
  const env = { PORT: String(await freePort()), DATABASE_URL: url }
  for (const text of [
    '✓ The database can be written. It is empty: the server creates its tables when',
    "✗ The database cannot be written (PostgreSQL's code 25006)",
  ]) {
    expect((await doctor(env)).lines).toContainEqual(expect.stringContaining(text))
    const created = await client.query("select 1 from pg_class where relname like '%doctor%'")
    expect(created.rows).toEqual([])
    const name = new URL(url).pathname.slice(1)
    await client.query(`alter database ${name} set default_transaction_read_only = on`)
  }
  await client.end()
})

test('npm run doctor without settings says that stand-ins are in use, and creates nothing', async () => {
  const folder = await newFolder()
  const port = await freePort()
  const outside = { HTTPS_PROXY: '', HTTP_PROXY: '', NODE_EXTRA_CA_CERTS: '' }
  const DATA_DIR = join(folder, 'data')
  const { code, lines } = await doctor({ ...outside, PORT: String(port), DATA_DIR })
  expect(lines).toEqual([
    '! HubSpot is a stand-in on this server. Set HUBSPOT_CLIENT_ID and HUBSPOT_CLIENT_SECRET for the real one (docs/connecting.md).',
    '! Slack is a stand-in on this server. Set SLACK_CLIENT_ID and SLACK_CLIENT_SECRET for the real one (docs/connecting.md).',
    `✗ The dashboard does not answer at APP_URL (http://localhost:${port}): no program listens at localhost:${port}. Start the server, and point the name to the proxy in front of it.`,
    `✗ Webhooks do not arrive: http://localhost:${port}/webhooks/hubspot does not answer: no program listens at localhost:${port}. Start the server, and let the proxy in front pass this address to it.`,
    '! The stand-in HubSpot does not answer, because no server runs. Start it: npm start.',
    '! The stand-in Slack does not answer, because no server runs. Start it: npm start.',
    `! DATA_DIR is ${join(folder, 'data')}, where no server has stored anything yet. Start the server, or correct DATA_DIR.`,
  ])
  expect(code).toBe(1)
  expect(await readdir(folder)).toEqual([])
})

const wrongWords = ['manifests', 'x', '--distribution', 'public']
test.each([
  ['lists wrong settings', { PORT: 'http' }, [], '- PORT must be a port number', 1],
  ['explains its use', {}, wrongWords, 'Usage:\n  npm run doctor', 2],
] as const)('npm run doctor %s', async (_, env, words, text, expected) => {
  const { output, code } = await doctor(env, ...words)
  expect(output).toContain(text)
  expect(code).toBe(expected)
})

const folder = await newFolder()

describe('npm run doctor -- manifests', () => {
  // No client ids: the apps do not exist yet.
  const env = { APP_URL: 'https://bell.example.com', API_URL: 'https://api.bell.example.com' }
  const read = async (path: string) => JSON.parse(await readFile(join(folder, path), 'utf8'))
  const write = (to: string, settings: Record<string, string> = {}, force = false) => {
    const { addressesAt } = parseEnv({ ...env, ...settings, ALLOW_STAND_INS: 'true' })
    return writeManifests(addressesAt(1), { folder: to, distribution: undefined, force })
  }

  test('writes the files of both apps, with the addresses and scopes of this server', async () => {
    const { code, lines } = await doctor(env, 'manifests', folder)
    expect(code).toBe(0)
    expect(lines).toHaveLength(4)
    expect(await read('hsproject.json')).toMatchObject({ srcDir: 'src' })
    const { config } = await read('src/app/app-hsmeta.json')
    const redirectUrls = ['https://bell.example.com/hubspot/callback']
    const auth = { redirectUrls, requiredScopes, optionalScopes }
    expect(config).toMatchObject({ distribution: 'marketplace', auth })
    const webhooks = await read('src/app/webhooks/webhooks-hsmeta.json')
    const { settings, subscriptions } = webhooks.config
    expect(settings.targetUrl).toBe('https://api.bell.example.com/webhooks/hubspot')
    // One for each property that a rule is about.
    expect(subscriptions).toMatchObject({
      crmObjects: [...watchedProperties].map((property) => ({
        objectType: 'deal',
        propertyName: propertyNames[property],
        active: true,
      })),
      legacyCrmObjects: [],
    })
    expect(await read('slack-manifest.json')).toMatchObject({
      oauth_config: {
        redirect_urls: ['https://bell.example.com/slack/callback'],
        scopes: { bot: ['incoming-webhook', 'chat:write'] },
      },
      settings: { token_rotation_enabled: false },
    })
  })

  test('asks Slack for the e-mail addresses of members only to mention owners', async () => {
    await write(join(folder, 'mentions'), { MENTION_OWNERS: 'true' })
    const bot = ['incoming-webhook', 'chat:write', 'users:read', 'users:read.email']
    const manifest = await read('mentions/slack-manifest.json')
    expect(manifest.oauth_config.scopes).toEqual({ bot })
  })

  test('overwrites nothing unless told to', async () => {
    const path = join(folder, 'src/app/app-hsmeta.json')
    const again = await doctor(env, 'manifests', folder)
    expect(again.lines).toEqual([`The files in ${folder} are right already.`])

    const asPrivate = ['manifests', folder, '--distribution', 'private']
    const refused = await doctor(env, ...asPrivate)
    expect(refused.code).toBe(1)
    expect(refused.output).toContain(`- ${path}`)
    expect(refused.output).toContain('Repeat the command with --force')
    expect((await read('src/app/app-hsmeta.json')).config.distribution).toBe('marketplace')

    const forced = await doctor(env, ...asPrivate, '--force')
    expect(forced.lines).toEqual([`wrote ${path}`])
    expect((await read('src/app/app-hsmeta.json')).config.distribution).toBe('private')
    // HubSpot does not let the distribution change, so later runs keep it.
    expect(await write(folder)).toEqual([])
  })

  test.skipIf(process.platform === 'win32')('never writes through a symbolic link', async () => {
    const [shared, mine] = [await newFolder(), await newFolder()]
    const kept = join(mine, 'kept')
    await writeFile(kept, 'mine')
    // Somebody else may write to the folder, and has prepared it.
    for (const [link, target] of [
      ['hsproject.json', join(mine, 'new')],
      ['slack-manifest.json', kept],
      ['src', mine],
    ] as const) {
      const path = join(shared, link)
      await symlink(target, path)
      for (const force of [false, true]) {
        const refusal = `${path} is a symbolic link, so nothing was written.`
        await expect(write(shared, {}, force)).rejects.toThrow(refusal)
      }
      expect(await readdir(shared)).toEqual([link])
      await rm(path)
    }
    expect(await readdir(mine)).toEqual(['kept'])
    expect(await readFile(kept, 'utf8')).toBe('mine')
    // The folder itself may be a link: its user has named it.
    await symlink(mine, join(shared, 'apps'))
    expect(await write(join(shared, 'apps'))).toHaveLength(4)
  })

  test('writes nothing for an address that is not https, and says what to set', async () => {
    const other = join(folder, 'other')
    await expect(write(other, { APP_URL: 'http://localhost:3000' })).rejects.toThrow(
      'HubSpot and Slack accept only https addresses, but APP_URL is http://localhost:3000. Set APP_URL',
    )
    await expect(readdir(other)).rejects.toThrow('ENOENT')
  })
})
