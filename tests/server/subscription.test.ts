import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { eq, sql } from 'drizzle-orm'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { connections, crmAccounts, crmBudgets, users } from '../../server/database/schema.ts'
import { logTo } from '../../server/log.ts'
import { createChecks } from '../../server/people/checks.ts'
import type { Crm, CrmAccess, Grant } from '../../server/providers/provider.ts'
import { ProviderError } from '../../server/providers/provider-error.ts'
import { newFolder } from '../database.ts'
import { type Browser, hold, openBrowser, refusal, shareHarness } from './harness.ts'

const harness = await shareHarness(() => ({ VITE_CRM_NAME: 'Pipedrive' }))
const { database, vault } = harness
const provider = 'pipedrive'
const minute = 60_000
const hour = 60 * minute
const soon = { timeout: 20_000, interval: 20 }
const failed = (stage: ProviderError['stage'], kind: ProviderError['kind'], reason?: string) =>
  new ProviderError(provider, stage, kind, reason)

/** A CRM that sends events only to whoever asks for them, and each user of which installs the app alone. */
const calls = {
  exchange: vi.fn<Crm['exchange']>(),
  refresh: vi.fn<Crm['refresh']>(),
  revoke: vi.fn<Crm['revoke']>(),
}
const webhooks = {
  find: vi.fn<NonNullable<Crm['webhooks']>['find']>(),
  make: vi.fn<NonNullable<Crm['webhooks']>['make']>(),
}
const secret = 'Basic app:secret'
const crm: Crm = {
  ...harness.providers.pipedrive,
  ...calls,
  webhooks,
  standIn: false,
  authorizeUrl: ({ state }) => `https://crm.example/?state=${state}`,
  names: async () => ({ accountName: 'acme.example' }),
  brokenReasons: { invalid_grant: 'the access was revoked' },
  uninstalledBy({ header, body }) {
    if (header('Authorization') !== secret) return undefined
    const { company, user } = JSON.parse(Buffer.from(body).toString())
    return { accountId: company, accountUserId: user }
  },
}
const providers = { ...harness.providers, pipedrive: crm }
const app = harness.appWith({ providers })
let user: Browser

const grantOf = (user: string): Grant => ({
  secrets: { accessToken: 'first', refreshToken: `refresh ${user}` },
  accessExpiresAt: new Date(Date.now() + hour),
  accountId: '7',
  accountName: 'acme.example',
  accountUserId: user,
  grantId: `7:${user}`,
  channelId: null,
  channelName: null,
})

beforeEach(async () => {
  await database.delete(crmAccounts)
  user = openBrowser({ app, database })
  harness.clock.now = new Date()
  let tokens = 0
  webhooks.find.mockReset().mockResolvedValue(undefined)
  webhooks.make.mockReset().mockResolvedValue('made')
  calls.revoke.mockReset().mockResolvedValue()
  calls.exchange.mockReset().mockImplementation(async ({ code }) => grantOf(code))
  calls.refresh.mockReset().mockImplementation(async (secrets) => ({
    secrets: { ...secrets, accessToken: `refreshed ${++tokens}` },
    accessExpiresAt: new Date(Date.now() + hour),
  }))
})

/** The user `who` of company 7 consents in this browser. */
async function connect(one = user, who = '1'): Promise<Response> {
  const begun = await one.send(`/api/${provider}/auth`)
  const { searchParams } = new URL(begun.headers.get('Location') ?? '')
  searchParams.set('code', who)
  return await one.call(`/api/${provider}/callback?${searchParams}`)
}

async function row() {
  const [only] = await database.select().from(connections)
  if (only === undefined) throw new Error('There is no connection.')
  return only
}

const change = (changes: { [Column in keyof typeof connections.$inferInsert]?: unknown }) =>
  database.update(connections).set(changes as Partial<typeof connections.$inferInsert>)

/** Runs the checks until `isDone`. */
async function check(isDone: () => Promise<unknown>, pipedrive = crm): Promise<void> {
  const sendLastAgain = async () => false
  const log = logTo(() => {})
  const checks = createChecks(
    { database, vault, providers: { ...providers, pipedrive }, log, sendLastAgain },
    { pollMs: 10, askAgainMs: 10 },
  )
  checks.start()
  await vi.waitFor(isDone, soon)
  // It waits for the check that has begun.
  await checks.stop()
}

