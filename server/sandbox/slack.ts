import { randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import type { ProviderSettings } from '../providers/provider.ts'
import { StandInCodes } from './codes.ts'
import { formFields } from './form.ts'
import { messageItem, StandInMessages } from './messages.ts'
import { consentPage, refusalPage, standInPage } from './page.ts'
import { StandInTokens } from './tokens.ts'

const grantedScopes = 'incoming-webhook,chat:write'

/** The only workspace of the stand-in Slack, and the person who is signed in to it. */
export const standInWorkspace = {
  teamId: 'T0STANDIN1',
  teamName: 'Acme (stand-in)',
  userId: 'U0STANDIN1',
  botUserId: 'U0STANDBOT',
  botId: 'B0STANDBOT',
  appId: 'A0STANDIN1',
  channels: [
    { id: 'C0SALES001', name: 'sales-floor' },
    { id: 'C0DEALS001', name: 'deals' },
    { id: 'C0RANDOM01', name: 'random' },
  ],
}

interface CodeBinding {
  redirectUri: string
  channelId: string
}

/** Slack's consent page, and the Web API methods that Dealbell calls. */
export function createStandInSlack({
  settings,
  appUrl,
}: {
  settings: ProviderSettings
  appUrl: string
}): Hono {
  const codes = new StandInCodes<CodeBinding>()
  const tokens = new StandInTokens('xoxb-stand-in-', settings.clientSecret)
  const messages = new StandInMessages()
  const redirectUri = `${appUrl}${pathOf(navigations.callbackPage, 'slack')}`

  function refusal(request: Record<string, string>): string | undefined {
    if (request.client_id !== settings.clientId) return 'There is no app with this client ID.'
    if (request.redirect_uri !== redirectUri) {
      return `The redirect URL is not registered for this app. It has ${redirectUri}.`
    }
    if (!request.scope) return 'The request names no scope.'
    return undefined
  }

  /** The token of a call, from its header or form; or Slack's error code if it is not valid. */
  async function caller(c: Context) {
    const header = c.req.header('Authorization')?.match(/^Bearer (.+)$/)?.[1]
    const token = header ?? (await formFields(c)).token
    if (token === undefined) return 'not_authed'
    const payload = tokens.read(token)
    if (payload === 'revoked') return 'token_revoked'
    if (payload === 'expired') return 'token_expired'
    if (payload === 'invalid') return 'invalid_auth'
    return payload
  }

  return (
    new Hono()
      .get('/oauth/v2/authorize', (c) => {
        const request = c.req.query()
        const reason = refusal(request)
        if (reason !== undefined) return c.html(refusalPage('Slack', reason), 400)
        return c.html(
          consentPage({
            provider: 'Slack',
            account: standInWorkspace.teamName,
            wishes: ['post messages to a channel that you choose'],
            fields: request,
            children: html`<label>Channel for the messages
            <select name="channel">
              ${standInWorkspace.channels.map(
                ({ id, name }) => html`<option value="${id}">#${name}</option>`,
              )}
            </select>
          </label>`,
          }),
        )
      })
      .post('/oauth/v2/authorize', async (c) => {
        const request = await formFields(c)
        const reason = refusal(request)
        if (reason !== undefined) return c.html(refusalPage('Slack', reason), 400)
        const channel = standInWorkspace.channels.find(({ id }) => id === request.channel)
        if (channel === undefined) {
          return c.html(refusalPage('Slack', 'There is no such channel.'), 400)
        }
        const back = new URL(redirectUri)
        if (request.answer === 'allow') {
          back.searchParams.set('code', codes.issue({ redirectUri, channelId: channel.id }))
        } else {
          back.searchParams.set('error', 'access_denied')
        }
        if (request.state) back.searchParams.set('state', request.state)
        return c.redirect(back.href, 303)
      })
      // Slack answers 200 even when it refuses.
      .post('/api/oauth.v2.access', async (c) => {
        const form = await formFields(c)
        if (form.client_id !== settings.clientId) return refuse(c, 'invalid_client_id')
        if (form.client_secret !== settings.clientSecret) return refuse(c, 'bad_client_secret')
        const binding = codes.take(form.code ?? '')
        if (binding === undefined) return refuse(c, 'invalid_code')
        if (form.redirect_uri !== binding.redirectUri) return refuse(c, 'bad_redirect_uri')
        const channel = standInWorkspace.channels.find(({ id }) => id === binding.channelId)
        if (channel === undefined) return refuse(c, 'channel_not_found')
        const grant = randomUUID()
        return c.json({
          ok: true,
          app_id: standInWorkspace.appId,
          authed_user: { id: standInWorkspace.userId },
          scope: grantedScopes,
          token_type: 'bot',
          access_token: tokens.issue({ grant, use: 'access', endsAt: null }),
          bot_user_id: standInWorkspace.botUserId,
          team: { id: standInWorkspace.teamId, name: standInWorkspace.teamName },
          enterprise: null,
          is_enterprise_install: false,
          incoming_webhook: {
            channel: `#${channel.name}`,
            channel_id: channel.id,
            configuration_url: `${appUrl}/sandbox/slack`,
            url: `${settings.apiUrl.replace(/\/api$/, '')}/services/${standInWorkspace.teamId}/${channel.id}/${grant}`,
          },
        })
      })
      .post('/api/auth.test', async (c) => {
        const token = await caller(c)
        if (typeof token === 'string') return refuse(c, token)
        c.header('x-oauth-scopes', grantedScopes)
        return c.json({
          ok: true,
          url: `${appUrl}/sandbox/slack`,
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
        const channel = standInWorkspace.channels.find(({ id }) => id === form.channel)
        if (channel === undefined) return refuse(c, 'channel_not_found')
        if (!form.text && !form.blocks) return refuse(c, 'no_text')
        const refused = messages.add(channel.id, form.text ?? '', form.blocks)
        if (refused !== undefined) return refuse(c, refused)
        return c.json({ ok: true, channel: channel.id, ts: (Date.now() / 1000).toFixed(6) })
      })
      .get('/', (c) =>
        c.html(
          standInPage({
            title: 'Channels',
            notice: workspaceNotice,
            children: html`<ul>${standInWorkspace.channels.map(
              ({ id, name }) =>
                html`<li><a href="${appUrl}/sandbox/slack/channels/${id}">#${name}</a> (${messages.in(id).length})</li>`,
            )}</ul>`,
          }),
        ),
      )
      .get('/channels/:id', (c) => {
        const channel = standInWorkspace.channels.find(({ id }) => id === c.req.param('id'))
        if (channel === undefined) return c.notFound()
        const list = messages.in(channel.id)
        return c.html(
          standInPage({
            title: `#${channel.name}`,
            notice: workspaceNotice,
            refreshS: 2,
            children: html`
              ${list.length === 0 ? html`<p>No messages yet. This page looks again by itself.</p>` : ''}
              <ul class="records" aria-label="Messages">${list.map(messageItem)}</ul>
              <p><a href="${appUrl}/sandbox/slack">All channels</a> ·
                <a href="${appUrl}/sandbox/hubspot/deals">Deals in the stand-in HubSpot</a></p>`,
          }),
        )
      })
      .all('/api/*', (c) => refuse(c, 'unknown_method'))
  )
}

const workspaceNotice =
  'This is not Slack. It plays a workspace on this machine, and forgets its messages when it stops.'

function refuse(c: Context, error: string): Response {
  return c.json({ ok: false, error })
}
