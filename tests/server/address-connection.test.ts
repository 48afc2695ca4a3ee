import { describe, expect, test, vi } from 'vitest'
import { exportAccount } from '../../server/activity/export-account.ts'
import { connections } from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { createChecks } from '../../server/people/checks.ts'
import { openSecrets } from '../../server/people/connections.ts'
import { recordRefusal } from '../../server/people/refusals.ts'
import { type AddressChat, createByAddress } from '../../server/providers/by-address.ts'
import { defaultTimeouts } from '../../server/providers/calls.ts'
import { discord } from '../../server/providers/discord/discord.ts'
import { teams } from '../../server/providers/microsoft-teams/microsoft-teams.ts'
import { type Browser, browser, fromAddress, openBrowser, refusal, storedIn } from './harness.ts'
import { accepted, id, secret, sharePasting, wayBack } from './pasting.ts'

const {
  harness,
  address,
  addressOf,
  settings,
  standInAddress,
  answerPosts,
  withProvider,
  withSettings,
  later,
  begin,
  submit,
  paste,
  comeBack,
  stored,
  storedAddress,
} = await sharePasting()

test('a pasted address is proved with one message, and stored encrypted', async () => {
  const params = await paste(browser)
  expect(harness.calls).toEqual([`POST ${new URL(address).pathname}`])
  expect((await comeBack(browser, params)).status).toBe(204)
  expect(await storedAddress()).toBe(address)
  expect(await stored()).toMatchObject([{ provider: id, standIn: false }])
  expect(harness.calls).toHaveLength(1)
})

test('a typed name is stored as one line of what its reader sees', async () => {
  answerPosts(accepted)
  const channel = ` \u0000Sales\u0085\u009B31m \u202Eteam\u2069\n${'x'.repeat(80)}💥`
  const back = await submit(browser, { state: await begin(browser), address, channel })
  expect((await comeBack(browser, wayBack(back).searchParams)).status).toBe(204)
  const [{ channelName } = {}] = await stored()
  expect(channelName).toBe(`Sales 31m team ${'x'.repeat(64)}…`)
})

test('the address is in nothing that anyone reads: no Location, log, metric, error, row or export', async () => {
  await browser.connect('hubspot')
  const [{ accountId = '' } = {}] = await stored()
  const said: string[] = []
  const hear = async (answer: Response) => {
    said.push(await answer.clone().text(), JSON.stringify([...answer.headers]))
    return answer
  }
  // The page alone says what was typed.
  answerPosts(() => new Response(address, { status: 500 }))
  const refused = await submit(browser, { state: await begin(browser), address })
  said.push(JSON.stringify([...refused.headers]))
  const state = await begin(browser)
  const seal = vi.spyOn(harness.vault, 'seal').mockImplementation(() => {
    throw new Error(address)
  })
  answerPosts(accepted)
  const failed = await hear(await submit(browser, { state, address }))
  expect(await refusal(failed)).toBe('500 internal')
  seal.mockRestore()
  const back = await hear(await submit(browser, { state: await begin(browser), address }))
  const done = await hear(await comeBack(browser, wayBack(back).searchParams))
  expect(done.status).toBe(204)
  await hear(await browser.call(`/api/${id}/status`))
  const metrics = await fromAddress(harness.app, '127.0.0.1').request('/metrics')
  expect(await (await hear(metrics)).text()).toContain(id)
  for await (const part of exportAccount(harness.database, accountId)) said.push(part)
  expect(said.join()).toMatch(/"connections"(?!.*"secrets")/s)
  said.push(await storedIn(harness.database, connections), ...harness.logged)
  for (const each of [secret, '0123456789abcdef']) expect(said.join('\n')).not.toContain(each)
})

describe('the code of a pasted address', () => {
  const connectAgain = '400 invalid_state'

  test('ends after ten minutes, and not a moment before', async () => {
    const early = openBrowser(harness)
    const [params, lateParams] = [await paste(early), await paste(browser)]
    later(10 * 60 * 1000 - 1)
    expect((await comeBack(early, params)).status).toBe(204)
    later(1)
    expect(await refusal(await comeBack(browser, lateParams))).toBe(connectAgain)
  })

  test('works once; a repeated call gets the same result, and another code none', async () => {
    const params = await paste(browser)
    const before = openBrowser(harness)
    before.cookie = browser.cookie
    const second = new URLSearchParams({ ...Object.fromEntries(params), code: 'other' })
    expect((await comeBack(browser, params)).status).toBe(204)
    const token = browser.cookie
    expect((await comeBack(before, params)).status).toBe(204)
    expect(before.cookie).toBe(token)
    expect(await refusal(await comeBack(browser, second))).toBe(connectAgain)
    expect(harness.calls).toHaveLength(1)
  })

  test.each<[string, (params: URLSearchParams) => Promise<[Browser, URLSearchParams]>]>([
    ['in another browser', async (params) => [openBrowser(harness), params]],
    [
      'with another state',
      async (params) => {
        params.set('state', await begin(browser))
        return [browser, params]
      },
    ],
    [
      'with the state of another service',
      async (params) => {
        const other = await browser.authorize('hubspot')
        params.set('state', other.get('state') ?? '')
        return [browser, params]
      },
    ],
    [
      'not sealed',
      async (params) => {
        params.set('code', JSON.stringify({ address, channel: '' }))
        return [browser, params]
      },
    ],
  ])('is refused %s', async (_, change) => {
    const [one, params] = await change(await paste(browser))
    expect(await refusal(await comeBack(one, params))).toBe(connectAgain)
    expect(await stored()).toEqual([])
  })

  test('is refused if the settings no longer allow the address', async () => {
    for (const pasted of [address, standInAddress]) {
      const params = await paste(browser, pasted)
      const app = withSettings({ origins: [], standInAddress: undefined })
      const later = openBrowser({ app })
      later.cookie = browser.cookie
      expect(await refusal(await comeBack(later, params))).toBe('502 exchange_refused')
    }
    expect(await stored()).toEqual([])
  })
})

