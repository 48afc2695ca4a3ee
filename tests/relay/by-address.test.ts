import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createByAddress } from '../../server/providers/by-address.ts'
import { defaultTimeouts, outcomeOfUnknown } from '../../server/providers/calls.ts'
import type { ChatMessage, Part } from '../../server/providers/chat-message.ts'
import { createDiscord, discord } from '../../server/providers/discord/discord.ts'
import { googleChat } from '../../server/providers/google-chat/google-chat.ts'
import { readAddress } from '../../server/providers/read-address.ts'
import { type Change, dealRules } from '../../server/relay/decide/rules.ts'
import { digestOf } from '../../server/relay/write/digest.ts'
import {
  type MessageEntry,
  messageFor,
  plainTestMessage,
  testMessage,
} from '../../server/relay/write/message.ts'
import { createStandInByAddress } from '../../stand-ins/by-address.ts'
import { standInGoogleChat } from '../../stand-ins/google-chat/google-chat.ts'
import { hostileStrings, longCharacters } from '../hostile-strings.ts'
import { type AddressCase, broken, cases } from './address-chats.ts'
import { stageMove, stages } from './change.ts'
import { type Answer, openProvider, page, shortTimeouts } from './open-provider.ts'

const of = (text: string) => new URL(text)
const url = 'https://crm.example/a)_b*'
const bodyOf = ({ chat, right }: AddressCase, message: ChatMessage) =>
  chat.request(message, ['key'], of(right[0])).json
/** The lines that are not empty. */
const linesIn = (text: string) => text.split('\n').filter((line) => line !== '')

const hostile = [
  ...hostileStrings,
  ...longCharacters,
  '**b** [x](http://evil) <at>x</at> <!channel> @channel @here @everyone @all <@123> <users/all>',
  '&amp; &#64;all \\ ``` ~~~ C:\\dir \\\\srv\\x *b* _i_ ~s~ `c` ![i](http://x/y.png) $MM_EMAIL0$',
  'https://evil.example/x www.evil.example evil.com/x www3.1 tel:123 a@b.example <https://evil|text>',
  ':tada: :) ;) :/ x-d <3 </3 $x$ $5 #tag ~town-square @user. _@user \u202E',
  ':x: <t:0> <t:0:f> <#12345678901234567> <@&12345678901234567> <a:xy:12345678901234567> </x:12345678901234567> <id:guide>',
  '{{DATE(2017-02-14T06:08:39Z, SHORT)}} {{TIME(2017-02-14T06:08:39Z)}} {{{TIME(2017-02-14T06:08:39Z)}}}',
  'discord.gg/x ||s|| ~~s~~ a[b a][b ]( [c](d) \\[x](http://evil) ¯\\_(ツ)_/¯',
  'a[b',
  '-# x\n  # y\n>>> z',
  'x\n- a\n+ b\n1. c\n2) d\n===\nx\n---\n# e\n> f\n| g | h |\n|---|---|\n[1]: http://evil',
]

