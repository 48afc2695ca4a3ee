import { setTimeout as delay } from 'node:timers/promises'
import { Hono } from 'hono'
import { type TestAnswer, testCall } from '../../contract/features/test-message.ts'
import { doubtOf, reasonInWords } from '../activity/reasons.ts'
import { storeTestMessage, testMessageOutcome } from '../activity/test-message.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import { refusalInWords } from '../people/connections.ts'
import { channelOf } from '../people/routes.ts'
import type { Providers } from '../providers/provider.ts'
import type { ChatId, CrmId } from '../providers/registry.ts'
import { connectedOf } from './connected.ts'

/** The dashboard waits for ten seconds. */
const waitMs = 8_000
const lookEveryMs = 100

export function testMessageRoutes(context: Context) {
  const { database, providers, limits, wakeRelay, now } = context
  return new Hono().post(testCall.path, async (c) => {
    const { userId, crm, chat } = await connectedOf(context, c, 'crm', 'chat')
    await limits.testMessage(c, userId)
    const id = await storeTestMessage(database, {
      userId,
      crm: crm.provider,
      accountId: crm.accountId,
      channel: channelOf(chat),
    })
    wakeRelay()

    const endsAt = now().getTime() + waitMs
    for (;;) {
      await delay(lookEveryMs)
      // Ask the database, because another process may send the message.
      const outcome = await testMessageOutcome(database, id)
      const channel = outcome?.channel ?? chat.channelName
      if (outcome?.state === 'sent') {
        const reason = doubtOf(providers, channelOf(chat))
        return c.json({ state: 'sent', channel, ...(reason && { reason }) } satisfies Sent)
      }

      const reason = outcome?.reason ?? null
      const about = { reason, crm: crm.provider, chat: chat.provider }
      if (outcome?.state !== 'pending') {
        throw new ApiError(502, 'not_sent', whyNotSent(providers, about))
      }
      const leftMs = endsAt - now().getTime()
      // More is left than there was if the clock was put right. If the client went away, nobody reads the answer.
      if (leftMs > 0 && leftMs <= waitMs && !c.req.raw.signal.aborted) continue
      const waiting: TestAnswer = {
        state: 'waiting',
        channel,
        reason: reasonInWords(providers, { ...about, state: 'pending' }),
        nextTryAt: outcome.nextTryAt,
      }
      return c.json(waiting, 202)
    }
  })
}

type Sent = Pick<TestAnswer, 'state' | 'channel'> & { reason?: string }

function whyNotSent(
  providers: Providers,
  about: { reason: string | null; crm: CrmId; chat: ChatId },
): string {
  const { reason, chat } = about
  if (reason !== null && Object.hasOwn(providers[chat].brokenReasons, reason)) {
    return refusalInWords(providers, chat, reason)
  }
  const words = reasonInWords(providers, { ...about, state: 'dead' })
  return words === null ? 'The message was not sent.' : `Not sent: ${words}.`
}
