import { readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { join } from 'node:path'
import { getRequestListener } from '@hono/node-server'
import { Hono } from 'hono'
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest'
import { writeManifests } from '../../server/doctor/manifests.ts'
import { optionalScopes, requiredScopes } from '../../server/providers/hubspot/oauth.ts'
import { propertyNames } from '../../server/providers/hubspot/properties.ts'
import { watchedProperties } from '../../server/relay/decide/rules.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { createSandbox } from '../../stand-ins/sandbox.ts'
import { newDataFolder, newFolder } from '../database.ts'
import { freePort } from '../relay/postgres.ts'
import { openProxy } from './company-proxy.ts'
import { listen } from './harness.ts'
import { launch, startServer } from './program.ts'

const certificate = join(import.meta.dirname, '../build/localhost.pem')

const secrets = /stand-in-\w+-secret|hunter2/

/** Runs `npm run doctor`. Its output contains no secret, and nothing that a terminal obeys. */
async function doctor(env: Record<string, string>, ...words: string[]) {
  const program = launch(['server/doctor/doctor.ts', ...words], {
    ...{ NODE_EXTRA_CA_CERTS: certificate, NO_COLOR: '1' },
    ...env,
  })
  const code = await program.exited
  expect(program.output).not.toMatch(secrets)
  expect(program.output).not.toMatch(/(?!\n)\p{Cc}/u)
  return { code, output: program.output, lines: program.output.trimEnd().split('\n') }
}

/** What is not as it should be. */
interface Fault {
  env?: Record<string, string>
  /** What the proxy in front of the server answers to a webhook, or to what address it passes it on. */
  webhook?: (target: string) => Response | string
  page?: () => Response
  /** What it answers in the server's place to who has not signed in. */
  signIn?: (path: string) => Response
  /** What HubSpot and Slack answer to calls whose path ends so. */
  answers?: Record<string, () => Response>
}
let fault: Fault = {}
afterEach(() => {
  fault = {}
})

/** No program listens at it. */
const closedPort = await freePort()
const PORT = String(await freePort())
const serverUrl = `http://127.0.0.1:${PORT}`

const pem = await readFile(certificate)
const passOn = getRequestListener(async (request) => {
  const pathname = new URL(request.url).pathname.replace(/^\/dealbell/, '')
  const forServer = /^\/(api|webhooks)\/|^\/(health|ready)$/.test(pathname)
  if (!forServer && request.method !== 'DELETE') {
    const page = '<!doctype html><div id="root"></div>'
    const html = { headers: { 'Content-Type': 'text/html' } }
    return fault.page?.() ?? fault.signIn?.(pathname) ?? new Response(page, html)
  }
  const changed =
    fault.signIn?.(pathname) ?? fault.webhook?.(serverUrl + pathname) ?? serverUrl + pathname
  if (typeof changed !== 'string') return changed
  const { method, headers } = request
  const body = method === 'GET' ? null : await request.arrayBuffer()
  return await fetch(changed, { method, headers, body })
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
    return changed?.[1]() ?? (await new Hono().route('/sandbox', sandbox).fetch(request))
  }),
)
const bound = await listen(providers)
const addresses = parseEnv({ APP_URL, ALLOW_STAND_INS: 'true' }).addressesAt(bound)
const ofPipedrive = parseEnv({ APP_URL, ALLOW_STAND_INS: 'true', VITE_CRM_NAME: 'Pipedrive' })
const pipedriveAddresses = ofPipedrive.addressesAt(bound)
sandbox = createSandbox(addresses).route('/', createSandbox(pipedriveAddresses))
const { hubspot, slack } = addresses.providers
const { pipedrive } = pipedriveAddresses.providers
const env = {
  PORT,
  APP_URL,
  API_URL,
  SERVE_DASHBOARD: 'false',
  DATA_DIR: await newDataFolder(),
  HUBSPOT_CLIENT_ID: hubspot.clientId,
  HUBSPOT_CLIENT_SECRET: `${hubspot.clientSecret},older-secret`,
  HUBSPOT_API_URL: hubspot.apiUrl,
  SLACK_CLIENT_ID: slack.clientId,
  SLACK_CLIENT_SECRET: slack.clientSecret,
  SLACK_API_URL: slack.apiUrl,
}
/** For a second CRM. Only the server always has it. */
const pipedriveEnv = {
  PIPEDRIVE_CLIENT_ID: pipedrive.clientId,
  PIPEDRIVE_CLIENT_SECRET: `${pipedrive.clientSecret},older-secret`,
  PIPEDRIVE_API_URL: pipedrive.apiUrl,
}
const server = startServer({ ...env, ...pipedriveEnv })
await server.listens()
afterAll(async () => {
  await server.kill()
  for (const each of [proxy, providers]) {
    each.closeAllConnections()
    each.close()
  }
})

