import { and, eq } from 'drizzle-orm'
import { describe, expect, test, vi } from 'vitest'
import { deleteOld } from '../../server/clean/deliveries.ts'
import { connections, dealEvents, deliveries } from '../../server/database/schema.ts'
import { testMessage } from '../../server/relay/write/message.ts'
import { databaseKinds } from '../database.ts'
import { dealIn, shownIn, signedWebhook, stageChange } from './hubspot-webhook.ts'
import { usualStages } from './outside.ts'
import {
  answerPosts,
  backend,
  calls,
  changes,
  channel,
  connect,
  holdChannel,
  holdPost,
  outside,
  portal,
  posts,
  range,
  refusePosts,
  shareBackend,
  storedChannel,
  team,
  tell,
} from './shared.ts'

describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind)
  // Both databases get the same statements. What is not about them is tested on one.
  const describeOnce = describe.runIf(kind === 'PGlite')

  const ofAccount = () => eq(dealEvents.accountId, String(portal))
  const eventsStored = () => backend.database.$count(dealEvents, ofAccount())

  test('a deal that changes its stage is announced in the channel', async () => {
    const userId = await connect()
    const url = `https://app-na2.hubspot.com/contacts/${portal}/record/0-3/1`
    outside.deals.set('1', {
      name: 'Acme renewal',
      url,
      amount: '1200',
      currency: 'USD',
      history: [{ value: 'start', timestamp: '2020-01-01T00:00:00Z' }],
    })
    expect(await tell([1])).toBe(204)
    await backend.settled()
    expect(posts().map(({ text }) => text)).toEqual([
      '🔔 Acme renewal moved to Proposal sent ($1,200)',
    ])
    const [shown] = shownIn(posts()[0]?.blocks ?? '')
    expect(shown).toContain(`<${url}|Acme renewal>`)
    expect(shown).toContain('Appointment → *Proposal sent*')
    const { items } = await backend.read(userId, 'notifications/activity')
    expect(items).toMatchObject([{ deal: { url } }])
  })

  test('events of a portal that no user has connected are acknowledged and dropped', async () => {
    expect(await tell([6])).toBe(204)
    expect(await eventsStored()).toBe(0)
  })

  test('a webhook without a valid signature is refused before it is parsed', async () => {
    await connect()
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

  describeOnce('matched', () => {
    test('what a message says of a change is stored with it, cut as in the message', async () => {
      const userId = await connect()
      // PostgreSQL stores no NUL, and JSON has no lone surrogates.
      const name = `\u0000Acme \uD83D\n${'😀'.repeat(10_000)}`
      const history = [{ value: 'old', timestamp: '2020-01-01T00:00:00Z' }]
      outside.deals.set('1', { name, history })
      outside.stages = [
        ...usualStages,
        { id: 'old', label: 'x'.repeat(10_000), metadata: {} },
        { id: 'new', label: '<New> & ☎️', metadata: {} },
      ]
      await tell([1], 'new')
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

    test('a new deal and an unknown deal send nothing, and what is known of them is stored', async () => {
      const userId = await connect({ ruleIds: ['deal-stage-changed', 'deal-closed'] })
      const [created, deleted] = changes([1, 2])
      const timestamp = new Date(created?.occurredAt ?? 0).toISOString()
      outside.deals.set('1', { history: [{ value: 'next', timestamp }] })
      outside.missing.add('2')
      await backend.tell([created, deleted])
      await backend.settled()
      expect(posts()).toEqual([])
      expect(await backend.outcomes(userId)).toEqual([
        ['ignored', 'no_rule'],
        ['ignored', 'no_such_deal'],
      ])
      const known = { ruleId: null, dealName: null, fromLabel: null, toLabel: 'Proposal sent' }
      expect(await backend.shown(userId)).toEqual([{ ...known, dealName: 'Deal 1' }, known])
    })

    test('the rules that count are those saved when the message is sent', async () => {
      const userId = await connect()
      const { promise, resolve: answer } = Promise.withResolvers<{ status: number }>()
      answerPosts(() => promise)
      await tell([1])
      await vi.waitFor(() => expect(calls().length).toBeGreaterThan(0))
      await backend.tick(userId, 'deal-closed')
      answerPosts(() => undefined)
      answer({ status: 500 })
      await backend.settled()
      expect(posts()).toHaveLength(0)
      // The first try knew more than the last one.
      const first = { ruleId: 'deal-stage-changed', dealName: 'Deal 1', toLabel: 'Proposal sent' }
      expect(await backend.shown(userId)).toMatchObject([first])
    })

    test('the deal’s owner is named, and left out if HubSpot refuses or fails', async () => {
      await connect()
      for (const deal of [1, 2, 3]) outside.deals.set(String(deal), { ownerId: `7${deal}` })
      const ada = { status: 200, body: { id: '71', firstName: 'Ada', lastName: 'Byron' } }
      const answers = new Map<string, { status: number; body?: object }>([
        ['71', ada],
        ['73', { status: 500 }],
      ])
      outside.answerRead = (path) => answers.get(path.split('/owners/2026-03/')[1] ?? '')
      // The refusal counts for all owners of the account, so it comes last.
      await tell([1, 3, 2])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1, 3, 2])
      expect(posts()[0]?.blocks).toContain('Owner: Ada Byron')
      for (const { blocks } of posts().slice(1)) expect(blocks).not.toContain('Owner')
      const owners = outside.reads.filter((path) => path.includes('/owners/'))
      expect(owners.map((path) => path.slice(-2))).toEqual(['71', '73', '72'])
    })

    test('each disconnect waits for the message that is being sent, and nothing follows it', async () => {
      const userId = await connect()
      const { calling, accept } = holdPost()
      await tell([1, 2])
      await calling
      let answered = 0
      const disconnect = async () => {
        await backend.disconnect(userId, 'hubspot')
        answered++
      }
      const first = disconnect()
      const left = () => backend.database.$count(connections, eq(connections.userId, userId))
      await vi.waitFor(async () => expect(await left()).toBe(1))
      const second = disconnect()
      // Many more queries than the second takes to find nothing to remove.
      for (let n = 0; n < 20; n++) await left()
      expect(answered).toBe(0)
      accept()
      await Promise.all([first, second])
      await backend.settled()
      expect(posts().map(dealIn)).toEqual([1])
    })
  })

  describeOnce('the access to HubSpot', () => {
    const known = 'the person who connected it may not read deals'
    // A code that this server does not know.
    const unknown = 'HubSpot no longer accepts the connection (NO_LONGER_ALLOWED)'
    test.each([
      ['USER_DOES_NOT_HAVE_PERMISSIONS', known, known],
      ['NO_LONGER_ALLOWED', unknown, 'it no longer accepts this connection'],
    ])('is broken by the second refusal of a read: %s', async (category, ofMessage, ofStatus) => {
      const userId = await connect()
      const refused = { status: 403, body: { status: 'error', category } }
      outside.answerRead = (path) => (path.includes('0-3/1?') ? refused : undefined)
      await tell([1])
      await backend.settled()
      expect(outside.reads.filter((path) => path.includes('0-3/1?'))).toHaveLength(2)
      const failed = { state: 'failed', reason: `${ofMessage}. Connect HubSpot again` }
      expect(await backend.read(userId, 'notifications/activity')).toMatchObject({
        items: [failed],
      })
      expect(await backend.read(userId, 'hubspot/status')).toEqual({
        connected: false,
        account: 'acme.example',
        reason: `HubSpot says that ${ofStatus}.`,
        since: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      })
      const failedWhileBroken = { count: 1, providers: ['hubspot'] }
      expect(await backend.read(userId, 'notifications/summary')).toMatchObject({
        failedWhileBroken,
      })
    })

    test('is tried again if HubSpot limits or fails, and a wait that it asks for is no try', async () => {
      const userId = await connect()
      const wait = { 'Retry-After': '1' }
      const answers = [
        { status: 500 },
        { status: 429, headers: wait },
        { status: 477, headers: wait },
        // Neither says anything of the connection.
        { status: 400, body: { status: 'error', category: 'VALIDATION_ERROR' } },
      ]
      outside.answerRead = (path) => (path.includes('0-3/1?') ? answers.shift() : undefined)
      await tell([1])
      await backend.settled()
      expect(answers).toEqual([])
      expect(posts().map(dealIn)).toEqual([1])
      const ofUser = eq(deliveries.userId, userId)
      const [delivery] = await backend.database.select().from(deliveries).where(ofUser)
      // Of the reads, only 500 and 400.
      expect(delivery?.attempts).toBe(3)
      // The operator finds the cause in the log.
      expect(backend.lines.join('\n')).toContain('hubspot_VALIDATION_ERROR')
    })
  })

  test('an internal error for one user does not hold up another', async () => {
    const unlucky = await connect()
    await connect({ portal: portal * 100 })
    const ofUnlucky = eq(connections.userId, unlucky)
    await backend.database.update(connections).set({ secrets: 'unreadable' }).where(ofUnlucky)
    const [first, second] = changes([1, 2])
    await backend.tell([first, { ...second, portalId: portal * 100 }])
    await outside.accepted(() => posts().length > 0)
    expect(posts().map(dealIn)).toEqual([2])
    expect(await backend.outcomes(unlucky)).toEqual([['pending', 'internal_error']])
    expect(backend.lines.join('\n')).toContain('"delivery failed"')
    await backend.disconnect(unlucky, 'slack')
  })

  test('while a channel must wait, HubSpot is not read for it', async () => {
    const userId = await connect()
    await holdChannel()
    await tell([1])
    await vi.waitFor(async () => {
      const dueAt = (await storedChannel())?.dueAt?.getTime()
      expect(dueAt).toBeGreaterThan(Date.now() + 50_000)
    }, 5_000)
    expect(outside.reads).toEqual([])
    await backend.disconnect(userId, 'slack')
  })

  test('the backlog of a broken connection ends in a few statements, and not one by one', async () => {
    const userId = await connect()
    const slack = and(eq(connections.userId, userId), eq(connections.provider, 'slack'))
    const broken = { brokenReason: 'token_revoked', brokenSince: new Date() }
    await backend.database.update(connections).set(broken).where(slack)
    for (let n = 0; n < 6; n++) await tell(range(n * 100, 100))
    await backend.settled()
    const outcomes = await backend.outcomes(userId)
    expect(new Set(outcomes.map(String))).toEqual(new Set(['dead,token_revoked']))
    expect(outcomes).toHaveLength(600)
    const ends = backend.lines.filter((line) => line.includes('"delivery dead"'))
    expect(ends.length).toBeLessThan(20)
    // names.test.ts says which of them get names.
  })

  test('a call that Slack does not answer holds up no other channel', async () => {
    const calm = `${channel}x`
    await connect()
    await connect({ portal: portal + 500_000, channel: calm })
    const { calling, accept } = holdPost()
    await tell([1])
    await calling
    await backend.tell([stageChange(2, { portal: portal + 500_000 })])
    await outside.accepted((all) => all.some((post) => post.channel === calm))
    expect(posts()).toEqual([])
    accept()
    await backend.settled()
    expect(posts()).toHaveLength(1)
  })

  test('a message that is moved while Slack takes it counts for the channel that has it', async () => {
    await connect()
    const { calling, accept } = holdPost()
    await tell([1])
    await calling
    const { database } = backend
    await database.update(deliveries).set({ channel: 'T/C' }).where(eq(deliveries.state, 'pending'))
    accept()
    await backend.settled()
    expect(await database.$count(deliveries, eq(deliveries.channel, `${team}/${channel}`))).toBe(1)
  })

  // tests/relay/slack.test.ts has every code of Slack.
  const reason = expect.stringMatching(/^Slack says that [a-z ]+\.$/)
  test.each([
    ['the connection: the status says why', 2, 'token_revoked', { connected: false, reason }],
    ['the message, and of its text alone', 2, 'invalid_blocks', { connected: true }],
  ])('a message is dead at a refusal of %s', async (_, tries, error, status) => {
    const userId = await connect()
    refusePosts(error)
    await tell([1])
    await backend.settled()
    expect(calls()).toHaveLength(tries)
    expect(await backend.outcomes(userId)).toEqual([['dead', error]])
    expect(await backend.read(userId, 'slack/status')).toMatchObject({
      ...status,
      account: `Workspace ${team}`,
      channel: `#${channel}`,
    })
  })

  test('if Slack refuses the blocks, it gets the text with the deal’s address once', async () => {
    const errors = ['invalid_blocks', 'msg_blocks_too_long', 'invalid_attachments', 'no_text']
    const at = '[ERROR] must be more than 0 characters [json-pointer:/blocks/0/text]'
    for (const error of errors) await connect({ channel: `${channel}-${error}` })
    outside.answerPost = ({ channel, blocks }) => {
      const refused = {
        ok: false,
        error: channel.split('-')[1],
        response_metadata: { messages: [at] },
      }
      return blocks ? { status: 200, body: JSON.stringify(refused) } : undefined
    }
    const isOwn = (post: { channel: string }) => post.channel.startsWith(`${channel}-`)
    const tester = await connect({ channel: `${channel}-invalid_payload`, ruleIds: [] })
    await tell([1])
    await backend.call(tester, '/api/notifications/test', { method: 'POST' })
    await backend.settled()
    const url = `https://app.hubspot.com/contacts/${portal}/record/0-3/1`
    const text = `🔔 Deal 1 moved to Proposal sent\n${url}`
    const texts = outside.posts.filter(isOwn).map((post) => post.text)
    expect(texts.sort()).toEqual([...errors.map(() => text), testMessage.text])
    expect(outside.calls.filter(isOwn)).toHaveLength(10)
    const refusals = backend.lines.filter((line) => line.includes('"message refused"'))
    for (const error of errors) {
      expect(refusals.join()).toContain(`"reason":"${error}","at":"/blocks/0/text"`)
    }
    expect(refusals).toHaveLength(5)
  })

  test('a channel that the bot is no member of is reached by the address that Slack gave for it', async () => {
    const userId = await connect({ webhook: true })
    refusePosts('not_in_channel')
    await tell([1])
    await backend.settled()
    expect(posts().map(({ token }) => token)).toEqual(['webhook'])
    expect(await backend.outcomes(userId)).toEqual([['sent', null]])
  })

  test('after thirty days an event is forgotten, a dead one too, and one that is pending is not', async () => {
    const userId = await connect()
    refusePosts('invalid_blocks')
    await tell([1])
    await backend.settled()
    answerPosts(() => ({ status: 500 }))
    await tell([2])
    expect((await backend.outcomes(userId)).map(([state]) => state)).toEqual(['dead', 'pending'])
    const leftAfter = async (days: number) => {
      const received = { receivedAt: new Date(Date.now() - days * 86_400_000) }
      await backend.database.update(dealEvents).set(received).where(ofAccount())
      await deleteOld(backend.database)
      return await eventsStored()
    }
    expect(await leftAfter(29)).toBe(2)
    expect(await leftAfter(31)).toBe(1)
    await backend.disconnect(userId, 'slack')
    expect(await leftAfter(31)).toBe(0)
  })
})