describe.each(cases.map((each) => [each.chat.id, each] as const))('%s', (_, each) => {
  const { chat, create, standIn, origins, right, elsewhere = [] } = each
  const settings = { origins, pageUrl: 'x', standInAddress: undefined, inUse: true, standIn: false }

  test.each(hostile)('shows a text as it is: %j', (nasty) => {
    const name = nasty.replaceAll('\n', ' ')
    const paragraphs: Part[][] = [
      [
        { type: 'link', url, text: name, bold: true },
        { type: 'text', text: ' → ' },
        { type: 'text', text: nasty, bold: true },
      ],
      [
        { type: 'text', text: nasty },
        { type: 'date', at: new Date(0), withTime: true },
      ],
    ]
    const shown = each.read(bodyOf(each, { text: nasty, paragraphs, footer: [name] }))
    const said = `${name} → ${nasty}\n${nasty}1970-01-01 00:00 UTC\n${name}`
    expect(linesIn(shown.text)).toEqual(linesIn(said))
    expect(shown.links.map(decodeURI)).toEqual([url])
    const plain = each.read(bodyOf(each, { text: nasty, paragraphs: [], footer: [] }))
    expect({ ...plain, text: linesIn(plain.text) }).toEqual({ text: linesIn(nasty), links: [] })
  })

  test('its stand-in has an address as the chat gives it', async () => {
    const app = createStandInByAddress({ id: chat.id, appUrl: 'http://app', pages: {} }, standIn)
    const address = of(`https://${host}${standIn.webhook}`)
    expect(byAddress?.problemWith(address.href)).toBeUndefined()
    const { url: called = address, json } = chat.request(testMessage, ['key'], address)
    const body = JSON.stringify(json)
    const answer = await app.request(called.pathname + called.search, { method: 'POST', body })
    expect(answer.status).toBe(standIn.accepted.status)
    const other = await app.request('/foo/bar', { method: 'POST', body })
    expect(other.status).toBe(404)
  })

  const accepts = (message: ChatMessage) => {
    const { url: called = of(right[0]), json } = chat.request(message, ['key'], of(right[0]))
    const body: unknown = JSON.parse(JSON.stringify(json))
    return 'shown' in standIn.read({ query: Object.fromEntries(called.searchParams), body })
  }

  test('takes the longest messages', () => {
    const nasty = '<!channel>&💥ש'.repeat(100)
    const entries = Array.from({ length: 30 }, (__, n): MessageEntry => {
      const to = { ...stages.next, label: `${n} ${nasty}` }
      const change: Change = stageMove({ ...stages.open, label: nasty }, to)
      const ruleId = 'deal-stage-changed'
      const deal = { name: nasty, amount: '1e15', currency: nasty, ownerName: nasty, url: url + n }
      return { ruleId, headline: dealRules[ruleId].headline(change), deal, ownerId: null }
    })
    let left = entries
    while (left.length > 0) {
      const { message, covers } = digestOf(left, chat.fits)
      expect(chat.fits(message) && accepts(message)).toBe(true)
      expect(each.read(bodyOf(each, message)).links).toHaveLength(covers)
      left = left.slice(covers)
    }
    expect(entries.map(messageFor).every(chat.fits)).toBe(true)
    expect(accepts(testMessage)).toBe(true)
    // At the edge of what fits. Each character is one byte.
    const long = (length: number): ChatMessage => ({
      text: 'x',
      paragraphs: [[{ type: 'text', text: 'x'.repeat(length) }]],
      footer: [],
    })
    let fits = 1
    for (let step = 2 ** 15; step >= 1; step /= 2) if (chat.fits(long(fits + step))) fits += step
    expect(fits).toBeGreaterThanOrEqual(each.longest)
    expect(accepts(long(fits))).toBe(true)
    expect(accepts(long(fits + 4_000))).toBe(false)
    for (const length of [1_904, 1_905, 2_000, 2_001, 2_049]) {
      const some = 'x'.repeat(length)
      for (const message of [
        { ...long(1), text: some },
        { ...long(1), footer: [some] },
        { ...long(4_096), footer: [some] },
        { text: some, paragraphs: [], footer: [] },
      ]) {
        expect(accepts(message) || !chat.fits(message)).toBe(true)
      }
    }
  })

  test('knows what is a channel, and what shares a limit, as it always has', () => {
    const [accountId, channelId] = each.accounts
    const found = right.map((address) => chat.account(of(address)))
    for (const one of found) {
      expect(one).toMatchObject({ accountId, channelId })
      expect(one).toEqual(found[0])
    }
    const others = elsewhere.map((address) => chat.account(of(address)))
    for (const one of others) expect(one.accountId).toBe(found[0]?.accountId)
    const channels = [...found, ...others].map((one) => one.channelId)
    expect(new Set(channels).size).toBe(elsewhere.length + 1)
    const [address, channel] = each.stored
    const stored = chat.account(of(address))
    expect(`${stored.accountId}/${stored.channelId}`).toBe(channel)
    expect(byAddress?.problemWith(address)).toBeUndefined()
  })

  const { byAddress } = create(settings)
  const [good] = right.map((address) => address.replace(':443', ''))
  if (good === undefined) throw new Error('There is no address.')
  const { host, pathname, search } = of(good)
  const rest = pathname + search
  const at = (origin: string) => origin + rest

  test('twenty forms and more may be connected', () => {
    const all = new Set([
      ...[...right, ...elsewhere, good, good.replace(host, `${host}:443`)],
      // Some phones begin with a capital. Some administrators write their host with capitals.
      ...[at(`https://${host.toUpperCase()}`), at(`HTTPS://${host}:443`)],
      ...(search === '' ? [`${good}?`] : []),
    ])
    expect(all.size).toBeGreaterThanOrEqual(20)
    for (const address of all) {
      expect([address, byAddress?.problemWith(address)]).toEqual([address, undefined])
      // What is called is in the normal form.
      const read = readAddress(address, settings, chat.id)
      const { pathname: path, search: query } = of(address)
      expect(read).toMatchObject({ href: of(address).origin + path + query })
    }
  })

  const wrongEverywhere: AddressCase['wrong'] = [
    ...['', 'x', 'https://', '//', good.slice(8)].map((text) => ['no_address', text] as const),
    ...[
      `http${good.slice(5)}`,
      `ftp${good.slice(5)}`,
      'javascript:alert(1)',
      'file:///etc/passwd',
    ].map((text) => ['scheme', text] as const),
    ...[
      ...['127.0.0.1', '2130706433', '0x7f.1', '0177.0.0.1', '[::1]', '[::ffff:7f00:1]'],
      ...['localhost', '169.254.169.254', 'evil.example', `${host}.`, `${host}:444`, `${host}:80`],
      ...[
        `${host}.evil.example`,
        `evil-${host}x`,
        `evil.example/${host}`,
        `evil.example\\@${host}`,
      ],
      ...[`evil.example?${host}`, `evil.example#${host}`, host.replace('o', 'о')],
    ].map((name) => ['origin', at(`https://${name}`)] as const),
    ...[`user@${host}`, `user:x@${host}`, `${host}@evil.example`, `:x@${host}`].map(
      (name) => ['user', at(`https://${name}`)] as const,
    ),
    ...[`@${host}`, `${host}:0443`, host.replace('.', '%2e')].map(
      (name) => ['spelling', at(`https://${name}`)] as const,
    ),
    ...[host.replace('.', '。'), host.replace('o', 'ｏ'), host.replace('.', '\u00AD.')].map(
      (name) => ['characters', at(`https://${name}`)] as const,
    ),
    ['spelling', at(`https:/${host}`)],
    ['characters', at(`https:\\\\${host}`)],
    ['spelling', `https://${host}/${rest}`],
    ['spelling', `https://${host}/x/..${rest}`],
    ['spelling', `https://${host}/./${rest.slice(1)}`],
    ['spelling', `https://${host}/%2e%2e${rest}`],
    ['no_address', `https://${host}${pathname.replace(/\/(\w+)/, '%2F$1')}${search}`],
    ['spelling', `https://${host}/x%2F..${rest}`],
    ['spelling', `https://${host}${pathname.replace(/\/(\w)/, '/%41$1')}${search}`],
    ['characters', `https://${host}${pathname.replace(/\/(\w+)/, '\\$1')}${search}`],
    // Encoded: ASCII, a control character, what others may read as a dot or a slash, and what is no UTF-8.
    ...[
      '%2e%2E',
      '%5c',
      '%252e',
      '%00',
      '%0a',
      '%23',
      '%3F',
      '%',
      '%zz',
      '%E4',
      '%C0%AE',
      '%C2%85',
    ].map((part) => ['spelling', `https://${host}/x${part}${rest}`] as const),
    ...['%E2%80%AE', '%EF%BC%8F', '%EF%BC%8E%EF%BC%8E', '%E2%80%A5', '%EF%BB%BF', '%C2%A0'].map(
      (part) => ['spelling', `https://${host}/${part}${rest}`] as const,
    ),
    ['characters', `https://${host}/é${rest}`],
    ['path', `https://${host}/${search}`],
    ['spelling', `${good}?x=1?y=2`],
    ['fragment', `${good}#`],
    ['fragment', `${good}#x`],
    ['characters', ` ${good}`],
    ['characters', `${good}\n`],
    ['characters', `${good}\r\nHost: evil.example`],
    ['characters', good.replace('s://', 's:\t//')],
    ['characters', good.replace(host, `${host.slice(0, 3)}\n${host.slice(3)}`)],
    ['characters', `${good.slice(0, -3)}\t${good.slice(-3)}`],
    ['characters', `${good}\u0000`],
    ['characters', `${good}\u202E`],
    ['characters', `${good}<x>`],
    ['too_long', good + 'x'.repeat(3_000)],
  ]

  const allWrong = [...each.wrong, ...wrongEverywhere].map(([fault, address, part]) => ({
    ...{ fault, address, part },
  }))
  test.each(allWrong)('$fault: never at $address', ({ fault, address, part }) => {
    const problem = byAddress?.problemWith(address)
    expect(problem?.fault).toBe(fault)
    expect(problem?.words).toMatch(
      /^(Dealbell (cannot use|does not know) |An address of a webhook in ).*\.$/,
    )
    expect(problem?.words).not.toMatch(/copy/i)
    // Who has a webhook's id or token can post.
    expect(JSON.stringify(problem)).not.toMatch(/a-B_c|a_B-c|abcdefghij|0123456789abc/)
    if (part === undefined) return
    expect(problem?.part).toBe(part)
    expect(problem?.words).toContain(`“${part}”`)
  })

  test('without an origin, it says that none may be used yet', () => {
    const problem = create({ ...settings, origins: [] }).byAddress?.problemWith(good)
    expect(problem).toMatchObject({ fault: 'origin', part: host })
    expect(problem?.words).toMatch(/^No address of .* may be used on this server yet\./)
  })

  test('an address that is stored is still called if its form is not known any more', async () => {
    const server = await openProvider(each.outcomes[0]?.[0] ?? {})
    const provider = create({ ...settings, origins: [server.url] })
    const address = `${server.url}/of/another/form`
    const secrets = { accessToken: '', incomingWebhookUrl: address }
    expect(provider.byAddress?.problemWith(address)).toMatchObject({ fault: 'path' })
    expect(await provider.post(secrets, 'C1', testMessage, ['key'])).toEqual({ kind: 'posted' })
    await server.close()
  })

  describe('answers', () => {
    let server: Awaited<ReturnType<typeof openProvider>>
    beforeAll(async () => {
      server = await openProvider({ status: 404 })
    })
    afterAll(() => server.close())
    beforeEach(() => {
      server.calls = []
    })
    const open = ({ stalls }: Answer = {}) =>
      create({ ...settings, origins: [server.url] }, stalls ? shortTimeouts : defaultTimeouts)
    const secrets = () => ({ accessToken: '', incomingWebhookUrl: at(server.url) })
    function post(answer: Answer) {
      server.answers = { [pathname]: answer, '/inner': each.outcomes[0]?.[0] ?? {} }
      return open(answer).post(secrets(), 'C1', testMessage, ['key'])
    }

    test.each(each.outcomes)('with %j', async (answer, outcome) => {
      expect(await post(answer)).toEqual(outcome)
      await post(answer)
      // The same message has the same id each time.
      const [first, second] = server.calls
      expect(second?.call).toBe(first?.call)
      expect(second?.body).toBe(first?.body)
      if (outcome.kind === 'refused' && outcome.connectionBroken) {
        expect(open().brokenReasons).toHaveProperty(outcome.reason)
      }
    })

    test('no reason asks to copy what was copied', () => {
      expect(Object.values(open().brokenReasons).join()).not.toMatch(/copy/i)
    })

    // As the chat writes its errors, with a code that is on no list.
    test.each([400, 401, 402, 403, 404, 405, 408, 409, 410, 413, 415, 422, 425, 451, 499])(
      'an error %i that nobody knows refuses the message, or may; a page of a proxy does not',
      async (status) => {
        const { answer, reason } = each.unknown
        const mayBeConnection = [401, 403, 404].includes(status)
        const outcome = mayBeConnection ? { kind: 'unclear', reason } : { kind: 'failed', reason }
        const refused = { kind: 'refused', reason, connectionBroken: false }
        const mayPass = [408, 425].includes(status)
        expect(await post({ ...answer, status })).toEqual(
          mayBeConnection || mayPass ? outcome : refused,
        )
        const ofProxy = { reason: `http_${status}`, kind: status === 413 ? 'refused' : 'failed' }
        expect(await post({ ...page, status })).toMatchObject(ofProxy)
      },
    )

    test.each([
      ['a redirect', { status: 307, headers: { Location: '/inner' } }],
      ['too much', { body: ' '.repeat(64 * 1024 + 1) }],
      ['nothing', { stalls: true }],
    ] satisfies [string, Answer][])('with %s: the call ends', async (__, answer) => {
      expect(await post(answer)).toMatchObject({ kind: 'failed', reason: 'unreachable' })
      expect(server.calls).toHaveLength(1)
    })

    test.each(each.looks ?? [])('to a question with %j', async (answer, tells, error) => {
      server.answers = { [pathname]: answer }
      const asked = open().check?.(secrets(), 'C1')
      if (tells === undefined) await expect(asked).rejects.toMatchObject(error ?? {})
      else await expect(asked).resolves.toMatchObject(tells)
    })

    test('only where the settings allow it', async () => {
      const reason = 'address_not_allowed'
      const outcome = await create(settings).post(secrets(), 'C1', testMessage, ['key'])
      expect(outcome).toEqual(broken(reason))
      expect(server.calls).toEqual([])
      const code = JSON.stringify({ address: at(server.url), channel: '' })
      const request = { code, redirectUri: 'r', codeVerifier: 'v' }
      await expect(create(settings).exchange(request)).rejects.toMatchObject({ reason })
    })
  })
})

