import { copyFile, mkdir, symlink, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import os from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { registry } from '../../server/providers/registry.ts'
import { loadEnvFile, readEnvFile } from '../../server/settings/env-file.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { newFolder } from '../database.ts'

const key = Buffer.alloc(32, 'a key').toString('base64')
const otherKey = Buffer.alloc(32, 'another key').toString('base64')

describe('settings', () => {
  test('have defaults that need no account, also if they are empty', () => {
    const settings = parseEnv({ APP_URL: ' ', DATA_DIR: '', HUBSPOT_CLIENT_ID: '' })
    expect(settings).toMatchObject({
      port: 3000,
      dataDir: './data',
      databaseUrl: undefined,
      databasePoolSize: 10,
      databaseStatementMs: 20_000,
      encryptionKeys: undefined,
      serveDashboard: true,
      hosts: ['127.0.0.1', '::1'],
      trustedProxies: 0,
    })
    const { appUrl, providers } = settings.addressesAt(4567)
    expect(appUrl).toBe('http://localhost:4567')
    expect(providers.hubspot).toMatchObject({
      standIn: true,
      authorizeUrl: 'http://localhost:4567/sandbox/hubspot/oauth/authorize',
      apiUrl: 'http://127.0.0.1:4567/sandbox/hubspot',
    })
  })

  test('a client id leads to the real provider, and a secret may list older ones for webhooks', () => {
    const { hubspot, slack } = parseEnv({
      HUBSPOT_CLIENT_ID: 'id',
      HUBSPOT_CLIENT_SECRET: 'new, old,older',
      SLACK_CLIENT_ID: 'id',
      SLACK_CLIENT_SECRET: 'secret',
      SLACK_API_URL: 'https://slack.test/api/',
    }).addressesAt(3000).providers
    expect(hubspot).toEqual({
      clientId: 'id',
      clientSecret: 'new',
      olderSecrets: ['old', 'older'],
      authorizeUrl: 'https://app.hubspot.com/oauth/authorize',
      apiUrl: 'https://api.hubapi.com',
      webhookUrl: 'http://localhost:3000/webhooks/hubspot',
      inUse: true,
      standIn: false,
    })
    expect(slack).toMatchObject({ apiUrl: 'https://slack.test/api', standIn: false })
  })

  test('people, providers and the server itself reach it at addresses of their own', () => {
    const there = { APP_URL: 'https://bell.example/', ALLOW_STAND_INS: 'true' }
    expect(parseEnv(there).addressesAt(8080).apiUrl).toBe('https://bell.example')
    const API_URL = ' https://api.bell.example/v1/ '
    expect(parseEnv({ ...there, API_URL }).addressesAt(8080)).toMatchObject({
      appUrl: 'https://bell.example',
      apiUrl: 'https://api.bell.example/v1',
      providers: {
        slack: {
          authorizeUrl: 'https://api.bell.example/v1/sandbox/slack/oauth/v2/authorize',
          apiUrl: 'http://127.0.0.1:8080/sandbox/slack/api',
        },
      },
    })
  })

  test.each([
    [undefined, '127.0.0.1'],
    ['::', '127.0.0.1'],
    ['10.0.0.5', '10.0.0.5'],
    ['::1', '[::1]'],
  ])('HOST=%s is reached at %s by this machine', (HOST, name) => {
    const settings = parseEnv({ HOST, ALLOW_STAND_INS: 'true' })
    expect(settings.hosts).toEqual([HOST])
    expect(settings.localOriginAt(8080)).toBe(`http://${name}:8080`)
  })

  // The ways in which Windows writes text, with PowerShell's `>` for UTF-16.
  test.each<[string, (text: string) => Buffer]>([
    ['UTF-8 with CRLF', (text) => Buffer.from(text.replaceAll('\n', '\r\n'))],
    ['UTF-16LE', (text) => Buffer.from(`\uFEFF${text}`, 'utf16le')],
  ])('and secrets in files may be in %s', async (_, encoded) => {
    const folder = await newFolder()
    const lines = `APP_URL=https://bell.example\n # DATA_DIR="\nexport A=\nB = 'ü#\n"' # b\n\nC=c d #"`
    await writeFile(join(folder, '.env'), encoded(lines))
    const read = { APP_URL: 'https://bell.example', A: '', B: 'ü#\n"', C: 'c d' }
    expect(readEnvFile(folder)).toEqual(read)
    const path = join(folder, 'key')
    await writeFile(path, encoded(`${key}\n`))
    const { encryptionKeys } = parseEnv({ ENCRYPTION_KEY_FILE: path })
    expect(encryptionKeys?.[0]?.toString('base64')).toBe(key)
  })

  test('of the environment count before those of .env, and may have a mark, too', async () => {
    const folder = await newFolder()
    const names = ['TEST_A', 'TEST_B', 'TEST_C']
    for (const name of names) vi.stubEnv(name, undefined)
    vi.stubEnv('TEST_A', '')
    vi.stubEnv('\uFEFFTEST_B', 'marked')
    await writeFile(join(folder, '.env'), names.map((name) => `${name}=file`).join('\n'))
    loadEnvFile(folder)
    expect(names.map((name) => process.env[name])).toEqual(['', 'marked', 'file'])
  })

  const make = (file: (path: string) => Promise<unknown>) => file
  test.each([
    ['this is a folder', make(mkdir)],
    ['this process cannot read it (ENOENT)', make((path) => symlink('nowhere', path))],
    ['this is no text in UTF-8', make((path) => writeFile(path, '# für\nA=1', 'latin1'))],
  ])('are not taken for none, and a secret neither: %s', async (problem, file) => {
    const folder = await newFolder()
    const path = join(folder, '.env')
    await file(path)
    expect(() => readEnvFile(folder)).toThrow(`${path} exists, but ${problem}`)
    for (const name of ['ENCRYPTION_KEY_FILE', 'DATABASE_CA_FILE']) {
      const said = name === 'DATABASE_CA_FILE' ? problem.replace(/is no.*/, 'file has no') : problem
      expect(() => parseEnv({ [name]: path })).toThrow(`${name} is ${path}, but ${said}`)
    }
  })

  test('of .env are read completely, or the lines are named and not quoted', async () => {
    const folder = await newFolder()
    expect(readEnvFile(folder)).toEqual({})
    await writeFile(join(folder, '.env.txt'), 'A=1')
    expect(() => readEnvFile(folder)).toThrow('.env.txt exists, but the settings belong into')
    const lost = [
      ...['A: hunter2', 'A hunter2', '=hunter2', '"A"=hunter2', 'set A=hunter2', '1A=hunter2'],
      ...['A\u00a0=hunter2', '\uFEFFA=hunter2', 'A=“hunter2”', 'A="hunter2', 'A=hunter2#3'],
    ]
    for (const line of lost) {
      await writeFile(join(folder, '.env'), `B="1\n2"\n${line}\n#\nC: hunter2`)
      const problem = `${join(folder, '.env')} has settings that cannot be read: see line 3, 5.`
      expect(() => readEnvFile(folder), line).toThrow(problem)
      expect(() => readEnvFile(folder), line).not.toThrow('hunter2')
    }
  })

  test('that are secrets may stand in files', async () => {
    const path = join(await newFolder(), 'key')
    await writeFile(path, '\n')
    const settings = { ENCRYPTION_KEY_FILE: path }
    expect(() => parseEnv(settings)).toThrow(
      `ENCRYPTION_KEY_FILE is ${path}, but this file is empty`,
    )
    await writeFile(path, `${key}, ${otherKey}\n`)
    // The newest key first.
    expect(parseEnv(settings).encryptionKeys?.map((one) => one.toString('base64'))).toEqual([
      key,
      otherKey,
    ])
    expect(() => parseEnv({ ...settings, ENCRYPTION_KEY: key })).toThrow(
      'ENCRYPTION_KEY and ENCRYPTION_KEY_FILE are both set. Remove one.',
    )
  })

  test.each([
    ['?sslmode=prefer', 'has sslmode=prefer, but'],
    ['?sslmode=allow', 'has sslmode=allow, but'],
    ['?schema=sales', 'has schema=…, but'],
    ['?search_path=sales', 'has search_path=…, but'],
  ])('of PostgreSQL that the driver would take otherwise are refused: %s', (query, problem) => {
    expect(() => parseEnv({ DATABASE_URL: `postgres://db/dealbell${query}` })).toThrow(
      `DATABASE_URL ${problem}`,
    )
  })

  test('that begin with ~/ are named if the user has no home folder', () => {
    const home = vi.spyOn(os, 'homedir').mockImplementation(() => {
      throw new Error('uv_os_homedir returned ENOENT')
    })
    syncBuiltinESMExports()
    onTestFinished(() => {
      home.mockRestore()
      syncBuiltinESMExports()
    })
    expect(() => parseEnv({ DATA_DIR: '~/x' })).toThrow('DATA_DIR must not begin with ~')
    expect(() => parseEnv({ METRICS_TOKEN_FILE: '~/x' })).toThrow('METRICS_TOKEN_FILE is ~/x, but')
  })

  test('that are paths may begin with ~/, which no shell replaces in .env', async () => {
    const home = await newFolder()
    vi.stubEnv('HOME', home)
    vi.stubEnv('USERPROFILE', home)
    await writeFile(join(home, 'secret'), key)
    await copyFile(join(import.meta.dirname, '../build/localhost.pem'), join(home, 'ca.pem'))
    const DATABASE_URL = 'postgres://db/dealbell'
    const { metricsToken, databaseUrl } = parseEnv({
      ...{ DATABASE_URL, DATABASE_CA_FILE: '~/ca.pem', METRICS_TOKEN_FILE: '~/secret' },
    })
    expect(metricsToken).toBe(key)
    expect(new URL(databaseUrl ?? '').searchParams.get('sslrootcert')).toBe(join(home, 'ca.pem'))
    expect(parseEnv({ DATA_DIR: '~' }).dataDir).toBe(home)
  })

  test.each([
    { PORT: '70000' },
    { APP_URL: 'http://user:hunter2@localhost' },
    { APP_URL: 'http://localhost/path' },
    { API_URL: 'api.bell.example' },
    { HUBSPOT_CLIENT_SECRET: 'new,', HUBSPOT_CLIENT_ID: 'id' },
    { SERVE_DASHBOARD: 'perhaps' },
    { DATA_DIR: '~ann/data' },
    { DATABASE_URL: 'postgres://user:hunter2#@host/name' },
    { DATABASE_POOL_SIZE: '1' },
    { ENCRYPTION_KEY: Buffer.alloc(31).toString('base64') },
    { ENCRYPTION_KEY: `hunter2${'x'.repeat(25)}` },
    { ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64') },
    { HOST: 'dealbell.example' },
    { TRUSTED_PROXIES: '-1' },
    { METRICS_TOKEN: 'too-short' },
    { HSTS_MAX_AGE: '1 year' },
    { HSTS_MAX_AGE: '-1' },
    { LOG_LEVEL: 'loud' },
    { STOP_DELAY: '5s' },
    { ALLOW_STAND_INS: 'yes' },
  ])('refuse %j', (env) => {
    expect(() => parseEnv(env)).toThrow(Object.keys(env)[0])
    // A secret must not end in a log.
    expect(() => parseEnv(env)).not.toThrow(/hunter2/)
  })
})

describe("the dashboard's services", () => {
  test('are providers of this server, in any case of letters', () => {
    parseEnv({ VITE_CRM_NAME: ' hubspot ', VITE_CHAT_NAME: 'SLACK' })
    for (const { name, role } of Object.values(registry)) {
      parseEnv({ [role === 'crm' ? 'VITE_CRM_NAME' : 'VITE_CHAT_NAME']: name })
    }
  })

  test.each([
    [
      { VITE_CRM_NAME: 'Salesforce' },
      "VITE_CRM_NAME is 'Salesforce', but this server knows only these CRMs: HubSpot and Pipedrive. Set it to one of them, add the provider (docs/extending.md), or set VITE_API_URL to a backend that knows it.",
    ],
    [{ VITE_CHAT_NAME: 'hubspot' }, "VITE_CHAT_NAME is 'hubspot', but this server knows only"],
  ])('are refused if nothing answers for them: %j', (env, problem) => {
    expect(() => parseEnv(env)).toThrow(`- ${problem}`)
    // Another backend may know them.
    parseEnv({ ...env, VITE_API_URL: 'https://api.example' })
  })
})

const hubspot = { HUBSPOT_CLIENT_ID: 'id', HUBSPOT_CLIENT_SECRET: 'secret' }
const slack = { SLACK_CLIENT_ID: 'id', SLACK_CLIENT_SECRET: 'secret' }
const there = { APP_URL: 'https://dealbell.example' }

describe('a chat of which users paste an address', () => {
  const teams = { VITE_CHAT_NAME: 'Microsoft Teams' }
  const setting = 'MICROSOFT_TEAMS_WEBHOOK_ORIGINS'
  const of = (env: Record<string, string>) => parseEnv(env).addressesAt(3000).providers

  test('that anybody can host needs its origin, except with a stand-in', () => {
    const mattermost = { VITE_CHAT_NAME: 'Mattermost' }
    const missing = /MATTERMOST_WEBHOOK_ORIGINS is missing. Set it to the origin of your Mattermost/
    expect(() => of({ ...hubspot, ...mattermost })).toThrow(missing)
    const named = { MATTERMOST_WEBHOOK_ORIGINS: 'https://chat.example.com' }
    expect(of({ ...hubspot, ...mattermost, ...named }).mattermost).toMatchObject({
      origins: ['https://chat.example.com'],
      standIn: false,
    })
    expect(of(mattermost).mattermost.standIn).toBe(true)
  })

  test('needs no client id beside a real CRM, and takes the place of Slack', () => {
    for (const APP_URL of ['http://localhost:3000', there.APP_URL]) {
      const providers = of({ ...hubspot, ...teams, APP_URL })
      expect(providers['microsoft-teams']).toEqual({
        origins: registry['microsoft-teams'].origins,
        pageUrl: `${APP_URL}/api/microsoft-teams/address`,
        standInAddress: undefined,
        inUse: true,
        standIn: false,
      })
      expect(providers.slack.inUse).toBe(false)
    }
  })

  test('has a stand-in beside the real one, where stand-ins are safe', () => {
    const ofTeams = (env: Record<string, string>) => of({ ...teams, ...env })['microsoft-teams']
    const standIn = {
      standInAddress: 'http://127.0.0.1:3000/sandbox/microsoft-teams/services/sales',
      standIn: true,
    }
    expect(ofTeams({})).toMatchObject(standIn)
    expect(ofTeams({ [setting]: 'https://a.example' })).toMatchObject(standIn)
    expect(ofTeams({ ...hubspot, ALLOW_STAND_INS: 'true' })).toMatchObject(standIn)
    expect(of({})['microsoft-teams']).toMatchObject({ inUse: false, standIn: false })
  })

  test('may be elsewhere, at origins that the operator names', () => {
    const origins = ['https://a.example:8443', 'https://*.b.example', 'http://127.0.0.1:8080']
    const providers = of({ [setting]: ` ${origins.join(' , ')} ` })
    expect(providers['microsoft-teams']).toMatchObject({ origins, inUse: true })
  })

  test.each([
    ...['a.example', 'https://', 'http://a.example', 'ftp://a.example', 'https://*'],
    ...['https://a.example/', 'https://a.example/path', 'https://a.example:443'],
    ...['https://me:hunter2@a.example', 'https://a.*.example', 'https://*.*.example'],
    ...[
      'https://*.com',
      'https://*.',
      'https://A.example',
      'https://a.example,',
      'https://*a.example',
    ],
  ])('is refused in words at %j', (origin) => {
    expect(() => parseEnv({ [setting]: origin })).toThrow(
      `- ${setting} must be an origin such as https://chat.example.com or https://*.example.com`,
    )
  })
})

describe('stand-ins', () => {
  test.each([
    [{ ...slack }, 'HUBSPOT_CLIENT_ID is missing beside SLACK_CLIENT_ID'],
    [{ ...hubspot }, 'SLACK_CLIENT_ID is missing beside HUBSPOT_CLIENT_ID'],
    [{ ...there }, 'HUBSPOT_CLIENT_ID and SLACK_CLIENT_ID are missing'],
    [{ APP_URL: 'http://192.168.0.2:3000' }, 'APP_URL is not on this machine'],
    [{ API_URL: 'http://192.168.0.2:3000' }, 'API_URL is not on this machine'],
    [{ HOST: '192.168.0.2' }, 'HOST lets other machines in'],
    [{ HOST: '::' }, 'HOST lets other machines in'],
    [{ APP_URL: 'http://127.0.0.1.example' }, 'APP_URL is not on this machine'],
  ])('are refused where others can use them: %j', (env, problem) => {
    expect(() => parseEnv(env)).toThrow(problem)
    // The message names what allows it, and that is enough.
    expect(() => parseEnv(env)).toThrow('ALLOW_STAND_INS=true')
    parseEnv({ ...env, ALLOW_STAND_INS: 'true' })
  })

  // A real chat by address may be pasted beside a stand-in CRM.
  test.each<[readonly (string | undefined)[], Record<string, string>]>([
    [['127.0.0.1', '::1'], {}],
    [['127.0.0.1', '::1'], { VITE_CHAT_NAME: 'Discord', API_URL: 'http://localhost:8080' }],
    [['::1'], { HOST: '::1' }],
    [[undefined], { ALLOW_STAND_INS: 'true' }],
    [[undefined], { ...hubspot, ...slack }],
    [[undefined], { ...hubspot, VITE_CHAT_NAME: 'Discord' }],
  ])('have the server listen at %j with %j', (hosts, env) => {
    expect(parseEnv(env).hosts).toEqual(hosts)
  })

  test.each(['localhost', 'dealbell.localhost', '127.0.0.1', '[::1]'])('are fine at %s', (host) => {
    parseEnv({ APP_URL: `http://${host}:8080` })
  })
})

test('a refused setting is quoted, because an environment file may have made a comment part of it, but no secret is', () => {
  expect(() => parseEnv({ PORT: '3000 # of the proxy' })).toThrow(
    "PORT must be a port number from 0 to 65535; it is '3000 # of the proxy'",
  )
  expect(() => parseEnv({ ENCRYPTION_KEY: 'hunter2' })).toThrow(/^((?!hunter2)[\s\S])*$/)
  expect(() => parseEnv({ DATABASE_URL: 'hunter2' })).toThrow(/^((?!hunter2)[\s\S])*$/)
})
