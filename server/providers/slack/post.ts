import { WebAPIHTTPError, WebAPIPlatformError, WebAPIRateLimitedError } from '@slack/web-api'
import ky, { HTTPError } from 'ky'
import { createCache } from '../../cache.ts'
import { errorCode } from '../../log.ts'
import { countedPost, isPage, oneTry, outcomeOfUnknown, type Timeouts } from '../calls.ts'
import { uuidOf } from '../message-id.ts'
import type { Chat, PostOutcome } from '../provider.ts'
import { slackMessage } from './blocks.ts'
import { type SlackClient, waitMs } from './client.ts'
import { codeOf, outcomeOfCode } from './errors.ts'

/** With these errors, the bot may not be a member of the chosen channel, which may be private. */
const needsMembership = new Set(['not_in_channel', 'channel_not_found', 'no_permission'])

/** With these errors, Slack looked for an earlier message with the same id, and did not find it. It posted none. */
const unknownId = new Set(['duplicate_message_not_found', 'duplicate_channel_not_found'])

/** After this time, the bot is tried again: somebody may have invited it. */
const webhookFirstMs = 60 * 60_000
/** More webhooks than this process can use within an hour. */
const mostWebhooks = 20_000

/**
 * Posts with the bot token. If the bot is not a member of the channel, posts to the webhook, and
 * remembers this, so that the next message needs only one call.
 */
export function createSlackPost(
  client: SlackClient,
  timeouts: Timeouts,
  now: () => number = () => performance.now(),
): Pick<Chat, 'post'> {
  /** Until when to use a webhook first. */
  const webhookFirst = createCache<number>(mostWebhooks)

  return {
    async post({ accessToken, incomingWebhookUrl: webhook }, channelId, said, key) {
      const message = slackMessage(said)
      const endsAt = performance.now() + timeouts.callMs
      // All calls together get the time of one call, plus one second at most.
      const leftMs = () => {
        const ms = endsAt - performance.now()
        return Math.max(Math.round(ms), Math.min(1_000, Math.round(ms) + 1_000), 1)
      }

      let byWebhook: PostOutcome | undefined
      if (webhook !== undefined && now() < (webhookFirst.get(webhook) ?? 0)) {
        byWebhook = await countedPost('slack', () => postToWebhook(webhook, message, leftMs()))
        if (byWebhook.kind === 'posted' || byWebhook.kind === 'wait') return byWebhook
        // The next message begins with the bot. Only if Slack refused the webhook is it certain that
        // this message was not posted.
        webhookFirst.delete(webhook)
        if (byWebhook.kind === 'failed') return byWebhook
        if (byWebhook.kind === 'refused' && !byWebhook.connectionBroken) return byWebhook
      }

      const id = uuidOf(...key, message.text, message.blocks)
      const tryBot = (id: string) =>
        countedPost('slack', () =>
          postAsBot(client(accessToken, leftMs()), channelId, { ...message, id }),
        )
      let byBot = await tryBot(id)
      // Slack knows the id, but no message of it. With another id, it posts the message.
      if (byBot.kind === 'unclear' && unknownId.has(byBot.reason)) {
        byBot = await tryBot(uuidOf(id))
      }
      const isNoMember = byBot.kind === 'refused' && needsMembership.has(byBot.reason)
      if (!isNoMember || webhook === undefined) return byBot
      if (byWebhook !== undefined) return byWebhook
      const outcome = await countedPost('slack', () => postToWebhook(webhook, message, leftMs()))
      if (outcome.kind === 'posted') webhookFirst.set(webhook, now() + webhookFirstMs)
      return outcome
    },
  }
}

type SlackMessage = ReturnType<typeof slackMessage>

/** A message without previews of the pages that it links. Slack looks for no markup in its text. */
const plain = ({ text, blocks }: SlackMessage) => ({
  text,
  ...(blocks.length > 0 && { blocks }),
  mrkdwn: false,
  // Otherwise addresses and names of channels in the text become links.
  parse: 'none' as const,
  link_names: false,
  unfurl_links: false,
  unfurl_media: false,
})

async function postAsBot(
  { chat }: ReturnType<SlackClient>,
  channel: string,
  message: SlackMessage & { id: string },
): Promise<PostOutcome> {
  try {
    // Slack documents no such argument, only its errors. A message without blocks may be the last try, so it has none.
    const { id, blocks } = message
    const own = blocks.length > 0 && { client_msg_id: id }
    // An answer that names an earlier message says that Slack has the message.
    await chat.postMessage({ channel, ...plain(message), ...own })
    return { kind: 'posted' }
  } catch (error) {
    if (error instanceof WebAPIPlatformError) {
      // The client also throws this error if an answer is not of Slack's form. It may then have no code.
      const reason = codeOf(error.data.error)
      if (reason === undefined) return { kind: 'failed', reason: 'nonsense' }
      // A new code may also be about the access, or mean that nothing works for a time.
      return outcomeOfCode(reason) ?? { kind: 'unclear', reason, at: placesIn(error.data) }
    }
    if (error instanceof WebAPIRateLimitedError) {
      return { kind: 'wait', ms: error.retryAfter * 1000 }
    }
    // Slack answers 200 even if it refuses, so this answer is a proxy's. It finds a message too large each time.
    if (error instanceof WebAPIHTTPError) {
      const reason = `http_${error.statusCode}`
      return error.statusCode === 413
        ? { kind: 'refused', reason, connectionBroken: false }
        : { kind: 'failed', reason }
    }
    return { kind: 'failed', reason: 'unreachable', code: errorCode(error) }
  }
}

async function postToWebhook(
  url: string,
  message: SlackMessage,
  timeoutMs: number,
): Promise<PostOutcome> {
  try {
    const request = ky.post(url, { json: plain(message), ...oneTry(timeoutMs) })
    const { headers } = await request
    if (isPage(headers)) return { kind: 'failed', reason: 'nonsense' }
    // It is 'ok'. Another text may also say that Slack has posted the message.
    return outcomeOfCode(codeOf(await request.text())) ?? { kind: 'posted' }
  } catch (error) {
    if (!(error instanceof HTTPError))
      return { kind: 'failed', reason: 'unreachable', code: errorCode(error) }
    const { status, headers } = error.response
    if (status === 429) return { kind: 'wait', ms: waitMs(headers) }
    // After an error, a webhook answers 4xx with the code as plain text.
    const code = codeOf(error.data)
    return outcomeOfCode(code) ?? outcomeOfUnknown({ status, headers }, code ?? `http_${status}`)
  }
}

/** The places in a message of which Slack complains, such as /blocks/0/elements/0. Its words may quote the message. */
function placesIn(answer: object): string | undefined {
  const places = JSON.stringify(answer).matchAll(/\[json-pointer:([\w/]{1,100})\]/g)
  return Array.from(places, ([, place]) => place).join(' ') || undefined
}