test('Discord is asked to post before it answers, by a client that it knows', async () => {
  const server = await openProvider({ body: { id: '1' } })
  const origins = [server.url]
  const settings = { origins, pageUrl: 'x', standInAddress: undefined, inUse: true, standIn: false }
  const path = `/api/webhooks/1234567890123456789/${'x'.repeat(68)}`
  const secrets = { accessToken: '', incomingWebhookUrl: server.url + path }
  expect(await createDiscord(settings).post(secrets, '2', testMessage, [])).toEqual({
    kind: 'posted',
  })
  const [{ call, headers } = {}] = server.calls
  expect(call).toBe(`POST ${path}?wait=true`)
  expect(headers?.['user-agent']).toMatch(/^DiscordBot \(https:\/\/[^ ]+, \d+\.\d+\.\d+\)$/)
  await server.close()
})

test.each(['', '/', '/slack', '/github/', '?wait=false&wait=x', '?with_components=true'])(
  'Discord is called at the plain address, and in the thread, whatever was copied with it: %j',
  async (end) => {
    const server = await openProvider({ body: { id: '1', channel_id: '2' } })
    const origins = [server.url]
    const settings = {
      origins,
      pageUrl: 'x',
      standInAddress: undefined,
      inUse: true,
      standIn: false,
    }
    const provider = createDiscord(settings)
    const path = `/webhooks/1234567890123456789/${'x'.repeat(68)}`
    const address = `${server.url}/api/v9${path}${end}`
    const code = (pasted: string) => JSON.stringify({ address: pasted, channel: '' })
    const exchange = (pasted: string) =>
      provider.exchange({ code: code(pasted), redirectUri: 'r', codeVerifier: 'v' })
    expect(await exchange(address)).toMatchObject({ accountId: 'discord:2', channelId: '2' })
    const inThread = `${address}${end.includes('?') ? '&' : '?'}thread_id=77`
    const thread = await exchange(inThread)
    expect(thread).toMatchObject({ accountId: 'discord:2', channelId: '77' })
    await provider.post(thread.secrets, '77', testMessage, [])
    const calls = [`GET /api${path}`, `GET /api${path}`, `POST /api${path}?thread_id=77&wait=true`]
    expect(server.calls.map(({ call }) => call)).toEqual(calls)
    await server.close()
  },
)

