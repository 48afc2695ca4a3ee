import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ChatMessage, Part } from '../../server/providers/chat-message.ts'
import { createDiscord } from '../../server/providers/discord/discord.ts'
import { googleChat } from '../../server/providers/google-chat/google-chat.ts'
import { type Change, dealRules } from '../../server/relay/decide/rules.ts'
import { digestOf } from '../../server/relay/write/digest.ts'
import {
  type MessageEntry,
  messageFor,
  plainTestMessage,
  testMessage,
} from '../../server/relay/write/message.ts'
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
  '&amp; &#64;all {{DATE(2020-01-01)}} \\ ``` ~~~ C:\\dir \\\\srv\\x *b* _i_ ~s~ `c` ![i](http://x/y.png) $MM_EMAIL0$',
  'https://evil.example/x www.evil.example evil.com/x www3.1 tel:123 a@b.example <https://evil|text>',
  ':tada: :) ;) :/ x-d <3 </3 $x$ $5 #tag ~town-square @user. _@user \u202E',
  ':x: <t:0> <t:0:f> <#12345678901234567> <@&12345678901234567> <a:xy:12345678901234567> </x:12345678901234567> <id:guide>',
  'discord.gg/x ||s|| ~~s~~ a[b a][b ]( [c](d) \\[x](http://evil) ¯\\_(ツ)_/¯',
  'a[b',
  '-# x\n  # y\n>>> z',
  'x\n- a\n+ b\n1. c\n2) d\n===\nx\n---\n# e\n> f\n| g | h |\n|---|---|\n[1]: http://evil',
]

describe.each(cases.map((each) => [each.chat.id, each] as const))('%s', (_, each) => {
  const { chat, create, standIn, origins, right, wrong } = each
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

  const accepts = (message: ChatMessage) => {
    const { url: called = of(right[0]), json } = chat.request(message, ['key'], of(right[0]))
    const body: unknown = JSON.parse(JSON.stringify(json))
    return 'shown' in standIn.read({ query: Object.fromEntries(called.searchParams), body })
  }

  test('takes the longest messages', () => {
    const nasty = '<!channel>&💥'.repeat(100)
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

  test('knows what shares a limit', () => {
    const [accountId, channelId] = each.accounts
    for (const address of right) {
      expect(chat.account(of(address))).toMatchObject({ accountId, channelId })
    }
  })

  const { byAddress } = create(settings)
  const [good] = right.map((address) => address.replace(':443', ''))
  if (good === undefined) throw new Error('There is no address.')
  const { host, pathname, search } = of(good)
  const rest = pathname + search
  const at = (origin: string) => origin + rest

  test.each([...right, good, good.replace(host, `${host}:443`)])('may be at %s', (address) => {
    expect(byAddress?.isAllowed(address)).toBe(true)
  })

  test.each([
    ...wrong,
    ...['', 'x', 'https://', '//', good.slice(8), `http${good.slice(5)}`, `HTTPS${good.slice(5)}`],
    ...[
      '127.0.0.1',
      '2130706433',
      '0x7f.1',
      '0177.0.0.1',
      '[::1]',
      '[::ffff:7f00:1]',
      'localhost',
    ].map((name) => at(`https://${name}`)),
    ...[`${host}.`, `${host}:444`, `${host}:80`, `user@${host}`, `user:x@${host}`, `@${host}`].map(
      (name) => at(`https://${name}`),
    ),
    ...[
      `${host}.evil.example`,
      `evil-${host}x`,
      `evil.example/${host}`,
      `evil.example\\@${host}`,
    ].map((name) => at(`https://${name}`)),
    ...[`${host}@evil.example`, `evil.example?${host}`, `evil.example#${host}`, 'evil.example'].map(
      (name) => at(`https://${name}`),
    ),
    at(`https://${host.toUpperCase()}`),
    at(`https://${host.replace('.', '。')}`),
    at(`https://${host.replace('o', 'ｏ')}`),
    at(`https://${host.replace('o', 'о')}`),
    at(`https://${host.replace('.', '\u00AD.')}`),
    at(`https://${host.replace('.', '%2e')}`),
    at(`https:/${host}`),
    at(`https:\\\\${host}`),
    `https://${host}/${rest}`,
    `https://${host}/x/..${rest}`,
    `https://${host}/%2e%2e${rest}`,
    `https://${host}${pathname.replace(/\/(\w+)/, '%2F$1')}${search}`,
    `https://${host}${pathname.replace(/\/(\w+)/, '\\$1')}${search}`,
    `https://${host}/${search}`,
    `${good}?x=1`,
    `${good}#`,
    `${good}#x`,
    ` ${good}`,
    `${good}\n`,
    good.replace('s://', 's:\t//'),
    good.replace(host, `${host.slice(0, 3)}\n${host.slice(3)}`),
    `${good.slice(0, -3)}\t${good.slice(-3)}`,
    `${good}\u0000`,
    good + 'x'.repeat(3_000),
  ])('is never at %j', (address) => {
    expect(byAddress?.isAllowed(address)).toBe(false)
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
    const open = () => create({ ...settings, origins: [server.url] }, shortTimeouts)
    const secrets = () => ({ accessToken: '', incomingWebhookUrl: at(server.url) })
    function post(answer: Answer) {
      server.answers = { [pathname]: answer, '/inner': each.outcomes[0]?.[0] ?? {} }
      return open().post(secrets(), 'C1', testMessage, ['key'])
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