/** No check is due or under way. */
async function isChecked() {
  const { checkAt, checkAsked } = await row()
  expect([checkAsked, checkAt > new Date()]).toEqual([false, true])
}
const checked = { checkAt: sql`now() + interval '1 day'`, checkAsked: false }

/** A connection that is as old as most, and is checked now. */
async function checkOld(changes: Parameters<typeof change>[0] = {}) {
  const connectedAt = new Date(Date.now() - 2 * hour)
  await change({ connectedAt, checkAt: new Date(0), ...changes })
  await check(isChecked)
  return await row()
}

const hoursUntil = (time: Date) => Math.round((time.getTime() - Date.now()) / hour)
const late = 'Changes in Pipedrive may arrive up to an hour late.'
const lateOnShortDay =
  'Changes in Pipedrive may arrive only after midnight (UTC), because few of its calls are left for today.'

describe('a callback', () => {
  test('subscribes before it answers, and shows no warning', async () => {
    expect((await connect()).status).toBe(204)
    expect(webhooks.make.mock.calls).toMatchObject([[{ accountId: '7', accessToken: 'first' }]])
    expect((await row()).webhookId).toBe('made')
    const { account, ...status } = Object(await user.connected(provider))
    expect(status).toEqual({ connected: true })
  })

  test('does not wait for long, and what comes late still counts', async () => {
    const held = hold()
    webhooks.find.mockImplementation(async () => {
      await held.wait()
      throw failed('read', 'unreachable')
    })
    expect((await connect()).status).toBe(204)
    expect((await row()).lateSince).toBeNull()
    held.release()
    await vi.waitFor(async () => expect((await row()).lateSince).not.toBeNull(), soon)
  })

  test('connects although the CRM cannot be asked, and the dashboard then says that events may be late', async () => {
    webhooks.find.mockRejectedValue(failed('read', 'refused', 'no_scope'))
    expect((await connect()).status).toBe(204)
    expect(await user.connected(provider)).toMatchObject({ connected: true, late })
    expect((await row()).askAgainAt).toBeNull()
    // A new consent is a new start.
    webhooks.find.mockResolvedValue(undefined)
    expect((await connect()).status).toBe(204)
    expect(await user.connected(provider)).not.toHaveProperty('late')
  })

  test('of another account begins a new search, one of the same goes on with the former', async () => {
    const searchedUntil = new Date(Date.now() - hour)
    const connectTo = async (accountId: string) => {
      calls.exchange.mockResolvedValueOnce({ ...grantOf('1'), accountId, accountUserId: null })
      expect((await connect()).status).toBe(204)
      return (await row()).searchedUntil
    }
    await connectTo('7')
    await change({ searchedUntil })
    expect(await connectTo('7')).toEqual(searchedUntil)
    expect(await connectTo('8')).toBeNull()
  })

  test('of a user who has uninstalled the app, and so has missed changes, says so', async () => {
    await connect()
    expect((await connect()).status).toBe(204)
    expect(webhooks.find.mock.lastCall?.[1]).toMatchObject({ grantId: '7:1', webhookId: 'made' })
    expect(await user.connected(provider)).toMatchObject({ late })
    // Another person's webhook is nothing to miss.
    calls.exchange.mockResolvedValueOnce({ ...grantOf('2'), accountUserId: null })
    expect((await connect()).status).toBe(204)
    expect(webhooks.find.mock.lastCall?.[1]).toMatchObject({ grantId: '7:2', webhookId: null })
    expect(await user.connected(provider)).not.toHaveProperty('late')
  })

  test('asks again with a new token if the first one does not count', async () => {
    webhooks.find.mockRejectedValueOnce(failed('read', 'unauthorized'))
    expect((await connect()).status).toBe(204)
    expect(webhooks.find.mock.calls.map(([access]) => access.accessToken)).toEqual([
      'first',
      'refreshed 1',
    ])
    expect((await row()).lateSince).toBeNull()
  })
})