test('proofs stop before Discord blocks this server, and messages go on', async () => {
  const answers: [Answer, counts: boolean][] = [
    [{ status: 401 }, true],
    [{ status: 403 }, true],
    [{ status: 429, headers: { 'X-RateLimit-Scope': 'user' } }, true],
    [{ status: 429, headers: { 'X-RateLimit-Scope': 'shared' } }, false],
    [{ status: 404 }, false],
    [{ status: 500 }, false],
  ]
  for (const [answer, counts] of answers) {
    const server = await openProvider(answer)
    const origins = [server.url]
    const settings = {
      origins,
      pageUrl: '',
      standInAddress: undefined,
      inUse: true,
      standIn: false,
    }
    const { byAddress, post } = createByAddress(
      { ...discord, ...(discord.invalid && { invalid: { ...discord.invalid, most: 2 } }) },
      settings,
      defaultTimeouts,
    )
    const address = `${server.url}/api/webhooks/1234567890123456789/${'x'.repeat(68)}`
    const postOnce = () =>
      post({ accessToken: '', incomingWebhookUrl: address }, '1', testMessage, [])
    for (const call of [() => byAddress?.prove(address), postOnce]) await call()
    const proof = await byAddress?.prove(address)
    expect([answer, server.calls.length]).toEqual([answer, counts ? 2 : 3])
    if (counts) expect(proof).toEqual({ kind: 'wait', ms: expect.any(Number) })
    await postOnce()
    expect(server.calls).toHaveLength(counts ? 3 : 4)
    await server.close()
  }
})

