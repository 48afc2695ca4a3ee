import { WebAPIHTTPError, WebAPIPlatformError, WebAPIRateLimitedError } from '@slack/web-api'
import ky, { HTTPError } from 'ky'
import { type Chat, oneTry, type PostOutcome, type Timeouts } from '../provider.ts'
import { type SlackClient, waitMs } from './client.ts'
import { outcomeOfError } from './errors.ts'

/** With these errors, the bot may not be a member of the chosen channel, which may be private. */
const needsMembership = new Set(['not_in_channel', 'channel_not_found'])

/** Posts with the bot token. If the bot is not a member of the channel, posts to the webhook. */
export function createSlackPost(client: SlackClient, timeouts: Timeouts): Pick<Chat, 'post'> {
  return {
    async post({ accessToken, incomingWebhookUrl }, channelId, { text, blocks }) {
      const startedAt = performance.now()
      const message = { text, blocks: [...blocks], unfurl_links: false, unfurl_media: false }
      try {
        const call = { channel: channelId, ...message }
        await client(accessToken, timeouts.callMs).chat.postMessage(call)
        return { kind: 'posted' }
      } catch (error) {
        const outcome = outcomeOfFailure(error)
        const hasOtherWay =
          outcome.kind === 'refused' &&
          needsMembership.has(outcome.reason) &&
          incomingWebhookUrl !== undefined
        if (!hasOtherWay) return outcome
        // Both calls together get the time of one call, plus one second at most.
        const leftMs = Math.max(timeouts.callMs - (performance.now() - startedAt), 1_000)
        return await postToWebhook(incomingWebhookUrl, message, leftMs)
      }
    },
  }
}

function outcomeOfFailure(error: unknown): PostOutcome {
  // The client also throws this error if an answer is not JSON. The code is then the whole text.
  if (error instanceof WebAPIPlatformError) return outcomeOfError(error.data.error, 'nonsense')
  if (error instanceof WebAPIRateLimitedError) return { kind: 'wait', ms: error.retryAfter * 1000 }
  // This answer is not from Slack, because Slack answers 200 even if it refuses.
  if (error instanceof WebAPIHTTPError) {
    return { kind: 'failed', reason: `http_${error.statusCode}` }
  }
  return { kind: 'failed', reason: 'unreachable' }
}

async function postToWebhook(
  url: string,
  message: object,
  timeoutMs: number,
): Promise<PostOutcome> {
  try {
    const answer = await ky.post(url, { json: message, ...oneTry(timeoutMs) }).text()
    return answer === 'ok' ? { kind: 'posted' } : { kind: 'failed', reason: 'nonsense' }
  } catch (error) {
    if (!(error instanceof HTTPError)) return { kind: 'failed', reason: 'unreachable' }
    const { status, headers } = error.response
    if (status === 429) return { kind: 'wait', ms: waitMs(headers) }
    // After an error, a webhook answers 4xx with the code as plain text.
    return outcomeOfError(error.data, `http_${status}`)
  }
}
