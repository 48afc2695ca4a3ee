import { eq } from 'drizzle-orm'
import { describe, expect, test } from 'vitest'
import { connections, deliveries } from '../../server/database/schema.ts'
import { testMessage } from '../../server/relay/write/message.ts'
import { databaseKinds } from '../database.ts'
import { dealIn, shownIn, signedWebhook, stageChange } from './hubspot-webhook.ts'
import {
  backend,
  calls,
  changes,
  channel,
  connect,
  outside,
  portal,
  posts,
  range,
  refusePosts,
  shareBackend,
  team,
  tell,
} from './shared.ts'

describe.each(databaseKinds)('on %s', (kind) => {
  shareBackend(kind)
  // Both databases get the same statements. What is not about them is tested on one.
  const describeOnce = describe.runIf(kind === 'PGlite')

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

  test('a webhook without a valid signature is refused before it is parsed', async () => {
    await connect()
    const signed = signedWebhook([stageChange(7, { portal })])
    for (const request of [
      { ...signed, body: signed.body.replace('"objectId":7', '"objectId":8') },
      { ...signed, body: 'no JSON' },
    ]) {
      expect((await backend.app.request('/webhooks/hubspot', request)).status).toBe(401)
    }
    // The address that counts is the configured one.
    const proxied = await backend.app.request('http://10.0.0.7:8080/webhooks/hubspot', signed)
    expect(proxied.status).toBe(204)
    await backend.settled()
    expect(posts().map(dealIn)).toEqual([7])
  })

  describeOnce('the access to HubSpot', () => {
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

  test('what waits at a disconnect is never sent, also if the user connects again at once; what failed before can be', async () => {
    const account = { portal, team, channel }
    const userId = await backend.connect(account)
    refusePosts('no_text')
    await tell([1])
    await backend.settled()
    outside.answerRead = () => ({ status: 503 })
    await tell(range(2, 8))
    await outside.accepted(() => outside.reads.length > 0)
    await backend.disconnect(userId, 'slack')
    await backend.connectAgain(userId, account)
    outside.answerRead = outside.answerPost = () => undefined
    await backend.settled()
    const ended = range(2, 8).map(() => ['dead', 'disconnected'])
    expect(await backend.outcomes(userId)).toEqual([['dead', 'no_text'], ...ended])

    const { items } = await backend.read(userId, 'notifications/activity')
    const path = `/api/notifications/activity/${items.at(-1).id}/retry`
    expect((await backend.call(userId, path, { method: 'POST' })).status).toBe(202)
    await tell([20])
    await backend.settled()
    expect(posts().map(dealIn).slice(-2)).toEqual([1, 20])
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
})
