import { randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import * as v from 'valibot'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { formFields } from '../page.ts'
import { StandInTokens } from '../tokens.ts'
import { type SlackAccount, standInWorkspace } from './account.ts'
import { readBlocks } from './blocks.ts'

const grantedScopes = 'incoming-webhook,chat:write'
const webhookBody = v.object({ text: v.optional(v.string(), ''), blocks: v.optional(v.unknown()) })

/** The Web API methods that Dealbell calls, and incoming webhooks. */
export function createSlackApi({ settings, appUrl, list, codes, channels }: SlackAccount): Hono {
  const { clientId, clientSecret, apiUrl } = settings
  const tokens = new StandInTokens('xoxb-stand-in-', clientSecret)
  const redirectUri = `${appUrl}${pathOf(navigations.callbackPage, 'slack')}`

  /** The token of a call, from its header or form; or Slack's error code if it is not valid. */
  async function caller(c: Context) {
    const header = c.req.header('Authorization')?.match(/^Bearer (.+)$/)?.[1]
    const token = header ?? (await formFields(c)).token
    if (token === undefined) return 'not_authed'
    const payload = tokens.read(token)
    if (payload === 'revoked') return 'token_revoked'
    if (payload === 'expired') return 'token_expired'
    if (payload === 'invalid' || payload.use !== 'access') return 'invalid_auth'
    return payload
  }

  return (
    new Hono()
      // Slack answers 200 even when it refuses.
      .post('/api/oauth.v2.access', async (c) => {
        const form = await formFields(c)
        if (form.client_id !== clientId) return refuse(c, 'invalid_client_id')
        if (form.client_secret !== clientSecret) return refuse(c, 'bad_client_secret')
        const channel = channels.find(codes.take(form.code ?? ''))
        if (channel === undefined) return refuse(c, 'invalid_code')
        if (form.redirect_uri !== redirectUri) return refuse(c, 'bad_redirect_uri')
        const grant = randomUUID()
        const { appId, userId, botUserId, teamId, teamName } = standInWorkspace
        const issueToken = () => tokens.issue({ grant, use: 'access', endsAt: null })
        return c.json({
          ok: true,
          app_id: appId,
          authed_user: { id: userId },
          scope: grantedScopes,
          token_type: 'bot',
          access_token: issueToken(),
          bot_user_id: botUserId,
          team: { id: teamId, name: teamName },
          enterprise: null,
          is_enterprise_install: false,
          incoming_webhook: {
            channel: `#${channel.name}`,
            channel_id: channel.id,
            configuration_url: list,
            url: `${apiUrl.replace(/\/api$/, '')}/services/${teamId}/${channel.id}/${issueToken()}`,
          },
        })
      })
      .post('/api/auth.test', async (c) => {
        const token = await caller(c)
        if (typeof token === 'string') return refuse(c, token)
        c.header('x-oauth-scopes', grantedScopes)
        return c.json({
          ok: true,
          url: list,
          team: standInWorkspace.teamName,
          user: 'dealbell',
          team_id: standInWorkspace.teamId,
          user_id: standInWorkspace.botUserId,
          bot_id: standInWorkspace.botId,
          is_enterprise_install: false,
        })
      })
      .post('/api/auth.revoke', async (c) => {
        const token = await caller(c)
        if (typeof token === 'string') return refuse(c, token)
        tokens.revoke(token)
        return c.json({ ok: true, revoked: true })
      })
      .post('/api/chat.postMessage', async (c) => {
        const token = await caller(c)
        if (typeof token === 'string') return refuse(c, token)
        const form = await formFields(c)
        const channel = channels.find(form.channel)
        if (channel === undefined) return refuse(c, 'channel_not_found')
        if (channels.archived.has(channel.id)) return refuse(c, 'is_archived')
        if (!channel.hasBot) return refuse(c, 'not_in_channel')
        const text = form.text ?? ''
        const blocks = readBlocks(text, form.blocks)
        if (!Array.isArray(blocks)) return refuse(c, blocks.error, blocks.messages)
        channels.post(channel.id, text, blocks)
        return c.json({ ok: true, channel: channel.id, ts: (Date.now() / 1000).toFixed(6) })
      })
      .all('/api/*', (c) => refuse(c, 'unknown_method'))
      // An incoming webhook, which Slack answers with a status and plain text.
      .post('/services/:team/:channel/:token', async (c) => {
        const token = tokens.read(c.req.param('token'))
        if (token === 'revoked') return c.text('no_service', 404)
        if (typeof token === 'string' || token.use !== 'access') {
          return c.text('invalid_token', 403)
        }
        const channel = channels.find(c.req.param('channel'))
        if (channel === undefined) return c.text('channel_not_found', 404)
        if (channels.archived.has(channel.id)) return c.text('channel_is_archived', 410)
        const body = v.safeParse(webhookBody, await c.req.json().catch(() => undefined))
        if (!body.success) return c.text('invalid_payload', 400)
        const { text } = body.output
        const blocks = readBlocks(text, body.output.blocks)
        if (!Array.isArray(blocks)) return c.text(blocks.error, 400)
        channels.post(channel.id, text, blocks)
        return c.text('ok')
      })
  )
}

function refuse(c: Context, error: string, messages: readonly string[] = []): Response {
  const more = messages.length > 0 && { response_metadata: { messages } }
  return c.json({ ok: false, error, ...more })
}
