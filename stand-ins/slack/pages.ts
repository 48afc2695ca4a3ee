import { Hono } from 'hono'
import { html } from 'hono/html'
import { navigations, pathOf } from '../../contract/endpoints.ts'
import { channelPage, shownMessage, shownTime } from '../channel-page.ts'
import { createConsent } from '../consent.ts'
import { formFields } from '../page.ts'
import { type SlackAccount, type StandInMessage, scopesIn, standInWorkspace } from './account.ts'
import type { Blocks } from './blocks.ts'

const notice =
  'This is not Slack. It plays a workspace on this machine, and forgets its messages when it stops.'

/** Slack's consent page, and the pages on which a person reads and archives the channels. */
export function createSlackPages(account: SlackAccount): Hono {
  const { site, settings, appUrl, list, codes, channels } = account
  const consent = createConsent({
    site,
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
    code({ channel = '', scope = '' }) {
      channels.latest = channel
      return codes.issue({ channel, scopes: scopesIn(scope) })
    },
  })

  return new Hono()
    .route('/', consent)
    .get('/', (c) => c.redirect(`${list}/channels/${channels.latest}`))
    .get('/channels/:id', (c) => {
      const channel = channels.find(c.req.param('id'))
      if (channel === undefined) return c.notFound()
      const messages = channels.messages(channel.id)
      const isArchived = channels.archived.has(channel.id)
      const change = isArchived ? 'Unarchive' : 'Archive'
      return channelPage(c, {
        site,
        title: `#${channel.name}${isArchived ? ' (archived)' : ''}`,
        notice,
        head: html`<div class="channels">
            <nav aria-label="Channels">${channelLinks(account)}</nav>
            <form method="post" action="${list}/channels/${channel.id}">
              <button name="change" value="${change.toLowerCase()}" class="secondary"
                aria-label="${change} #${channel.name}">${change}</button>
            </form>
          </div>`,
        version: channels.version,
        messages: messages.toReversed().map(messageItem),
      })
    })
    .post('/channels/:id', async (c) => {
      const channel = channels.find(c.req.param('id'))
      if (channel === undefined) return c.notFound()
      const { change } = await formFields(c)
      if (change === 'archive') channels.archived.add(channel.id)
      if (change === 'unarchive') channels.archived.delete(channel.id)
      return c.redirect(`${list}/channels/${channel.id}`, 303)
    })
}

function channelLinks({ list, channels }: SlackAccount) {
  return standInWorkspace.channels.map(
    ({ id, name }) =>
      html`<span><a href="${list}/channels/${id}">#${name}</a> (${channels.messages(id).length})${channels.archived.has(id) ? ', archived' : ''}</span> `,
  )
}

function messageItem({ at, text, blocks }: StandInMessage) {
  const shown =
    blocks.length > 0 ? blocks.map(shownBlock) : [html`<p class="lines">${unescapeText(text)}</p>`]
  return shownMessage(at, html`${shown}`)
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
        ? shownTime(
            new Date(part.timestamp * 1000),
            part.fallback ?? part.format,
            part.format.includes('{time}') ? 'time' : 'date',
          )
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