describe('npm run doctor', () => {
  test('says what is right, a line each', async () => {
    const { code, lines } = await doctor(env)
    const local = 'localhost,127.0.0.1,[::1]'
    expect(lines).toEqual([
      `i HTTPS_PROXY is http://127.0.0.1:9. Calls to these hosts do without: ${local}.`,
      `i HTTP_PROXY is http://127.0.0.1:9. Calls to these hosts do without: ${local}.`,
      `i NODE_EXTRA_CA_CERTS is ${certificate}, whose authorities count, too.`,
      `! The dashboard answers at APP_URL (${APP_URL}), which only this machine can open. The redirect URLs of the apps are ${APP_URL}/hubspot/callback and ${APP_URL}/slack/callback.`,
      `✓ /health and /ready answer at ${API_URL}, without a sign-in.`,
      `✓ Webhooks arrive at ${API_URL}/webhooks/hubspot, and their signature is valid.`,
      '✓ HubSpot accepts client id and secret.',
      '✓ Slack accepts client id and secret.',
    ])
    expect(code).toBe(0)
  })

  const elsewhere = {
    HUBSPOT_API_URL: 'https://provider.example',
    SLACK_API_URL: 'https://provider.example',
  }

  // The checks are independent, so one run shows several faults.
  const faults: Record<string, Fault & { says: string[] }> = {
    'wrong client ids, and redirects': {
      env: { HUBSPOT_CLIENT_ID: 'other', SLACK_CLIENT_ID: 'other' },
      page: () => Response.redirect('https://www.bell.example/'),
      webhook: () => Response.redirect('https://www.bell.example/webhooks/hubspot', 308),
      says: [
        "✗ HubSpot refuses HUBSPOT_CLIENT_ID (BAD_CLIENT_ID). Copy the right one from the app's Auth tab",
        '✗ Slack refuses SLACK_CLIENT_ID (invalid_client_id). Copy the right one from Basic Information',
        `✗ APP_URL is ${APP_URL}, but it redirects to https://www.bell.example, so the redirect URLs lead to another origin. Set APP_URL to https://www.bell.example`,
        `✗ Webhooks do not arrive: ${API_URL}/webhooks/hubspot redirects (308), and HubSpot does not follow. Set API_URL`,
      ],
    },
    'wrong client secrets, and another page': {
      env: { HUBSPOT_CLIENT_SECRET: 'hunter2', SLACK_CLIENT_SECRET: 'hunter2' },
      page: () => new Response('It works!'),
      says: [
        '✗ HubSpot refuses HUBSPOT_CLIENT_SECRET (BAD_CLIENT_SECRET). Copy',
        '✗ Slack refuses SLACK_CLIENT_SECRET (bad_client_secret). Copy',
        `✗ ${APP_URL}/hubspot/callback does not show the dashboard: it answers 200. The host must answer this address with the dashboard's index.html`,
        `✗ Dealbell answers at ${API_URL}/webhooks/hubspot, but refuses the signature. Restart the server if HUBSPOT_CLIENT_SECRET`,
      ],
    },
    'providers that do not answer, a redirect to another path, and a proxy that changes the path': {
      env: { HUBSPOT_API_URL: `http://127.0.0.1:${closedPort}` },
      page: () => Response.redirect(`${APP_URL}/login`),
      webhook: (target) => target.replace('/webhooks', '/webhook'),
      answers: { 'oauth.v2.access': () => new Response('<html>', { status: 503 }) },
      says: [
        `✗ HubSpot does not answer at http://127.0.0.1:${closedPort}: no program listens at 127.0.0.1:${closedPort}. Let this machine make https calls`,
        '! Slack answers 503, which says nothing about client id and secret. Try again later.',
        `! ${APP_URL}/hubspot/callback redirects to ${APP_URL}/login (302), perhaps the sign-in page of a proxy. Only a browser`,
        `✗ Dealbell answers at ${API_URL}/webhooks/hubspot, but with 404: the proxy changes the path.`,
      ],
    },
    'another program for webhooks, and other codes': {
      webhook: () => new Response('Forbidden', { status: 403 }),
      answers: {
        '/oauth/2026-03/token': () =>
          Response.json({ status: 'error', message: '\x1b]0;owned\x07' }, { status: 403 }),
        'oauth.v2.access': () => Response.json({ ok: false, error: 'bad_redirect_uri' }),
      },
      says: [
        '! HubSpot answers 403 error, which says nothing about client id and secret.',
        `✗ The Slack app does not list the redirect URL ${APP_URL}/slack/callback. Add it under OAuth & Permissions`,
        `✗ Webhooks do not arrive: at ${API_URL}/webhooks/hubspot, another program answers 403, perhaps from a proxy.`,
      ],
    },
    'plain http': {
      env: { APP_URL: 'http://bell.example.com', API_URL: 'http://bell.example.com' },
      says: [
        '✗ APP_URL is http://bell.example.com, but HubSpot and Slack redirect only to https. Put a proxy with TLS',
        '✗ HubSpot sends webhooks only to https, but the address for them is http://bell.example.com/webhooks/hubspot. Set API_URL',
      ],
    },
    'a proxy that does not run, but an older secret': {
      env: {
        HTTPS_PROXY: `http://ann:hunter2@127.0.0.1:${closedPort}`,
        HUBSPOT_CLIENT_SECRET: 'older-secret',
        ...elsewhere,
      },
      says: [
        `✓ Webhooks arrive at ${API_URL}/webhooks/hubspot, and their signature is valid.`,
        `i HTTPS_PROXY is http://127.0.0.1:${closedPort}. Calls`,
        `✗ HubSpot does not answer at https://provider.example: no program listens at 127.0.0.1:${closedPort}. Let`,
        `✗ Slack does not answer at https://provider.example: no program listens at 127.0.0.1:${closedPort}. Let`,
      ],
    },
    'a certificate that nobody trusts': {
      env: { NODE_EXTRA_CA_CERTS: '' },
      says: [
        `✗ The dashboard does not answer at APP_URL (${APP_URL}): its certificate is not`,
        `✗ Webhooks do not arrive: ${API_URL}/webhooks/hubspot does not answer: its certificate is not`,
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

  // actual PR 3286, qui PR 1438, twenty #24927, oauth2-proxy #2292: a sign-in proxy answers in the server's place.
  const html = { 'Content-Type': 'text/html' }
  const signInPage = '\n<!DOCTYPE html><title>Sign in</title>'
  test.each<[string, () => Response, RegExp]>([
    [
      'by a redirect to another host',
      () => Response.redirect('https://login.test/cdn-cgi/access/login?redirect_url=1', 302),
      /redirects to https:\/\/login\.test\/cdn-cgi\/access\/login \(302\), perhaps the sign-in page of a proxy/,
    ],
    [
      'by a redirect that names where to go back',
      () => Response.redirect('https://login.test/?rd=https://localhost/', 302),
      /redirects to https:\/\/login\.test\/ \(302\), perhaps the sign-in page of a proxy/,
    ],
    [
      'by a page',
      () => new Response(signInPage, { status: 403, headers: html }),
      /answers 403 with a page of HTML, perhaps the sign-in page of a proxy/,
    ],
    [
      'by a page that begins in another way',
      () => new Response('\uFEFF\uFEFF<!-- x -->\n<head><title>Sign in</title>', { status: 403 }),
      /answers 403 with a page of HTML, perhaps the sign-in page of a proxy/,
    ],
    [
      'by the type of a page',
      () => new Response('Sign in', { status: 403, headers: html }),
      /answers 403 with a page of HTML, perhaps the sign-in page of a proxy/,
    ],
    [
      'in JSON',
      () => Response.json({ status: 'KO', message: 'Unauthorized' }, { status: 401 }),
      /answers 401, perhaps from a proxy/,
    ],
  ])(
    'names a proxy that asks for a sign-in, at each address that others call: %s',
    async (_, signIn, what) => {
      fault = { signIn }
      const { code, lines } = await doctor({ ...env, ...pipedriveEnv })
      const about = (start: string) => lines.find((line) => line.startsWith(start))
      expect(about(`! ${APP_URL}/hubspot/callback `)).toMatch(what)
      expect(about(`! ${API_URL}/health `)).toMatch(what)
      expect(about('! Pipedrive cannot tell that a user')).toMatch(what)
      for (const crm of ['hubspot', 'pipedrive']) {
        const line = lines.find((each) => each.includes(`/webhooks/${crm}`))
        expect(line).toMatch(/^✗ .*(redirects \(302\)|answers 40\d).*sign-in/)
      }
      expect(code).toBe(1)
    },
  )

  test('follows the contact form as its frame does, and names each origin that the page does not allow', async () => {
    const last = 'https://localhost:1'
    const hops = ['/a', '/b'].map(
      (path) => `${hubspot.apiUrl.replace('127.0.0.1', 'localhost')}${path}`,
    )
    const [next = '', thanks = ''] = hops
    fault = {
      page: () => Response.redirect(next, 302),
      answers: { '/a': () => Response.redirect(thanks), '/b': () => new Response('form') },
    }
    const form = { VITE_CONTACT_FORM_URL: `${APP_URL}/form` }
    const origin = new URL(next).origin
    const leads = await doctor({ ...env, ...form, VITE_CONTACT_FORM_ORIGINS: last })
    expect(leads.lines).toContainEqual(
      `✗ The contact form at ${APP_URL} leads to ${origin}, which the page's policy forbids. Set VITE_CONTACT_FORM_ORIGINS=${last},${origin}, and build the dashboard again.`,
    )
    const right = await doctor({
      ...env,
      ...form,
      VITE_CONTACT_FORM_ORIGINS: `${last} , ${origin}`,
    })
    expect(right.lines).toContainEqual(`✓ The contact form answers at ${origin}.`)
  })

  describe('about Pipedrive', () => {
    const path = `${API_URL}/webhooks/pipedrive`
    test('says what is right, and what the app there needs', async () => {
      const { code, lines } = await doctor({ ...env, ...pipedriveEnv })
      // Nothing else is asked for: these are the scopes of the calls (tests/relay/pipedrive-api.test.ts).
      const scopes = 'base, deals:read, recents:read, users:read, webhooks:full'
      expect(lines.filter((line) => /Pipedrive|webhooks\/pipedrive/.test(line))).toEqual([
        `✓ Webhooks arrive at ${path}, and their password is valid.`,
        '✓ Pipedrive accepts client id and secret.',
        `✓ Pipedrive can tell at ${APP_URL}/pipedrive/callback that a user has uninstalled the app.`,
        `i The app at Pipedrive (Developer Hub) needs the callback URL ${APP_URL}/pipedrive/callback`,
        `i The app at Pipedrive needs these scopes, and no others: ${scopes}.`,
      ])
      expect(code).toBe(0)
    })

    const refused = `✗ Pipedrive refuses PIPEDRIVE_CLIENT_ID or PIPEDRIVE_CLIENT_SECRET (invalid_client). Copy the right one from the app's OAuth`
    test.each<[string, Fault, says: string[]]>([
      [
        'a wrong secret',
        { env: { PIPEDRIVE_CLIENT_SECRET: 'hunter2' } },
        [refused, `✗ Dealbell answers at ${path}, but refuses the password. Restart`],
      ],
      [
        'a wrong client id, and a redirect',
        {
          env: { PIPEDRIVE_CLIENT_ID: 'other' },
          webhook: () => Response.redirect('https://www.bell.example/webhooks/pipedrive', 308),
        },
        [
          refused,
          `✗ Webhooks do not arrive: ${path} redirects (308), and Pipedrive does not follow.`,
        ],
      ],
      [
        'an older secret, and a proxy’s page in place of Pipedrive',
        {
          env: { PIPEDRIVE_CLIENT_SECRET: 'older-secret', HUBSPOT_CLIENT_ID: 'other' },
          answers: { '/oauth/token': () => new Response('<html>', { status: 403 }) },
        },
        [
          `✓ Webhooks arrive at ${path}, and their password is valid.`,
          '! Pipedrive answers 403, which says nothing about client id and secret.',
        ],
      ],
      [
        'plain http',
        { env: { API_URL: 'http://bell.example.com' } },
        ['✗ Pipedrive sends webhooks only to https, but the address for them is http://bell'],
      ],
    ])('says what is wrong and what to do: %s', async (_, given, says) => {
      fault = given
      const { code, lines } = await doctor({ ...env, ...pipedriveEnv, ...fault.env })
      for (const text of says) expect(lines).toContainEqual(expect.stringContaining(text))
      expect(code).toBe(1)
    })
  })

  test.each([
    ['CORP%5Cann:pass%401', certificate, '! HubSpot answers 200, which says nothing about client'],
    ['CORP%5Cann:pass%401', '', 'its certificate is not from a known authority (DEPTH_ZERO_SELF'],
  ])(
    'asks through the proxy of .env, as %s, with the authorities of %j',
    async (user, file, says) => {
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
    },
  )
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
  ])
  expect(code).toBe(1)
  expect(await readdir(folder)).toEqual([])
})

test('npm run doctor says which addresses of webhooks are taken', async () => {
  const PORT = String(await freePort())
  const env = { PORT, DATA_DIR: await newFolder(), VITE_CHAT_NAME: 'Microsoft Teams' }
  const says = 'Microsoft Teams needs no app. Addresses of webhooks are taken at'
  const local = await doctor(env)
  expect(local.lines.at(-1)).toBe(
    `! ${says} https://*.environment.api.powerplatform.com and its stand-in on this server.`,
  )
  expect(local.output).not.toContain('Slack')
  const client = { HUBSPOT_CLIENT_ID: 'other', HUBSPOT_CLIENT_SECRET: 'hunter2' }
  const real = await doctor({ ...env, ...client, APP_URL: 'http://bell.example.com' })
  expect(real.lines).toContainEqual(
    expect.stringMatching('^✗ APP_URL is .*, but HubSpot redirects only to https'),
  )
  expect(real.lines.at(-1)).toBe(`i ${says} https://*.environment.api.powerplatform.com.`)
})

test.each([
  [{ PORT: 'http' }, [], '- PORT must be a port number', 1],
  [{}, ['manifests', 'x', '--distribution', 'public'], 'Usage:\n  npm run doctor', 2],
] as const)('npm run doctor says that %j %j is wrong', async (env, words, text, expected) => {
  const { output, code } = await doctor(env, ...words)
  expect(output).toContain(text)
  expect(code).toBe(expected)
})

describe('npm run doctor -- manifests', () => {
  let folder = ''
  beforeEach(async () => {
    folder = await newFolder()
  })
  // No client ids: the apps do not exist yet.
  const env = { APP_URL: 'https://bell.example.com', API_URL: 'https://api.bell.example.com' }
  const read = async (path: string) => JSON.parse(await readFile(join(folder, path), 'utf8'))
  const write = (to: string, force = false) => {
    const { addressesAt } = parseEnv({ ...env, ALLOW_STAND_INS: 'true' })
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

  test('says that Pipedrive and a chat by address need no file', async () => {
    const used = {
      ...{ APP_URL: 'https://bell.example.com', VITE_CRM_NAME: 'Pipedrive' },
      VITE_CHAT_NAME: 'Microsoft Teams',
    }
    const { code, lines } = await doctor(used, 'manifests', await newFolder())
    expect([code, ...lines]).toEqual([
      0,
      'None of your services needs such a file (docs/connecting.md).',
    ])
  })

  test('writes files only for apps that are used', async () => {
    const to = await newFolder()
    const used = { ...env, VITE_CHAT_NAME: 'Microsoft Teams' }
    const { lines } = await doctor(used, 'manifests', to)
    expect(lines).toHaveLength(3)
    const { config } = JSON.parse(await readFile(join(to, 'src/app/app-hsmeta.json'), 'utf8'))
    expect(config.description).toBe('Tells a Microsoft Teams channel when a HubSpot deal moves.')
  })

  test('overwrites nothing unless told to', async () => {
    const path = join(folder, 'src/app/app-hsmeta.json')
    const asPrivate = ['manifests', folder, '--distribution', 'private']
    await doctor(env, 'manifests', folder)
    const refused = await doctor(env, ...asPrivate)
    expect(refused.code).toBe(1)
    expect(refused.output).toContain(`- ${path}`)
    expect(refused.output).toContain('Repeat the command with --force')
    expect((await read('src/app/app-hsmeta.json')).config.distribution).toBe('marketplace')

    const forced = await doctor(env, ...asPrivate, '--force')
    expect(forced.lines).toEqual([`wrote ${path}`])
    expect((await read('src/app/app-hsmeta.json')).config.distribution).toBe('private')
    // HubSpot does not let the distribution change, so later runs keep it.
    expect((await doctor(env, 'manifests', folder)).lines).toEqual([
      `The files in ${folder} are right already.`,
    ])
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
        await expect(write(shared, force)).rejects.toThrow(refusal)
      }
      expect(await readdir(shared)).toEqual([link])
      await rm(path)
    }
    expect(await readdir(mine)).toEqual(['kept'])
    expect(await readFile(kept, 'utf8')).toBe('mine')
    // The folder itself may be a link: its user has named it.
    await symlink(mine, join(shared, 'apps'))
    expect((await write(join(shared, 'apps'))).written).toHaveLength(4)
  })
})
