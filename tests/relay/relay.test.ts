import { and, eq, sql } from 'drizzle-orm'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { deleteOld } from '../../server/clean/deliveries.ts'
import type { OpenDatabase } from '../../server/database/open.ts'
import {
  channels,
  connections,
  dealEvents,
  deliveries,
  rules,
} from '../../server/database/schema.ts'
import { connectionStatus } from '../../server/people/connections.ts'
import { makeDue } from '../../server/relay/schedule/channels.ts'
import { replayDead } from '../../server/relay/show/operator.ts'
import { databaseKinds, openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { dealIn, shownIn, signedWebhook, stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside, usualStages } from './outside.ts'

const ends = ({ lines }: Backend) => lines.filter((line) => line.includes('"delivery dead"')).length

describe.each(databaseKinds)('on %s', (kind) => {
  let open: OpenDatabase
  let outside: Outside
  let backend: Backend
  // Each test has accounts and channels of its own on one database.
  let portal = 1000
  let channel = ''

  beforeAll(async () => {
    open = await openTestDatabase(kind)
    outside = await openOutside()
    backend = await startBackend(open, outside)
  })
  beforeEach(() => {
    portal += 1
    channel = `C${portal}`
  })
  afterEach(() => {
    outside.answerPost = () => undefined
    outside.answerRead = () => undefined
    outside.answerRefresh = () => undefined
    outside.stages = usualStages
    outside.deals.clear()
    outside.missing.clear()
    outside.merged.clear()
  })
  afterAll(async () => {
    await backend.stop()
    await open.close()
    await outside.close()
  })

  const posts = () => outside.posts.filter((post) => post.channel === channel)
  const calls = () => outside.calls.filter((call) => call.channel === channel)

  /** Slack refuses each message to this test's channel. */
  function refusePosts(error: string): void {
    outside.answerPost = (call) =>
      call.channel === channel
        ? { status: 200, body: JSON.stringify({ ok: false, error }) }
        : undefined
  }

  /** A message is dead at the first try. @returns what becomes of the connection to Slack. */
  async function statusAfterRefusal(error: string) {
    const userId = await backend.connect({ portal, channel })
    refusePosts(error)
    await backend.tell([stageChange(1, { portal })])
    await backend.settled()
    expect(calls()).toHaveLength(1)
    expect(await backend.outcomes(userId)).toEqual([['dead', error]])
    return await connectionStatus(backend, { userId, provider: 'slack' })
  }

  /** Slack answers only at `accept()`. `calling` resolves when the message has arrived. */
  function holdPost(): { calling: Promise<void>; accept: () => void } {
    const { promise: calling, resolve: started } = Promise.withResolvers<void>()
    const { promise: accepted, resolve } = Promise.withResolvers<undefined>()
    outside.answerPost = (call) => {
      if (call.channel !== channel) return undefined
      started()
      return accepted
    }
    return { calling, accept: () => resolve(undefined) }
  }

  /** Nothing is due in the channel, and no process works on it. */
  async function isIdle(id: string): Promise<boolean> {
    const [row] = await backend.database.select().from(channels).where(eq(channels.id, id))
    return row?.dueAt === null && row.leasedUntil === null
  }

  /** An event of a deal in this test's portal, stored without the inbox. @returns its id and time. */
  async function insertEvent(tx: Pick<typeof open.database, 'insert'>, dealId: string) {
    const [event] = await tx
      .insert(dealEvents)
      .values({
        key: `T1/${channel}`,
        crm: 'hubspot',
        accountId: String(portal),
        dealId,
        property: 'stage',
        value: 'next',
        occurredAt: new Date(),
      })
      .returning()
    if (event === undefined) throw new Error('No event was stored.')
    return { eventId: event.id, occurredAt: event.occurredAt }
  }

  test('a deal that changes its stage is announced in the channel', async () => {
    await backend.connect({ portal, channel })
    outside.deals.set('1', {
      name: 'Acme renewal',
      amount: '1200',
      currency: 'USD',
      history: [{ value: 'start', timestamp: '2020-01-01T00:00:00Z' }],
    })
    expect(await backend.tell([stageChange(1, { portal })])).toBe(204)
    await backend.settled()
    expect(posts().map(({ text }) => text)).toEqual([
      '🔔 Acme renewal moved to Proposal sent ($1,200)',
    ])
    expect(shownIn(posts()[0]?.blocks ?? '')[0]).toContain(
      `<https://app.hubspot.com/contacts/${portal}/record/0-3/1|Acme renewal>`,
    )
    expect(shownIn(posts()[0]?.blocks ?? '')[0]).toContain('Appointment → *Proposal sent*')
  })

  describe('in', () => {
    test('50 copies of one event at once are one message', async () => {
      await backend.connect({ portal, channel })
      const event = stageChange(2, { portal })
      const copies = Array.from({ length: 50 }, (_, at) => ({
        ...event,
        attemptNumber: at,
        eventId: at,
      }))
      const answers = await Promise.all(copies.map((copy) => backend.tell([copy])))
      expect(new Set(answers)).toEqual(new Set([204]))
      await backend.settled()
      expect(posts()).toHaveLength(1)
    })

    test('events that differ in any part of the key are each a delivery', async () => {
      const other = portal + 500_000
      // Without a rule nothing is sent, so the channel's pace of one message a second does not matter.
      const userId = await backend.connect({ portal, channel, ruleIds: [] })
      const otherUserId = await backend.connect({ portal: other, channel, ruleIds: [] })
      const at = Date.now()
      const event = stageChange(3, { portal, at })
      await backend.tell([
        event,
        event,
        { ...event, portalId: other },
        { ...event, subscriptionType: 'object.propertyChange', objectTypeId: '0-3' },
        { ...event, objectId: 4 },
        { ...event, propertyValue: 'w1' },
        { ...event, occurredAt: at + 1 },
      ])
      await backend.settled()
      expect(await backend.outcomes(userId)).toHaveLength(4)
      expect(await backend.outcomes(otherUserId)).toHaveLength(1)
    })

    test('unknown items in a signed body do not affect the others', async () => {
      await backend.connect({ portal, channel })
      const unknown = [null, 5, { subscriptionType: 'contact.creation' }, { portalId: portal }]
      expect(await backend.tell([...unknown, stageChange(5, { portal }), ...unknown])).toBe(204)
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([5])
    })

    test('events of a portal that no user has connected are acknowledged and dropped', async () => {
      expect(await backend.tell([stageChange(6, { portal })])).toBe(204)
      expect(
        await backend.database.$count(dealEvents, eq(dealEvents.accountId, String(portal))),
      ).toBe(0)
    })

    test('a webhook without a valid signature is refused before it is parsed', async () => {
      await backend.connect({ portal, channel })
      const signed = signedWebhook([stageChange(7, { portal })])
      for (const request of [
        { ...signed, headers: {} },
        { ...signed, body: signed.body.replace('"objectId":7', '"objectId":8') },
        { ...signed, body: 'no JSON' },
        { method: 'POST', body: '{' },
      ]) {
        expect((await backend.app.request('/webhooks/hubspot', request)).status).toBe(401)
      }
      // The address that counts is the configured one, query included.
      expect((await backend.app.request('/webhooks/hubspot?a=b', signed)).status).toBe(401)
      const proxied = await backend.app.request('http://10.0.0.7:8080/webhooks/hubspot', signed)
      expect(proxied.status).toBe(204)
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([7])
    })

    test('a body over 1 MiB is refused, one of 1 MiB is not', async () => {
      const padded = (bytes: number) => `[${' '.repeat(bytes - 2)}]`
      expect(await backend.tell(padded(1024 * 1024))).toBe(204)
      expect(await backend.tell(padded(1024 * 1024 + 1))).toBe(413)
    })

    test('the answer is 5xx only when nothing was stored, and the repeated event is then accepted', async () => {
      await backend.connect({ portal, channel })
      const event = stageChange(8, { portal })
      await backend.database.execute(
        sql`alter table channels add constraint none check (id <> ${sql.raw(`'T1/${channel}'`)})`,
      )
      expect(await backend.tell([event])).toBe(500)
      await backend.database.execute(sql`alter table channels drop constraint none`)
      expect(
        await backend.database.$count(dealEvents, eq(dealEvents.accountId, String(portal))),
      ).toBe(0)
      expect(await backend.tell([event])).toBe(204)
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([8])
    })

    // PGlite has one connection, so nothing can happen during a transaction there.
    test.runIf(kind === 'PostgreSQL')(
      'an event that is committed while its channel is being worked on is sent at once',
      async () => {
        const userId = await backend.connect({ portal, channel })
        await backend.tell([stageChange(1, { portal })])
        await backend.settled()
        const id = `T1/${channel}`
        await backend.database.transaction(async (tx) => {
          const { eventId, occurredAt } = await insertEvent(tx, '2')
          await tx.insert(deliveries).values({ eventId, userId, channel: id, occurredAt })
          // The relay works on the channel and cannot see what this transaction has added.
          await makeDue(backend.database, [id])
          backend.relay.wake()
          await vi.waitFor(async () => expect(await isIdle(id)).toBe(true), 5_000)
          await makeDue(tx, [id])
        })
        backend.relay.wake()
        await outside.accepted(() => posts().length === 2, 5_000)
      },
    )
  })

  describe('matched', () => {
    const all = ['deal-stage-changed', 'deal-closed', 'deal-stage-changed-orphan']

    test('one event that meets several rules is one message, worded by the rule of the highest rank', async () => {
      await backend.connect({ portal, channel, ruleIds: all })
      await backend.tell([stageChange(1, { portal, stage: 'w1' })])
      await backend.settled()
      expect(posts()).toHaveLength(1)
      expect(posts()[0]?.text).toContain('was won')
      expect(posts()[0]?.blocks).toContain('Notify me when a deal is signed or closed')
    })

    test('won and lost follow the stage’s metadata, whatever its id and label', async () => {
      await backend.connect({ portal, channel, ruleIds: ['deal-closed'] })
      outside.stages = [
        ...usualStages,
        {
          id: 'closedwon',
          label: 'Closed won',
          metadata: { isClosed: 'false', probability: '1.0' },
        },
        { id: 'x9', label: 'Open', metadata: { isClosed: 'true', probability: '0.0' } },
      ]
      const at = Date.now()
      await backend.tell([
        stageChange(1, { portal, stage: 'closedwon', at }),
        stageChange(2, { portal, stage: 'x9', at: at + 1 }),
      ])
      await backend.settled()
      expect(posts().map(({ text }) => text)).toEqual(['📉 Deal 2 was lost'])
    })

    test('a deal that has neither contact nor company is read again before it is sent', async () => {
      await backend.connect({ portal, channel, ruleIds: ['deal-stage-changed-orphan'] })
      // The one gets its link within the delay, the other never does.
      outside.deals.set('91', { linked: false })
      outside.deals.set('92', { linked: false })
      const looked = new Set<string>()
      outside.answerRead = (path) => {
        const id = path.match(/0-3\/(9[12])/)?.[1]
        if (id === undefined) return undefined
        if (id === '91' && looked.has(id)) outside.deals.set('91', { linked: true })
        looked.add(id)
        return undefined
      }
      await backend.tell([stageChange(91, { portal }), stageChange(92, { portal })])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([92])
      expect(posts()[0]?.blocks).toContain('without a contact or company')
      expect(outside.reads.filter((path) => path.includes('0-3/91'))).toHaveLength(2)
    })

    test('what a message says of a change is stored with it, cut as in the message', async () => {
      const userId = await backend.connect({ portal, channel })
      // PostgreSQL stores no NUL, and JSON has no lone surrogates.
      const name = `\u0000Acme \uD83D\n${'😀'.repeat(10_000)}`
      outside.deals.set('1', {
        name,
        history: [{ value: 'old', timestamp: '2020-01-01T00:00:00Z' }],
      })
      outside.stages = [
        ...usualStages,
        { id: 'old', label: 'x'.repeat(10_000), metadata: {} },
        { id: 'new', label: '<New> & ☎️', metadata: {} },
      ]
      await backend.tell([stageChange(1, { portal, stage: 'new' })])
      await backend.settled()
      expect(posts()).toHaveLength(1)
      expect(await backend.shown(userId)).toEqual([
        {
          ruleId: 'deal-stage-changed',
          dealName: `Acme \uFFFD ${'😀'.repeat(142)}…`,
          fromLabel: `${'x'.repeat(79)}…`,
          toLabel: '<New> & ☎️',
        },
      ])
    })

    test('what is known of a change without a message is stored, too', async () => {
      const ruleIds = ['deal-stage-changed', 'deal-closed']
      const userId = await backend.connect({ portal, channel, ruleIds })
      const at = Date.now() - 10_000
      // A new deal and a deleted one.
      outside.deals.set('1', {
        history: [{ value: 'next', timestamp: new Date(at).toISOString() }],
      })
      outside.missing.add('2')
      await backend.tell([1, 2].map((deal) => stageChange(deal, { portal, at: at + deal })))
      await backend.settled()
      outside.missing.clear()
      const nothing = { ruleId: null, dealName: null, fromLabel: null, toLabel: null }
      expect(await backend.outcomes(userId)).toEqual([
        ['ignored', 'no_rule'],
        ['ignored', 'no_such_deal'],
      ])
      expect(await backend.shown(userId)).toEqual([
        { ...nothing, dealName: 'Deal 1', toLabel: 'Proposal sent' },
        { ...nothing, toLabel: 'Proposal sent' },
      ])
    })

    test('the rules that count are those saved when the message is sent', async () => {
      const userId = await backend.connect({ portal, channel, ruleIds: ['deal-stage-changed'] })
      const tried = new Promise<void>((resolve) => {
        outside.answerPost = (call) => {
          if (call.channel !== channel) return undefined
          resolve()
          return { status: 500 }
        }
      })
      await backend.tell([stageChange(1, { portal })])
      await tried
      await backend.database
        .update(rules)
        .set({ ruleIds: ['deal-closed'] })
        .where(eq(rules.userId, userId))
      outside.answerPost = () => undefined
      await backend.settled()
      expect(posts()).toHaveLength(0)
      // The first try knew more than the last one.
      expect(await backend.shown(userId)).toMatchObject([
        { ruleId: 'deal-stage-changed', dealName: 'Deal 1', toLabel: 'Proposal sent' },
      ])
    })

    test('the deal’s owner is named, and left out where the app may not read owners', async () => {
      await backend.connect({ portal, channel })
      outside.deals.set('1', { ownerId: '71' })
      outside.deals.set('2', { ownerId: '72' })
      outside.answerRead = (path) =>
        path.endsWith('/owners/2026-03/71')
          ? { status: 200, body: { id: '71', firstName: 'Ada', lastName: 'Byron' } }
          : undefined
      const at = Date.now() - 10_000
      await backend.tell([stageChange(1, { portal, at }), stageChange(2, { portal, at: at + 1 })])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1, 2])
      expect(posts()[0]?.blocks).toContain('Owner: Ada Byron')
      expect(outside.reads.some((path) => path.endsWith('/owners/2026-03/72'))).toBe(true)
      expect(posts()[1]?.blocks).not.toContain('Owner')
    })

    test('an amount without a currency has the one of the account, if HubSpot tells it in time', async () => {
      await backend.connect({ portal, channel })
      const accountReads = () => outside.reads.filter((path) => path.includes('/account-info/'))
      const before = accountReads().length
      outside.deals.set('1', { amount: '1200', currency: 'USD' })
      outside.deals.set('2', { amount: null })
      outside.deals.set('3', { amount: '1200' })
      for (const deal of [1, 2]) await backend.tell([stageChange(deal, { portal })])
      await backend.settled()
      expect(accountReads()).toHaveLength(before)

      // A call that HubSpot refuses or does not answer costs only the currency.
      const answers = [
        { status: 403, body: { status: 'error', category: 'MISSING_SCOPES' } },
        { status: 500 },
        new Promise<undefined>(() => {}),
        undefined,
      ]
      const accounts = answers.map((answer) => ({ answer, portal: ++portal }))
      let askedAtMs = 0
      outside.answerRead = (path, token) => {
        if (!path.includes('/account-info/')) return undefined
        const answer = accounts.find((account) => token.endsWith(`-${account.portal}`))?.answer
        if (answer instanceof Promise) askedAtMs = performance.now()
        return answer
      }
      const users = await Promise.all(
        accounts.map(({ portal }) => backend.connect({ portal, channel: `C${portal}` })),
      )
      for (const stage of ['next', 'w1']) {
        for (const { portal } of accounts) await backend.tell([stageChange(3, { portal, stage })])
      }
      await backend.settled()
      const textsOf = ({ portal }: { portal: number }) =>
        outside.posts.filter((post) => post.channel === `C${portal}`).map(({ text }) => text)
      const inDigits = /Deal 3 .* \(1,200\)/
      expect(accounts.map(textsOf)).toEqual([
        ...answers
          .slice(1)
          .map(() => [expect.stringMatching(inDigits), expect.stringMatching(inDigits)]),
        [expect.stringContaining('(€1,200)'), expect.stringContaining('(€1,200)')],
      ])
      expect(accountReads()).toHaveLength(before + answers.length)
      // The call itself ends only after ten seconds.
      const unanswered = accounts.find(({ answer }) => answer instanceof Promise)
      const firstPost = outside.posts.find((post) => post.channel === `C${unanswered?.portal}`)
      expect((firstPost?.atMs ?? 0) - askedAtMs).toBeLessThan(9_000)
      for (const userId of users) {
        const status = await connectionStatus(backend, { userId, provider: 'hubspot' })
        expect(status).toMatchObject({ connected: true })
      }
    })

    test('a message does not wait for the name of an owner', async () => {
      await backend.connect({ portal, channel })
      outside.deals.set('1', { ownerId: '74' })
      outside.answerRead = (path) => (path.includes('/owners/') ? { status: 500 } : undefined)
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
      expect(posts()[0]?.blocks).not.toContain('Owner')
      expect(outside.reads.filter((path) => path.includes('/owners/2026-03/74'))).toHaveLength(1)
    })

    test('no rule, a new deal and an unknown deal send nothing', async () => {
      await backend.connect({ portal, channel, ruleIds: [] })
      await backend.connect({ portal, channel: `${channel}x` })
      const at = Date.now()
      outside.deals.set('1', {
        history: [{ value: 'next', timestamp: new Date(at).toISOString() }],
      })
      outside.missing.add('2')
      await backend.tell([stageChange(1, { portal, at }), stageChange(2, { portal, at })])
      await backend.settled()
      expect(outside.posts.filter((post) => post.channel.startsWith(channel))).toEqual([])
    })

    test('the message and the list link to the page of the deal that HubSpot names', async () => {
      const userId = await backend.connect({ portal, channel })
      const named = `https://app-na2.hubspot.com/contacts/${portal}/record/0-3/1`
      outside.deals.set('1', { url: named })
      outside.merged.set('2', '20')
      outside.deals.set('20', { url: 'https://phishing.example/contacts/1/record/0-3/20' })
      for (const deal of [1, 2]) await backend.tell([stageChange(deal, { portal })])
      await backend.settled()
      const usual = `https://app.hubspot.com/contacts/${portal}/record/0-3/20`
      expect(posts().map(({ blocks }) => /"url":"([^"]*)/.exec(blocks)?.[1])).toEqual([
        named,
        usual,
      ])
      const activity = await (await backend.call(userId, '/api/notifications/activity')).json()
      expect(activity.items).toMatchObject([{ deal: { url: usual } }, { deal: { url: named } }])
    })

    test('a 404 in which HubSpot does not say that the deal is gone is tried again', async () => {
      const userId = await backend.connect({ portal, channel })
      const answers = [
        { status: 404, body: 'No such page' },
        { status: 404, body: { status: 'error' } },
      ]
      outside.answerRead = (path) => (path.includes('0-3/1?') ? answers.shift() : undefined)
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(await backend.outcomes(userId)).toEqual([['sent', null]])
      expect(answers).toEqual([])
    })

    test('a deal that was merged is announced as the deal that has replaced it', async () => {
      const ruleIds = ['deal-stage-changed', 'deal-stage-changed-orphan']
      await backend.connect({ portal, channel, ruleIds })
      outside.merged.set('1', '10')
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([10])
      expect(posts()[0]?.blocks).toContain(`/contacts/${portal}/record/0-3/10","text":"Deal 10"`)
      // The links of the merged deal are found only under its new id.
      expect(posts()[0]?.blocks).not.toContain('without a contact or company')
    })

    test('the pipelines are read once, and again for a stage that is not among them', async () => {
      await backend.connect({ portal, channel })
      const reads = () => outside.reads.filter((path) => path.includes('pipelines')).length
      const before = reads()
      await backend.tell([stageChange(1, { portal }), stageChange(2, { portal })])
      await backend.settled()
      expect(reads()).toBe(before + 1)
      outside.stages = [...usualStages, { id: 'brand-new', label: 'Brand new', metadata: {} }]
      await backend.tell([stageChange(3, { portal, stage: 'brand-new' })])
      await backend.settled()
      expect(reads()).toBe(before + 2)
      expect(posts().at(-1)?.text).toBe('🔔 Deal 3 moved to Brand new')
    })

    test('a permission that one user lacks breaks no connection of the account’s other users', async () => {
      const reading = Promise.withResolvers<void>()
      const refusing = Promise.withResolvers<{ status: number; body: object }>()
      outside.answerRead = (path, token) => {
        if (!path.includes('/pipelines/') || token !== 'ada-secret') return undefined
        reading.resolve()
        return refusing.promise
      }
      const ada = await backend.connect({ portal, channel: 'C-ada', accessToken: 'ada-secret' })
      await backend.tell([stageChange(1, { portal })])
      await reading.promise
      const bob = await backend.connect({ portal, channel, accessToken: 'bob-secret' })
      await backend.tell([stageChange(2, { portal })])
      // Bob's message waits for the stages that Ada's token reads.
      await vi.waitFor(async () => {
        const [row] = await open.database
          .select()
          .from(channels)
          .where(eq(channels.id, `T1/${channel}`))
        expect(row?.leasedUntil).not.toBeNull()
      })
      await open.database.execute(sql`select`)
      refusing.resolve({ status: 403, body: { status: 'error', category: 'MISSING_SCOPES' } })
      await backend.settled()

      expect(await backend.outcomes(bob)).toEqual([['sent', null]])
      expect(await backend.outcomes(ada)).toEqual([
        ['dead', 'MISSING_SCOPES'],
        ['dead', 'MISSING_SCOPES'],
      ])
      const connected = (userId: string) =>
        connectionStatus(backend, { userId, provider: 'hubspot' })
      expect(await connected(bob)).toMatchObject({ connected: true })
      expect(await connected(ada)).toMatchObject({ connected: false })
    })

    test('nothing is sent after a disconnect was answered, not even what was about to be', async () => {
      const userId = await backend.connect({ portal, channel })
      let answer: ((value: undefined) => void) | undefined
      const reading = new Promise<void>((started) => {
        outside.answerRead = (path) => {
          if (!path.includes('0-3/')) return undefined
          started()
          return new Promise<undefined>((resolve) => {
            answer = resolve
          })
        }
      })
      await backend.tell([stageChange(1, { portal }), stageChange(2, { portal })])
      await reading
      await backend.disconnect(userId, 'slack')
      answer?.(undefined)
      await backend.settled()
      expect(calls()).toEqual([])
    })

    test('a disconnect waits for the message that is being sent', async () => {
      const userId = await backend.connect({ portal, channel })
      const { calling, accept } = holdPost()
      await backend.tell([stageChange(1, { portal }), stageChange(2, { portal })])
      await calling
      const disconnecting = backend.disconnect(userId, 'hubspot')
      const first = await Promise.race([
        disconnecting.then(() => 'disconnected'),
        vi.waitFor(async () => {
          const own = await backend.database
            .select()
            .from(connections)
            .where(eq(connections.userId, userId))
          expect(own).toHaveLength(1)
          return 'removed'
        }),
      ])
      expect(first).toBe('removed')
      accept()
      await disconnecting
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
    })

    test('a second disconnect waits as the first does', async () => {
      const userId = await backend.connect({ portal, channel })
      const { calling, accept } = holdPost()
      await backend.tell([stageChange(1, { portal })])
      await calling
      const first = backend.disconnect(userId, 'hubspot')
      await vi.waitFor(async () =>
        expect(await backend.database.$count(connections, eq(connections.userId, userId))).toBe(1),
      )
      let isAnswered = false
      const second = backend.disconnect(userId, 'hubspot').then(() => {
        isAnswered = true
      })
      // Many more queries than the second takes to find nothing to remove.
      for (let n = 0; n < 20; n++) await backend.database.$count(connections)
      expect(isAnswered).toBe(false)
      accept()
      await Promise.all([first, second])
    })

    test('an access token is refreshed before it ends, once for all that need it', async () => {
      await backend.connect({ portal, channel, accessEndsInMs: 30_000 })
      const tokens: string[] = []
      outside.answerRead = (_, token) => {
        tokens.push(token)
        return undefined
      }
      await backend.tell([stageChange(1, { portal }), stageChange(2, { portal })])
      await backend.settled()
      expect(posts()).toHaveLength(2)
      expect(outside.refreshes.filter((token) => token.endsWith(`-${portal}`))).toHaveLength(1)
      expect(tokens).not.toContain(`hubspot-access-secret-${portal}`)
    })

    test('after a 401, the token is refreshed once and the read tried again', async () => {
      const userId = await backend.connect({ portal, channel })
      outside.answerRead = (_, token) =>
        token === `hubspot-access-secret-${portal}`
          ? { status: 401, body: { status: 'error', category: 'INVALID_AUTHENTICATION' } }
          : undefined
      await backend.tell([stageChange(1, { portal }), stageChange(2, { portal })])
      await backend.settled()
      expect(outside.refreshes.filter((token) => token.endsWith(`-${portal}`))).toHaveLength(1)
      expect(posts().map(dealIn).sort()).toEqual([1, 2])
      expect(await connectionStatus(backend, { userId, provider: 'hubspot' })).toMatchObject({
        connected: true,
      })
    })

    test('401 after 401 breaks nothing while HubSpot accepts the refresh', async () => {
      const userId = await backend.connect({ portal, channel })
      let refusals = 5
      outside.answerRead = () =>
        refusals-- > 0
          ? { status: 401, body: { status: 'error', category: 'INVALID_AUTHENTICATION' } }
          : undefined
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
      // Each try refreshes once.
      expect(outside.refreshes.filter((token) => token.endsWith(`-${portal}`))).toHaveLength(3)
      expect(await connectionStatus(backend, { userId, provider: 'hubspot' })).toMatchObject({
        connected: true,
      })
    })

    test('an account that HubSpot moves is waited for, and no try counts', async () => {
      const userId = await backend.connect({ portal, channel })
      const answers = [477, 429].map((status) => ({ status, headers: { 'Retry-After': '1' } }))
      outside.answerRead = (path) => (path.includes('0-3/1?') ? answers.shift() : undefined)
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(answers).toEqual([])
      expect(posts().map(dealIn)).toEqual([1])
      const [delivery] = await backend.database
        .select()
        .from(deliveries)
        .where(eq(deliveries.userId, userId))
      // Only the message itself.
      expect(delivery?.attempts).toBe(1)
    })

    test('owners are not asked for if the account did not grant it', async () => {
      await backend.connect({ portal, channel, accessEndsInMs: 0 })
      const { scopes } = outside
      outside.scopes = ['oauth', 'crm.objects.deals.read']
      outside.deals.set('1', { ownerId: '73' })
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      outside.scopes = scopes
      expect(posts().map(dealIn)).toEqual([1])
      expect(outside.reads.filter((path) => path.includes('/owners/2026-03/73'))).toEqual([])
    })

    test('a 401 breaks the connection only if HubSpot also refuses the refresh', async () => {
      const userId = await backend.connect({ portal, channel })
      outside.answerRead = () => ({ status: 401, body: { category: 'INVALID_AUTHENTICATION' } })
      outside.answerRefresh = () => ({ status: 400, body: { status: 'BAD_REFRESH_TOKEN' } })
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(posts()).toEqual([])
      expect(await connectionStatus(backend, { userId, provider: 'hubspot' })).toMatchObject({
        connected: false,
        reason: expect.stringContaining('BAD_REFRESH_TOKEN'),
      })
    })

    test('a refresh that HubSpot refuses breaks the connection; one that fails otherwise does not', async () => {
      const userId = await backend.connect({ portal, channel, accessEndsInMs: 0 })
      const badSecret = { error: 'invalid_client', status: 'BAD_CLIENT_SECRET' }
      const answers = [
        { status: 503, body: {} },
        { status: 408, body: {} },
        { status: 403, body: '<html>' },
        // The operator's mistake, which is no account's.
        { status: 401, body: badSecret },
        { status: 400, body: { error: 'invalid_grant', status: 'BAD_REFRESH_TOKEN' } },
      ]
      outside.answerRefresh = () => answers.shift()
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(answers).toEqual([])
      expect(await backend.outcomes(userId)).toEqual([['dead', 'BAD_REFRESH_TOKEN']])
      expect(await connectionStatus(backend, { userId, provider: 'hubspot' })).toEqual({
        connected: false,
        account: 'acme.example',
        reason: 'HubSpot says that the access was revoked (BAD_REFRESH_TOKEN).',
        since: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      })
      // The operator finds the cause in the log.
      expect(backend.lines.join('\n')).toContain('hubspot_BAD_CLIENT_SECRET')
    })

    test('a user who may not read deals learns it from the first refusal', async () => {
      const refusals = {
        USER_DOES_NOT_HAVE_PERMISSIONS: {
          message: 'the person who connected it may not read deals. Connect HubSpot again',
          connection:
            'HubSpot says that the person who connected it may not read deals (USER_DOES_NOT_HAVE_PERMISSIONS).',
        },
        // A code that this server does not know.
        NO_LONGER_ALLOWED: {
          message: 'HubSpot answered with an error (NO_LONGER_ALLOWED)',
          connection:
            'HubSpot says that it no longer accepts this connection (hubspot_NO_LONGER_ALLOWED).',
        },
      }
      for (const [category, words] of Object.entries(refusals)) {
        portal += 1
        const userId = await backend.connect({ portal, channel: `C${portal}` })
        const body = { status: 'error', category, message: 'Forbidden', correlationId: 'c' }
        let reads = 0
        outside.answerRead = (path) => {
          if (!path.includes('0-3/1?')) return undefined
          reads++
          return { status: 403, body }
        }
        await backend.tell([stageChange(1, { portal })])
        await backend.settled()
        expect(reads).toBe(1)
        const activity = await (await backend.call(userId, '/api/notifications/activity')).json()
        expect(activity.items).toMatchObject([{ state: 'failed', reason: words.message }])
        expect(await connectionStatus(backend, { userId, provider: 'hubspot' })).toMatchObject({
          connected: false,
          reason: words.connection,
        })
      }
    })

    test('a read that HubSpot limits or fails is tried again', async () => {
      await backend.connect({ portal, channel })
      const failures = [
        { status: 500 },
        { status: 429, headers: { 'Retry-After': '1' } },
        { status: 502 },
        // Neither says anything of the connection.
        { status: 400, body: { status: 'error', category: 'VALIDATION_ERROR' } },
        { status: 423 },
      ]
      outside.answerRead = (path) => (path.includes('0-3/1?') ? failures.shift() : undefined)
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(failures).toEqual([])
      expect(posts().map(dealIn)).toEqual([1])
    })

    test('an internal error for one user does not hold up another', async () => {
      const unlucky = await backend.connect({ portal, channel })
      await backend.connect({ portal: portal * 100, channel })
      await backend.database
        .update(connections)
        .set({ secrets: 'unreadable' })
        .where(eq(connections.userId, unlucky))
      const at = Date.now() - 10_000
      await backend.tell([
        stageChange(1, { portal, at }),
        stageChange(2, { portal: portal * 100, at: at + 1 }),
      ])
      await outside.accepted((all) => all.some((post) => post.channel === channel))
      expect(posts().map(dealIn)).toEqual([2])
      expect(await backend.outcomes(unlucky)).toEqual([['pending', 'internal_error']])
      expect(backend.lines.join('\n')).toContain('"delivery failed"')
      await backend.disconnect(unlucky, 'slack')
    })
  })

  describe('out', () => {
    test('in order of occurrence, one message a second for a channel', async () => {
      await backend.connect({ portal, channel })
      const at = Date.now() - 10_000
      const events = [3, 1, 4, 2].map((n) => stageChange(n, { portal, at: at + n }))
      await backend.tell(events)
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1, 2, 3, 4])
      const gaps = posts()
        .map(({ atMs }, n) => atMs - (posts()[n - 1]?.atMs ?? 0))
        .slice(1)
      for (const gap of gaps) expect(gap).toBeGreaterThanOrEqual(1000)
    })

    test('two users of one channel share its pace, and get one message for one event', async () => {
      await backend.connect({ portal, channel })
      await backend.connect({ portal, channel })
      await backend.tell([stageChange(1, { portal }), stageChange(2, { portal })])
      await backend.settled()
      expect(posts().map(dealIn).sort()).toEqual([1, 2])
      expect((posts()[1]?.atMs ?? 0) - (posts()[0]?.atMs ?? 0)).toBeGreaterThanOrEqual(1000)
    })

    test('if a process dies while it sends an event, the delivery of another user of the channel is sent', async () => {
      const dying = await backend.connect({ portal, channel })
      const waiting = await backend.connect({ portal, channel })
      const id = `T1/${channel}`
      await backend.database.transaction(async (tx) => {
        const { eventId, occurredAt } = await insertEvent(tx, '1')
        const sendingUntil = sql`now() + interval '2 seconds'`
        await tx.insert(deliveries).values([
          { eventId, userId: dying, channel: id, occurredAt, sendingUntil },
          { eventId, userId: waiting, channel: id, occurredAt },
        ])
        await tx.delete(rules).where(eq(rules.userId, dying))
        await makeDue(tx, [id])
      })
      backend.relay.wake()
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
      expect(await backend.outcomes(waiting)).toEqual([['sent', null]])
    })

    test('a message that Slack accepted is not sent again when this cannot be recorded', async () => {
      const userId = await backend.connect({ portal, channel })
      const refuse = `refuse_${portal}`
      await backend.database.execute(
        sql.raw(`create function ${refuse}() returns trigger language plpgsql
                 as 'begin raise exception ''not now''; end'`),
      )
      await backend.database.execute(
        sql.raw(`create trigger ${refuse} before update on deliveries for each row
                 when (new.state = 'sent') execute function ${refuse}()`),
      )
      await backend.tell([stageChange(1, { portal })])
      const notNoted = () =>
        backend.lines.filter((line) => line.includes('"delivery not noted"')).length
      await vi.waitFor(() => expect(notNoted()).toBeGreaterThan(2), 10_000)
      await backend.database.execute(sql.raw(`drop function ${refuse} cascade`))
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
      expect(await backend.outcomes(userId)).toEqual([['sent', null]])
    })

    test('500 twice, then 200: one message', async () => {
      await backend.connect({ portal, channel })
      let failures = 2
      outside.answerPost = (call) =>
        call.channel === channel && failures-- > 0 ? { status: 500 } : undefined
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(calls()).toHaveLength(3)
      expect(posts()).toHaveLength(1)
    })

    test('429 with Retry-After 2: the message is tried again after two seconds', async () => {
      await backend.connect({ portal, channel })
      let limited: number | undefined
      outside.answerPost = (call) => {
        if (call.channel !== channel || limited !== undefined) return undefined
        limited = call.atMs
        return { status: 429, headers: { 'Retry-After': '2' } }
      }
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect((posts()[0]?.atMs ?? 0) - (limited ?? 0)).toBeGreaterThanOrEqual(2000)
      expect(calls()).toHaveLength(2)
    })

    test('a channel that must wait for an hour holds up no other workspace', async () => {
      const calm = `${channel}x`
      const limited = await backend.connect({ portal, channel })
      await backend.connect({ portal: portal + 500_000, channel: calm, team: 'T2' })
      outside.answerPost = (call) =>
        call.channel === channel ? { status: 429, headers: { 'Retry-After': '3600' } } : undefined
      await backend.tell([stageChange(1, { portal })])
      await vi.waitFor(() => expect(calls()).toHaveLength(1), 20_000)
      await backend.tell([stageChange(2, { portal: portal + 500_000 })])
      await outside.accepted((all) => all.some((post) => post.channel === calm))
      expect(posts()).toEqual([])
      await backend.disconnect(limited, 'slack')
    })

    test('while a channel must wait, HubSpot is not read for it', async () => {
      const userId = await backend.connect({ portal, channel })
      const id = `T1/${channel}`
      const inAnHour = new Date(Date.now() + 3_600_000)
      await backend.database.insert(channels).values({ id, nextAt: inAnHour })
      const tokens: string[] = []
      outside.answerRead = (_, token) => {
        tokens.push(token)
        return undefined
      }
      await backend.tell([stageChange(1, { portal })])
      await vi.waitFor(async () => {
        const [row] = await backend.database.select().from(channels).where(eq(channels.id, id))
        expect(row?.dueAt?.getTime()).toBeGreaterThan(Date.now() + 3_500_000)
      }, 5_000)
      expect(tokens.filter((token) => token.endsWith(`-${portal}`))).toEqual([])
      await backend.disconnect(userId, 'slack')
    })

    test('the backlog of a broken connection ends in a few statements, and not one by one', async () => {
      const userId = await backend.connect({ portal, channel })
      const id = `T1/${channel}`
      await backend.database
        .update(connections)
        .set({ brokenReason: 'token_revoked', brokenSince: new Date() })
        .where(and(eq(connections.userId, userId), eq(connections.provider, 'slack')))
      const at = Date.now() - 100_000
      const before = ends(backend)
      for (let n = 0; n < 6; n++) {
        await backend.tell(
          Array.from({ length: 100 }, (_, m) => stageChange(n * 100 + m, { portal, at: at + m })),
        )
      }
      await backend.settled()
      expect(new Set((await backend.outcomes(userId)).map(String))).toEqual(
        new Set(['dead,token_revoked']),
      )
      expect(await backend.outcomes(userId)).toHaveLength(600)
      expect(ends(backend) - before).toBeLessThan(20)
      await vi.waitFor(async () => expect(await isIdle(id)).toBe(true), 5_000)
    })

    test('a call that Slack does not answer holds up no other channel', async () => {
      const calm = `${channel}x`
      await backend.connect({ portal, channel })
      await backend.connect({ portal: portal + 500_000, channel: calm })
      const { calling, accept } = holdPost()
      await backend.tell([stageChange(1, { portal })])
      await calling
      await backend.tell([stageChange(2, { portal: portal + 500_000 })])
      await outside.accepted((all) => all.some((post) => post.channel === calm))
      expect(posts()).toEqual([])
      accept()
      await backend.settled()
      expect(posts()).toHaveLength(1)
    })

    // tests/relay/providers.test.ts has every code of Slack.
    test('a refusal of the connection: the message is dead at the first try, and the status says why', async () => {
      expect(await statusAfterRefusal('token_revoked')).toMatchObject({
        connected: false,
        account: 'Workspace T1',
        channel: `#${channel}`,
        reason: expect.stringMatching(/^Slack says that .+ \(token_revoked\)\.$/),
      })
    })

    test('a refusal of the message: it is dead at the first try, and the connection is not', async () => {
      expect(await statusAfterRefusal('invalid_blocks')).toMatchObject({ connected: true })
    })

    test('a page that a proxy sends in Slack’s place is no refusal: the message is tried again', async () => {
      const userId = await backend.connect({ portal, channel })
      let pages = 1
      outside.answerPost = (call) =>
        call.channel === channel && pages-- > 0
          ? { status: 200, body: '<html>Please log in</html>' }
          : undefined
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(posts()).toHaveLength(1)
      expect(await backend.outcomes(userId)).toEqual([['sent', null]])
    })

    test('a channel that the bot is no member of is reached by the address that Slack gave for it', async () => {
      const userId = await backend.connect({ portal, channel, webhook: true })
      refusePosts('not_in_channel')
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      expect(posts().map(({ token }) => token)).toEqual(['webhook'])
      expect(await backend.outcomes(userId)).toEqual([['sent', null]])
    })

    test('a token revoked in the middle: what is left is dead, and goes out on replay', async () => {
      const userId = await backend.connect({ portal, channel })
      let taken = 0
      outside.answerPost = (call) =>
        call.channel === channel && ++taken > 1
          ? { status: 200, body: JSON.stringify({ ok: false, error: 'token_revoked' }) }
          : undefined
      const at = Date.now()
      await backend.tell([1, 2, 3].map((n) => stageChange(n, { portal, at: at + n })))
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
      expect(taken).toBe(2)
      expect((await backend.outcomes(userId)).map(([state]) => state)).toEqual([
        'sent',
        'dead',
        'dead',
      ])

      outside.answerPost = () => undefined
      await backend.connectAgain(userId, { portal, channel })
      expect(await connectionStatus(backend, { userId, provider: 'slack' })).toMatchObject({
        connected: true,
      })
      await replayDead(backend.database)
      backend.relay.wake()
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1, 2, 3])
    })

    test('what a disconnect ended stays ended: a replay leaves it out', async () => {
      const userId = await backend.connect({ portal, channel })
      outside.answerPost = (call) => (call.channel === channel ? { status: 500 } : undefined)
      await backend.tell([stageChange(1, { portal })])
      await vi.waitFor(() => expect(calls().length).toBeGreaterThan(0))
      await backend.disconnect(userId, 'slack')
      outside.answerPost = () => undefined
      await backend.connectAgain(userId, { portal, channel })
      await replayDead(backend.database)
      backend.relay.wake()
      await backend.settled()
      expect(posts()).toEqual([])
      expect(await backend.outcomes(userId)).toEqual([['dead', 'disconnected']])
    })

    test('after thirty days an event is forgotten, a dead one too, and one that is pending is not', async () => {
      const events = () =>
        backend.database.$count(dealEvents, eq(dealEvents.accountId, String(portal)))
      const userId = await backend.connect({ portal, channel })
      refusePosts('invalid_blocks')
      await backend.tell([stageChange(1, { portal })])
      await backend.settled()
      outside.answerPost = (call) => (call.channel === channel ? { status: 500 } : undefined)
      await backend.tell([stageChange(2, { portal })])
      expect((await backend.outcomes(userId)).map(([state]) => state)).toEqual(['dead', 'pending'])
      const age = async (days: number) => {
        await backend.database
          .update(dealEvents)
          .set({ receivedAt: new Date(Date.now() - days * 86_400_000) })
          .where(eq(dealEvents.accountId, String(portal)))
        await deleteOld(backend.database)
      }
      await age(29)
      expect(await events()).toBe(2)
      await age(31)
      expect(await events()).toBe(1)
      await backend.disconnect(userId, 'slack')
      await deleteOld(backend.database)
      expect(await events()).toBe(0)
    })

    test('what is pending follows the user to another channel', async () => {
      const userId = await backend.connect({ portal, channel })
      outside.answerPost = (call) => (call.channel === channel ? { status: 500 } : undefined)
      await backend.tell([stageChange(1, { portal })])
      await vi.waitFor(() => expect(calls().length).toBeGreaterThan(0))
      await backend.connectAgain(userId, { portal, channel: `${channel}x` })
      await backend.settled()
      expect(outside.posts.filter((post) => post.channel === `${channel}x`).map(dealIn)).toEqual([
        1,
      ])
    })

    test('a message that was prepared for the former channel goes to the new one, with the new token', async () => {
      const userId = await backend.connect({ portal, channel })
      const reading = Promise.withResolvers<void>()
      const replaced = Promise.withResolvers<void>()
      outside.answerRead = async (path) => {
        if (path.includes('/0-3/')) {
          reading.resolve()
          await replaced.promise
        }
        return undefined
      }
      await backend.tell([stageChange(1, { portal })])
      await reading.promise
      await backend.connectAgain(userId, { portal, team: 'T2', channel: `${channel}x` })
      replaced.resolve()
      await backend.settled()
      const sent = outside.posts.filter((post) => post.channel.startsWith(channel))
      expect(sent.map(({ channel, token }) => [channel, token])).toEqual([
        [`${channel}x`, 'xoxb-secret-T2'],
      ])
    })
  })

  test('no token, secret or message text is in a log', async () => {
    const logs = backend.lines.join('\n')
    expect(logs).toContain('delivery sent')
    expect(logs).not.toMatch(/secret|Deal \d|Acme|Proposal|xoxb/)
  })
})
