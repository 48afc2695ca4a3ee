import { Hono } from 'hono'
import { html } from 'hono/html'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { notFromAnotherSite } from '../../server/http/origin.ts'
import { createConsent } from '../consent.ts'
import { formFields, standInPage } from '../page.ts'
import { type SlackAccount, type StandInMessage, scopesIn, standInWorkspace } from './account.ts'
import type { Blocks } from './blocks.ts'

const notice =
  'This is not Slack. It plays a workspace on this machine, and forgets its messages when it stops.'

/** Slack's consent page, and the pages on which a person reads and archives the channels. */
export function createSlackPages({ settings, appUrl, list, codes, channels }: SlackAccount): Hono {
  const consent = createConsent({
    path: '/oauth/v2/authorize',
    provider: 'Slack',
    settings,
    redirectUri: `${appUrl}${pathOf(navigations.callbackPage, 'slack')}`,
    problem({ scope, answer, channel }) {
      if (!scope) return 'The request names no scope.'
      const scopes = scopesIn(scope)
      if (scopes.includes('users:read.email') && !scopes.includes('users:read')) {
        return 'The scope users:read.email must be requested together with users:read.'
      }
      const isOpen = channels.open().some(({ id }) => id === channel)
      return answer === 'allow' && !isOpen ? 'There is no such channel.' : undefined
    },
    page: () => ({
      account: standInWorkspace.teamName,
      wishes: ['post messages to a channel that you choose'],
      children:
        channels.open().length === 0
          ? html`<p>All channels are archived. Unarchive one in the
              <a href="${list}">workspace</a>.</p>`
          : html`<label>Channel for the messages
              <select name="channel">
                ${channels.open().map(({ id, name }) => html`<option value="${id}">#${name}</option>`)}
              </select>
            </label>`,
    }),
    code: ({ channel = '', scope = '' }) => codes.issue({ channel, scopes: scopesIn(scope) }),
  })

  return new Hono()
    .route('/', consent)
    .get('/', (c) =>
      c.html(
        standInPage({
          title: 'Channels',
          notice,
          children: html`<ul>${standInWorkspace.channels.map(
            ({ id, name }) =>
              html`<li><a href="${list}/channels/${id}">#${name}</a> (${channels.messages(id).length})${channels.archived.has(id) ? ', archived' : ''}</li>`,
          )}</ul>`,
        }),
      ),
    )
    .get('/channels/:id', (c) => {
      const channel = channels.find(c.req.param('id'))
      if (channel === undefined) return c.notFound()
      const messages = channels.messages(channel.id)
      const isArchived = channels.archived.has(channel.id)
      return c.html(
        standInPage({
          title: `#${channel.name}${isArchived ? ' (archived)' : ''}`,
          notice,
          refreshS: 2,
          children: html`
            ${messages.length === 0 ? html`<p>No messages yet. This page looks again by itself.</p>` : ''}
            <ul class="records" aria-label="Messages">${messages.map(messageItem)}</ul>
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
      const channel = channels.find(c.req.param('id'))
      if (channel === undefined) return c.notFound()
      const { change } = await formFields(c)
      if (change === 'archive') channels.archived.add(channel.id)
      if (change === 'unarchive') channels.archived.delete(channel.id)
      return c.redirect(`${list}/channels/${channel.id}`, 303)
    })
}

function messageItem({ at, text, blocks }: StandInMessage) {
  return html`<li>
    <p class="muted"><strong>Dealbell</strong> <time datetime="${at.toISOString()}">${at.toLocaleTimeString('en')}</time></p>
    ${blocks.length > 0 ? blocks.map(shownBlock) : html`<p>${unescapeText(text)}</p>`}
  </li>`
}

/** Renders the kinds of blocks that Dealbell sends. Like Slack, it parses nothing in their texts. */
function shownBlock(block: Blocks[number]) {
  if (block.type === 'rich_text') {
    const parts = block.elements.flatMap(({ elements }) => elements.map(shownPart))
    return html`<p class="lines">${parts}</p>`
  }
  const texts = block.type === 'context' ? block.elements : 'text' in block ? [block.text] : []
  return texts.map((part) => part && 'text' in part && html`<p class="muted">${part.text}</p>`)
}

type Part = Extract<Blocks[number], { type: 'rich_text' }>['elements'][number]['elements'][number]

function shownPart(part: Part) {
  const { type, style } = part
  const shown =
    type === 'link'
      ? html`<a href="${part.url}">${part.text ?? part.url}</a>`
      : type === 'date'
        ? html`<time>${part.fallback ?? part.format}</time>`
        : type === 'user'
          ? html`<strong>@${nameOf(part.user_id)}</strong>`
          : part.text
  return style?.bold ? html`<strong>${shown}</strong>` : shown
}

/** Slack shows the member's name. */
const nameOf = (userId: string) =>
  standInWorkspace.members.find(({ id }) => id === userId)?.realName ?? userId

/** Slack takes these three characters only escaped. */
function unescapeText(text: string): string {
  return text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}
