import { randomUUID } from 'node:crypto'
import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import * as v from 'valibot'
import { navigations, pathOf } from '../contract/endpoints.ts'
import { notFromAnotherSite } from '../server/http/origin.ts'
import type { ProviderSettings } from '../server/providers/provider.ts'
import { readBlocks } from './blocks.ts'
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
  /** Only one has invited the bot. People can choose the others too: their webhooks work. */
  channels: [
    { id: 'C0SALES001', name: 'sales-floor', hasBot: true },
    { id: 'C0DEALS001', name: 'deals', hasBot: false },
    { id: 'C0RANDOM01', name: 'random', hasBot: false },
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
  /** The ids of archived channels. */
  const archived = new Set<string>()
  const list = `${appUrl}/sandbox/slack`
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
    if (payload === 'invalid' || payload.use !== 'access') return 'invalid_auth'
    return payload
  }

  /** The channels that people can choose. Slack does not offer archived ones. */
  const openChannels = () => standInWorkspace.channels.filter(({ id }) => !archived.has(id))

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
            children:
              openChannels().length === 0
                ? html`<p>All channels are archived. Unarchive one in the
                    <a href="${list}">workspace</a>.</p>`
                : html`<label>Channel for the messages
            <select name="channel">
              ${openChannels().map(({ id, name }) => html`<option value="${id}">#${name}</option>`)}
            </select>
          </label>`,
          }),
        )
      })
      .post('/oauth/v2/authorize', async (c) => {
        const request = await formFields(c)
        const reason = refusal(request)
        if (reason !== undefined) return c.html(refusalPage('Slack', reason), 400)
        const channel = openChannels().find(({ id }) => id === request.channel)
        const isAllowed = request.answer === 'allow'
        if (channel === undefined && isAllowed) {
          return c.html(refusalPage('Slack', 'There is no such channel.'), 400)
        }
        const back = new URL(redirectUri)
        if (channel !== undefined && isAllowed) {
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
        const channel = channelOf(binding.channelId)
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
            configuration_url: list,
            url: `${settings.apiUrl.replace(/\/api$/, '')}/services/${standInWorkspace.teamId}/${channel.id}/${tokens.issue({ grant, use: 'access', endsAt: null })}`,
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
        const channel = channelOf(form.channel)
        if (channel === undefined) return refuse(c, 'channel_not_found')
        if (archived.has(channel.id)) return refuse(c, 'is_archived')
        if (!channel.hasBot) return refuse(c, 'not_in_channel')
        const text = form.text ?? ''
        const blocks = readBlocks(text, form.blocks)
        if (!Array.isArray(blocks)) return refuse(c, blocks.error, blocks.messages)
        messages.add(channel.id, text, blocks)
        return c.json({ ok: true, channel: channel.id, ts: (Date.now() / 1000).toFixed(6) })
      })
      // An incoming webhook, which Slack answers with a status and plain text.
      .post('/services/:team/:channel/:token', async (c) => {
        const token = tokens.read(c.req.param('token'))
        if (token === 'revoked') return c.text('no_service', 404)
        if (typeof token === 'string' || token.use !== 'access') {
          return c.text('invalid_token', 403)
        }
        const channel = channelOf(c.req.param('channel'))
        if (channel === undefined) return c.text('channel_not_found', 404)
        if (archived.has(channel.id)) return c.text('channel_is_archived', 410)
        const body = v.safeParse(webhookBody, await c.req.json().catch(() => undefined))
        if (!body.success) return c.text('invalid_payload', 400)
        const { text } = body.output
        const blocks = readBlocks(text, body.output.blocks)
        if (!Array.isArray(blocks)) return c.text(blocks.error, 400)
        messages.add(channel.id, text, blocks)
        return c.text('ok')
      })
      .get('/', (c) =>
        c.html(
          standInPage({
            title: 'Channels',
            notice: workspaceNotice,
            children: html`<ul>${standInWorkspace.channels.map(
              ({ id, name }) =>
                html`<li><a href="${list}/channels/${id}">#${name}</a> (${messages.in(id).length})${archived.has(id) ? ', archived' : ''}</li>`,
            )}</ul>`,
          }),
        ),
      )
      .get('/channels/:id', (c) => {
        const channel = channelOf(c.req.param('id'))
        if (channel === undefined) return c.notFound()
        const said = messages.in(channel.id)
        const isArchived = archived.has(channel.id)
        return c.html(
          standInPage({
            title: `#${channel.name}${isArchived ? ' (archived)' : ''}`,
            notice: workspaceNotice,
            refreshS: 2,
            children: html`
              ${said.length === 0 ? html`<p>No messages yet. This page looks again by itself.</p>` : ''}
              <ul class="records" aria-label="Messages">${said.map(messageItem)}</ul>
              <p><a href="${list}">All channels</a> ·
                <a href="${appUrl}/sandbox/hubspot/deals">Deals in the stand-in HubSpot</a></p>
              <form method="post" action="${list}/channels/${channel.id}" class="actions">
                <button name="change" value="${isArchived ? 'unarchive' : 'archive'}" class="secondary">
                  ${isArchived ? 'Unarchive' : 'Archive'} #${channel.name}
                </button>
              </form>`,
          }),
        )
      })
      .post('/channels/:id', notFromAnotherSite, async (c) => {
        const channel = channelOf(c.req.param('id'))
        if (channel === undefined) return c.notFound()
        const { change } = await formFields(c)
        if (change === 'archive') archived.add(channel.id)
        if (change === 'unarchive') archived.delete(channel.id)
        return c.redirect(`${list}/channels/${channel.id}`, 303)
      })
      .all('/api/*', (c) => refuse(c, 'unknown_method'))
  )
}

const webhookBody = v.object({ text: v.optional(v.string(), ''), blocks: v.optional(v.unknown()) })

function channelOf(id: string | undefined) {
  return standInWorkspace.channels.find((channel) => channel.id === id)
}

const workspaceNotice =
  'This is not Slack. It plays a workspace on this machine, and forgets its messages when it stops.'

function refuse(c: Context, error: string, messages: readonly string[] = []): Response {
  const more = messages.length > 0 && { response_metadata: { messages } }
  return c.json({ ok: false, error, ...more })
}