test('of two tabs, the last one counts, as for the other chats', async () => {
  await browser.connect('hubspot')
  const tabs = [await paste(browser), await paste(browser, addressOf('fedcba9876543210'))]
  for (const tab of tabs) expect((await comeBack(browser, tab)).status).toBe(204)
  // An authorization that is complete posts nothing more.
  harness.calls.length = 0
  const again = await submit(browser, {
    state: tabs[0]?.get('state') ?? '',
    address: standInAddress,
  })
  expect([again.status, again.headers.get('Location'), harness.calls]).toEqual([400, null, []])
  const rows = (await stored()).filter(({ provider }) => provider === id)
  expect(rows.map((row) => openSecrets(harness.vault, row).incomingWebhookUrl)).toEqual([
    addressOf('fedcba9876543210'),
  ])
})

test('a disconnect forgets the address and calls nothing', async () => {
  await comeBack(browser, await paste(browser))
  harness.calls.length = 0
  const revoke = vi.spyOn(harness.providers[id], 'revoke')
  expect((await browser.disconnect(id)).status).toBe(204)
  await vi.waitFor(() => expect(revoke).toHaveBeenCalled(), 20_000)
  expect([await stored(), harness.calls]).toEqual([[], []])
})

describe('checks', () => {
  /** Connects by an address of the chat. @returns a function that checks the connection once, and what is stored then. */
  async function connectTo(chat: AddressChat) {
    const { database, vault } = harness
    const provider = createByAddress(chat, settings, defaultTimeouts)
    const one = openBrowser({ app: withProvider(provider) })
    answerPosts(() => Response.json({ id: '1', channel_id: '2' }))
    const back = wayBack(await submit(one, { state: await begin(one), address }))
    expect((await comeBack(one, back.searchParams)).status).toBe(204)
    harness.calls.length = 0
    return async (changes: Partial<typeof connections.$inferInsert> = {}) => {
      const providers = { ...harness.providers, [id]: provider }
      const sendLastAgain = async () => false
      const checks = createChecks(
        { database, vault, providers, log: logTo(() => {}), sendLastAgain },
        { pollMs: 10, askAgainMs: 10 },
      )
      await database.update(connections).set({ ...changes, checkAt: new Date(0) })
      checks.start()
      await vi.waitFor(async () => {
        const [row] = await stored()
        expect([row?.checkAsked, row && row.checkAt > new Date()]).toEqual([false, true])
      }, 20_000)
      // It waits for the check that has begun.
      await checks.stop()
      const [row] = await stored()
      return row
    }
  }

  test('never call an address again after a final refusal', async () => {
    const check = await connectTo({
      ...teams,
      look: { request: { method: 'get' }, read: ({ status }) => (status === 200 ? {} : undefined) },
      finalReasons: new Set(['http_404']),
    })
    answerPosts(() => new Response('', { status: 404 }))
    for (let day = 1; day <= 3; day++) {
      expect(await check()).toMatchObject({ brokenReason: 'http_404', askAgainAt: null })
    }
    expect(harness.calls).toHaveLength(1)
  })

  // With an address that this server may call.
  const discordHere: AddressChat = { ...discord, id, form: teams.form }
  const discordAnswers = (status: number, code: number) =>
    answerPosts(() => Response.json({ message: 'No.', code }, { status }))

  test.each([10015, 10003, 0])(
    'never call a webhook of Discord again after 404 (%i)',
    async (code) => {
      const check = await connectTo(discordHere)
      discordAnswers(404, code)
      for (let day = 1; day <= 3; day++) {
        expect(await check()).toMatchObject({ brokenSince: expect.any(Date), askAgainAt: null })
      }
      expect(harness.calls).toHaveLength(1)
    },
  )

  test.each([10015, 10003, 0])('nor if a message got 404 (%i)', async (code) => {
    const check = await connectTo(discordHere)
    discordAnswers(404, code)
    const { post, finalReasons } = createByAddress(discordHere, settings, defaultTimeouts)
    const secrets = { accessToken: '', incomingWebhookUrl: address }
    const outcome = await post(secrets, '2', { text: 'x', paragraphs: [], footer: [] }, [])
    const [row] = await stored()
    if (outcome.kind !== 'refused' || row === undefined) throw new Error(outcome.kind)
    const { reason } = outcome
    const isFinal = finalReasons?.has(reason) === true
    await recordRefusal(harness.database, row, reason, { afterMs: 10, isFinal })
    for (let day = 1; day <= 3; day++) {
      expect(await check()).toMatchObject({ brokenReason: reason, askAgainAt: null })
    }
    expect(harness.calls).toHaveLength(1)
  })

  test('ask again after another refusal of Discord', async () => {
    const check = await connectTo(discordHere)
    discordAnswers(401, 50027)
    await check({ brokenReason: 'code_50027', brokenSince: new Date() })
    expect(harness.calls).toHaveLength(1)
  })

  test('that cannot ask say nothing: only a message does', async () => {
    const check = await connectTo(teams)
    const askAgainAt = new Date('2099-01-01')
    expect(await check({ askAgainAt })).toMatchObject({ askAgainAt, brokenSince: null })
    const broken = { brokenReason: 'http_404', brokenSince: new Date(), askAgainAt: null }
    // The next message is tried.
    expect(await check(broken)).toMatchObject({ ...broken, askAgainAt: expect.any(Date) })
    expect(harness.calls).toEqual([])
  })
})
