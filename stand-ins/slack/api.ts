import { randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import * as v from 'valibot'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { refusedStatus } from '../channel-page.ts'
import { formFields } from '../page.ts'
import { StandInTokens, type TokenPayload } from '../tokens.ts'
import { type SlackAccount, standInWorkspace } from './account.ts'
import { readBlocks } from './blocks.ts'

const emailScope = 'users:read.email'
/** Slack promises at least this many look-ups a minute (tier 3). */
const mostLookUps = 50
const minuteMs = 60_000
const webhookBody = v.object({ text: v.optional(v.string(), ''), blocks: v.optional(v.unknown()) })

/** The Web API methods that Dealbell calls, and incoming webhooks. */
export function createSlackApi({ settings, appUrl, list, codes, channels }: SlackAccount): Hono {
  const { clientId, clientSecret, apiUrl } = settings
  const tokens = new StandInTokens('xoxb-stand-in-', clientSecret)
  /** When the last look-ups were, by `performance.now()`. */
  const lookUps: number[] = []
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
        const allowed = codes.take(form.code ?? '')
        const channel = channels.find(allowed?.channel)
        if (allowed === undefined || channel === undefined) return refuse(c, 'invalid_code')
        const { scopes } = allowed
        if (form.redirect_uri !== redirectUri) return refuse(c, 'bad_redirect_uri')
        const grant = randomUUID()
        const { appId, userId, botUserId, teamId, teamName } = standInWorkspace
        const issueToken = () => tokens.issue({ grant, use: 'access', endsAt: null, scopes })
        return c.json({
          ok: true,
          app_id: appId,
          authed_user: { id: userId },
          scope: scopes.join(),
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
        c.header('x-oauth-scopes', scopesOf(token).join())
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
      .post('/api/users.lookupByEmail', async (c) => {
        const token = await caller(c)
        if (typeof token === 'string') return refuse(c, token)
        const scopes = scopesOf(token)
        if (!scopes.includes(emailScope)) {
          return refuse(c, 'missing_scope', { needed: emailScope, provided: scopes.join() })
        }
        const now = performance.now()
        while (now - (lookUps[0] ?? now) >= minuteMs) lookUps.shift()
        if (lookUps.length >= mostLookUps) {
          c.header('Retry-After', String(Math.ceil(((lookUps[0] ?? now) + minuteMs - now) / 1000)))
          return c.json({ ok: false, error: 'ratelimited' }, 429)
        }
        lookUps.push(now)
        const { email } = await formFields(c)
        if (!email) {
          const messages = ['[ERROR] missing required field: email']
          return refuse(c, 'invalid_arguments', { response_metadata: { messages } })
        }
        const member = standInWorkspace.members.find(
          (known) => known.email === email.toLowerCase() && !known.deleted,
        )
        if (member === undefined) return refuse(c, 'users_not_found')
        const { id, name, realName, deleted } = member
        const profile = { real_name: realName, display_name: name, email: member.email }
        const { teamId } = standInWorkspace
        const user = { id, team_id: teamId, name, deleted, real_name: realName, profile }
        return c.json({ ok: true, user })
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
        if (refusedStatus(text) !== undefined) return refuse(c, 'unheard')
        const blocks = readBlocks(text, form.blocks)
        if (!Array.isArray(blocks)) {
          const { messages } = blocks
          const more = messages.length > 0 && { response_metadata: { messages } }
          return refuse(c, blocks.error, more || {})
        }
        const at = channels.post(channel.id, text, blocks, form.client_msg_id)
        return c.json({ ok: true, channel: channel.id, ts: (at.getTime() / 1000).toFixed(6) })
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

/** Tokens of earlier versions name no scopes. */
const scopesOf = ({ scopes = ['incoming-webhook', 'chat:write'] }: TokenPayload) => scopes

function refuse(c: Context, error: string, more: object = {}): Response {
  return c.json({ ok: false, error, ...more })
}
