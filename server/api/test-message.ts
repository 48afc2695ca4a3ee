import { setTimeout as delay } from 'node:timers/promises'
import { Hono } from 'hono'
import { activityEndpoints, type TestAnswer } from '../../contract/activity.ts'
import type { Context } from '../context.ts'
import { ApiError } from '../http/errors.ts'
import type { Connection } from '../people/connections.ts'
import { channelOf, routeOf } from '../people/routes.ts'
import type { Providers } from '../providers/provider.ts'
import {
  type ChatId,
  type CrmId,
  chatIds,
  crmIds,
  type ProviderId,
  registry,
  usedOf,
} from '../providers/registry.ts'
import { reasonInWords } from '../relay/show/reasons.ts'
import { storeTestMessage, testMessageOutcome } from '../relay/show/test-message.ts'

/** The dashboard waits for ten seconds. */
const waitMs = 8_000
const lookEveryMs = 100

/** Sending a test message. */
export function testMessageRoutes({
  database,
  providers,
  sessions,
  limits,
  wakeRelay,
  now,
}: Context) {
  return new Hono().post(activityEndpoints.test.path, async (c) => {
    const session = await sessions.find(c)
    const { crm, chat } = await routeOf({ database, providers }, session?.userId)
    const missing = [
      missingOf(providers, crmIds, crm),
      missingOf(providers, chatIds, chat) ?? missingChannel(chat),
    ].filter((sentence) => sentence !== undefined)
    if (session === undefined || crm === undefined || chat === undefined || missing.length > 0) {
      throw new ApiError(409, 'not_connected', missing.join(' '))
    }

    await limits.testMessage(c, session.userId)
    const id = await storeTestMessage(database, {
      userId: session.userId,
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
      if (outcome?.state === 'sent') return c.json({ state: 'sent', channel } satisfies Sent)

      const reason = outcome?.reason ?? null
      const about = { reason, crm: crm.provider, chat: chat.provider }
      if (outcome?.state !== 'pending') {
        throw new ApiError(502, 'not_sent', whyNotSent(providers, about))
      }
      // If the client went away, nobody reads the answer.
      if (now().getTime() < endsAt && !c.req.raw.signal.aborted) continue
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

type Sent = Pick<TestAnswer, 'state' | 'channel'>

/** Says what is wrong with a connection. Undefined if it works. */
function missingOf(
  providers: Providers,
  ids: readonly ProviderId[],
  connection: Connection | undefined,
): string | undefined {
  if (connection === undefined) {
    return `${usedOf(providers, ids)
      .map((id) => registry[id].name)
      .join(' or ')} is not connected.`
  }
  const { provider, brokenReason } = connection
  if (brokenReason === null) return undefined
  const { name } = registry[provider]
  return `${refusalInWords(providers, provider, brokenReason)} Connect ${name} again.`
}

function missingChannel(chat: Connection | undefined): string | undefined {
  if (chat === undefined || chat.channelId !== null) return undefined
  const { name } = registry[chat.provider]
  return `${name} gave no channel. Connect ${name} again and choose one.`
}

function refusalInWords(providers: Providers, provider: ProviderId, code: string): string {
  const { brokenReasons } = providers[provider]
  const words = Object.hasOwn(brokenReasons, code) ? brokenReasons[code] : undefined
  return `${registry[provider].name} says that ${words ?? 'it no longer accepts this connection'}.`
}

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