describe('a check', () => {
  beforeEach(async () => {
    await connect()
    webhooks.find.mockReset().mockResolvedValue('made')
    webhooks.make.mockReset().mockResolvedValue('made again')
    await database.insert(crmAccounts).values({
      crm: provider,
      accountId: '7',
      searchedUntil: new Date(),
      searchAt: new Date(Date.now() + hour),
    })
  })
  const searchInMinutes = async () => {
    const [account] = await database.select().from(crmAccounts)
    return Math.round(((account?.searchAt.getTime() ?? 0) - Date.now()) / minute)
  }

  test('that finds the subscription changes nothing', async () => {
    const { lateSince, checkAt } = await checkOld()
    // It does not wait until the account has calls to spare.
    const asked = [{ urgency: 'fresh' }, { grantId: '7:1', webhookId: 'made' }]
    expect(webhooks.find.mock.calls).toMatchObject([asked])
    expect(webhooks.make).not.toHaveBeenCalled()
    expect([lateSince, hoursUntil(checkAt), await searchInMinutes()]).toEqual([null, 24, 60])
  })

  test('that had to subscribe again says so, has the account searched, and is made again after an hour', async () => {
    webhooks.find.mockResolvedValueOnce(undefined)
    const { checkAt, webhookId } = await checkOld()
    expect([hoursUntil(checkAt), webhookId]).toEqual([1, 'made again'])
    expect(await user.connected(provider)).toMatchObject({ connected: true, late })
    expect(await searchInMinutes()).toBe(3)
    await checkOld()
    expect(await user.connected(provider)).not.toHaveProperty('late')
  })

  test('leaves the lease of a search that is under way', async () => {
    await database.update(crmAccounts).set({ searchAt: new Date(Date.now() + 1.5 * minute) })
    webhooks.find.mockResolvedValue(undefined)
    await checkOld()
    expect(await searchInMinutes()).toBeLessThanOrEqual(2)
  })

  test('of a new connection may subscribe it, if the callback died before', async () => {
    webhooks.find.mockResolvedValue(undefined)
    const { lateSince, checkAt } = await checkOld({ webhookId: null })
    expect([lateSince, hoursUntil(checkAt), await searchInMinutes()]).toEqual([null, 24, 60])
    // But not if the callback has failed since: there may have been events.
    expect((await checkOld({ webhookId: null, lateSince: new Date() })).lateSince).not.toBeNull()
    expect(await searchInMinutes()).toBe(3)
  })

  test('of a broken connection waits for no calls to spare', async () => {
    const onlyFresh = async ({ urgency }: CrmAccess) => {
      if (urgency !== 'fresh') throw failed('read', 'unreachable', 'budget')
    }
    const pipedrive: Crm = {
      ...crm,
      stages: (access) => onlyFresh(access).then(() => []),
      deal: (access) => onlyFresh(access).then(() => undefined),
    }
    await change({ brokenSince: new Date(), brokenReason: 'invalid_grant', checkAt: new Date(0) })
    await check(isChecked, pipedrive)
    expect((await row()).brokenSince).toBeNull()
  })

  test.each(['refused', 'unreachable', 'nonsense'] as const)(
    'that cannot look (%s) breaks nothing, is made again after an hour, and says that events may be late the second time',
    async (kind) => {
      const shown = async () => Object(await user.connected(provider)).late
      const checkAgain = async () => {
        const { checkAt, brokenSince, askAgainAt } = await checkOld()
        expect([hoursUntil(checkAt), brokenSince, askAgainAt]).toEqual([1, null, null])
        return await shown()
      }
      webhooks.find.mockRejectedValue(failed('read', kind, 'invalid_grant'))
      expect(await checkAgain()).toBeUndefined()
      webhooks.find.mockResolvedValueOnce('made')
      await checkOld()
      expect(await checkAgain()).toBeUndefined()
      expect(await checkAgain()).toBe(late)
      const { lateSince } = await row()
      expect(await checkAgain()).toBe(late)
      expect((await row()).lateSince).toEqual(lateSince)
      // After no second look for long, nobody knows.
      await change({ lateSince: null })
      expect(await checkAgain()).toBeUndefined()
      await change({ lateSince: sql`${connections.lateSince} - interval '2 hours'` })
      expect(await shown()).toBe(late)
    },
  )

  test('that cannot make the missing webhook says at once that events may be late', async () => {
    webhooks.find.mockResolvedValue(undefined)
    webhooks.make.mockRejectedValue(failed('read', 'unreachable'))
    expect(hoursUntil((await checkOld()).checkAt)).toBe(1)
    expect(await user.connected(provider)).toMatchObject({ late })
  })

  test.each([
    [{ spent: 100, remaining: null }, late],
    [{ spent: 24_500, remaining: null }, lateOnShortDay],
    [{ spent: 24_500, remaining: 20_000 }, late],
    [{ spent: 100, remaining: 5_000 }, lateOnShortDay],
    [{ spent: 24_500, remaining: null, day: '2020-01-01' }, late],
    [{ spent: 24_500, remaining: null, accountId: '8' }, late],
  ])(
    'says until when the search waits for the CRM’s next day, if %j is left',
    async (budget, says) => {
      const day = new Date().toISOString().slice(0, 10)
      const values = { crm: provider, accountId: '7', day, most: 30_000, ...budget } as const
      await database.insert(crmBudgets).values(values)
      onTestFinished(async () => void (await database.delete(crmBudgets)))
      await change({ lateSince: new Date(0) })
      expect(await user.connected(provider)).toMatchObject({ late: says })
    },
  )
})