test('Google Chat gets one id for each form of a message', () => {
  const address = of('https://chat.googleapis.com/v1/spaces/A/messages?key=a&token=b%3D')
  const idOf = (message: ChatMessage, key: unknown) => {
    const { url: called, json } = googleChat.request(message, [key], address)
    expect(called?.href).toMatch(`${address.href}&requestId=`)
    const read = standInGoogleChat.read({
      query: Object.fromEntries(called?.searchParams ?? []),
      body: JSON.parse(JSON.stringify(json)),
    })
    return 'shown' in read ? read.id : undefined
  }
  const ids = [idOf(testMessage, 1), idOf(testMessage, 2), idOf(plainTestMessage, 1)]
  expect(new Set(ids).size).toBe(3)
  expect(ids[0]).toMatch(/^[\da-f-]{36}$/)
  expect(idOf(testMessage, 1)).toBe(ids[0])
})

test('Google Chat never gets an id that was copied, but the thread', () => {
  const copied = 'requestId=1&request_id=2&REQUESTID=3&requestId=4&messageId=client-5&message_id=6'
  const kept = 'key=a&token=b%3D&threadKey=d&messageReplyOption=REPLY_MESSAGE_OR_FAIL&future=1'
  const address = of(`https://chat.googleapis.com/v1/spaces/A/messages/?${copied}&${kept}`)
  const { url: called } = googleChat.request(testMessage, ['key'], address)
  const start = `https://chat.googleapis.com/v1/spaces/A/messages?${kept}&requestId=`
  expect(called?.href.slice(0, start.length)).toBe(start)
  expect(called?.href.slice(start.length)).toMatch(/^[\da-f-]{36}$/)
})

test.each([407, 421])('an answer %i is a proxy’s, so the message is tried again', (status) => {
  const outcome = { kind: 'failed', reason: 'x' }
  expect(outcomeOfUnknown({ status, headers: new Headers() }, 'x')).toEqual(outcome)
})