describe('a start', () => {
  const checkAtOf = async (grantId: string) => {
    const [only] = await database.select().from(connections).where(eq(connections.grantId, grantId))
    return only?.checkAt.getTime() ?? 0
  }
  beforeEach(async () => {
    await connect()
    await connect(openBrowser({ app, database }), '2')
  })

  test('has connections checked within an hour, because their subscriptions may have ended', async () => {
    const ofLately = Date.now() + 24 * hour - 50 * minute
    await change({ checkAt: new Date(ofLately), checkAsked: false })
    const isFirst = eq(connections.grantId, '7:1')
    await change({ checkAt: new Date(Date.now() + 22 * hour) }).where(isFirst)
    const minutesUntilDue = async () => ((await checkAtOf('7:1')) - Date.now()) / minute
    await check(async () => expect(await minutesUntilDue()).toBeLessThan(61))
    expect(await minutesUntilDue()).toBeGreaterThan(-1)
    // However often it starts.
    expect(await checkAtOf('7:2')).toBe(ofLately)
  })

  test('has those of a stand-in checked at once, because it has forgotten all subscriptions', async () => {
    await change(checked)
    webhooks.find.mockClear()
    const isDone = async () => expect(webhooks.find).toHaveBeenCalledTimes(2)
    await check(isDone, { ...crm, standIn: true })
  })
})

describe('an uninstall in the CRM', () => {
  const tell = (
    who: object,
    headers: Record<string, string> = { Authorization: secret },
    to: Pick<typeof app, 'request'> = app,
  ) =>
    to.request(`/${provider}/callback`, {
      method: 'DELETE',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(who),
    })
  const own = { company: '7', user: '1' }
  beforeEach(async () => {
    await connect()
    webhooks.find.mockResolvedValue('made')
    await change(checked)
  })
  const isAsked = async () => (await row()).checkAsked

  test('breaks the connection once a refresh proves it', async () => {
    calls.refresh.mockRejectedValue(failed('refresh', 'refused', 'invalid_grant'))
    expect((await tell(own)).status).toBe(204)
    await check(async () => expect((await row()).brokenSince).not.toBeNull())
    expect(await user.connected(provider)).toMatchObject({
      connected: false,
      reason: 'Pipedrive says that the access was revoked.',
    })
  })

  test('that is told late or again changes nothing after the user has connected again', async () => {
    await connect()
    await change(checked)
    for (let time = 1; time <= 2; time++) {
      expect((await tell(own)).status).toBe(204)
      expect(await isAsked()).toBe(true)
      await check(async () => expect(await isAsked()).toBe(false))
    }
    const { id: _, ...status } = Object(await user.connected(provider))
    expect(status).toEqual({ connected: true, account: 'acme.example' })
    expect(calls.revoke).not.toHaveBeenCalled()
  })

  test('during a check has no second process check it', async () => {
    const held = hold()
    webhooks.find.mockImplementation(async () => {
      await held.wait()
      return 'made'
    })
    await tell(own)
    const checking = check(isChecked)
    await held.reached
    await tell(own)
    const { checkAt } = await row()
    expect(checkAt > new Date()).toBe(true)
    held.release()
    await checking
  })

  test.each<[string, () => Promise<Response> | Response, string]>([
    [
      'with a wrong secret',
      () => tell(own, { Authorization: 'Basic app:other' }),
      '401 invalid_secret',
    ],
    ['without a secret', () => tell(own, {}), '401 invalid_secret'],
    ['with a large body', () => tell({ ...own, more: 'x'.repeat(16 * 1024) }), '413 too_large'],
  ])('%s is refused, and has nothing checked', async (_, send, code) => {
    expect(await refusal(await send())).toBe(code)
    expect(await isAsked()).toBe(false)
  })

  test('arrives at the address of a page, and the page still works', async () => {
    const folder = await newFolder()
    await writeFile(join(folder, 'index.html'), 'the page')
    const served = harness.appWith({ providers, dashboard: { folder, policy: '' } })
    const path = `/${provider}/callback`
    expect(await (await served.request(`${path}?code=1`)).text()).toBe('the page')
    expect(await refusal(await served.request(path, { method: 'DELETE' }))).toBe(
      '401 invalid_secret',
    )
    // A CRM that does not tell it has no such call.
    const others = await served.request('/slack/callback', { method: 'DELETE' })
    expect(await refusal(others)).toBe('405 method_not_allowed')
  })

  test('in its stand-in has the connection checked, too', async () => {
    const pipedrive = { ...crm, standIn: true }
    const played = harness.appWith({ providers: { ...providers, pipedrive } })
    await database.delete(users)
    await connect(openBrowser({ app: played, database }))
    await change(checked)
    // The one with a real identity has no connection.
    expect((await tell(own)).status).toBe(204)
    expect(await isAsked()).toBe(false)
    expect((await tell(own, undefined, played)).status).toBe(204)
    expect(await isAsked()).toBe(true)
  })

  test.each([
    { ...own, user: '2' },
    { ...own, company: '8' },
  ])('of somebody else (%j) has nothing of this user checked', async (who) => {
    expect((await tell(who)).status).toBe(204)
    expect(await isAsked()).toBe(false)
  })
})

describe('a disconnect', () => {
  beforeEach(async () => {
    await connect()
  })
  const used = () => calls.revoke.mock.calls.map(([{ accessToken }]) => accessToken)

  test('refreshes an expired token before it revokes, so that the webhook can be deleted', async () => {
    await user.disconnect(provider)
    expect(used()).toEqual(['first'])
    await connect()
    await change({ accessExpiresAt: new Date() })
    await user.disconnect(provider)
    expect(used()).toEqual(['first', 'refreshed 1'])
  })

  test('revokes although the token can no longer be refreshed', async () => {
    await change({ accessExpiresAt: new Date() })
    calls.refresh.mockRejectedValue(failed('refresh', 'unreachable'))
    expect((await user.disconnect(provider)).status).toBe(204)
    expect(used()).toEqual(['first'])
  })

  test('does not wait for long, because the dashboard waits', async () => {
    const held = hold()
    calls.revoke.mockImplementation(() => held.wait())
    expect((await user.disconnect(provider)).status).toBe(204)
    expect(calls.revoke).toHaveBeenCalledTimes(1)
    held.release()
  })

  test('revokes nothing if the user has connected again meanwhile', async () => {
    await change({ accessExpiresAt: new Date() })
    const held = hold()
    const refresh = calls.refresh.getMockImplementation()
    calls.refresh.mockImplementation(async (secrets) => {
      await held.wait()
      return (await refresh?.(secrets)) ?? Promise.reject(new Error('There is no refresh.'))
    })
    const disconnected = user.disconnect(provider)
    await held.reached
    expect((await connect()).status).toBe(204)
    held.release()
    expect((await disconnected).status).toBe(204)
    expect(calls.revoke).not.toHaveBeenCalled()
  })

  test('is no part of connecting again: the new connection has the same grant', async () => {
    expect((await connect()).status).toBe(204)
    // Also if the new one could not be stored.
    const row = await database.select().from(connections)
    calls.exchange.mockImplementationOnce(async () => ({ ...grantOf('1'), unusable: 'unusable' }))
    expect(await refusal(await connect())).toBe('502 exchange_refused')
    expect(await database.select().from(connections)).toEqual(row)
    expect(calls.revoke).not.toHaveBeenCalled()
    // Of somebody else's grant, nothing is left.
    calls.exchange.mockImplementationOnce(async () => ({ ...grantOf('3'), unusable: 'unusable' }))
    expect(await refusal(await connect())).toBe('502 exchange_refused')
    await vi.waitFor(() => expect(used()).toEqual(['first']), soon)
  })
})
