import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Html } from '../server/http/html-page.ts'
import { standInPolicy } from '../server/http/safety-headers.ts'
import { type Site, standInPage } from './page.ts'

/** The page of a channel of a stand-in chat. It looks for new messages by itself (channel.js). */
export function channelPage(
  c: Context,
  {
    site,
    title,
    notice,
    head,
    version,
    messages,
  }: {
    site: Site
    title: string
    notice: string
    /** What stands above the messages. */
    head: Html
    /** Changes with all that the page shows. */
    version: string
    /** The oldest first. */
    messages: readonly Html[]
  },
) {
  const { appUrl } = site
  c.header('Content-Security-Policy', standInPolicy(appUrl, { inFrame: false, withScript: true }))
  return c.html(
    standInPage({
      site,
      title,
      notice,
      head: html`<script data-cfasync="false" src="/sandbox/channel.js" type="module"></script>
        <noscript><meta http-equiv="refresh" content="5"></noscript>`,
      children: html`
        ${head}
        ${messages.length === 0 ? html`<p>No messages yet. This page looks again by itself. <a href="${appUrl}/activity">Activity</a> says what became of each change.</p>` : ''}
        <ol class="messages" aria-label="Messages" data-version="${version}">${messages}</ol>`,
    }),
  )
}

export function shownMessage(at: Date, shown: Html): Html {
  return html`<li>
    <span class="avatar" aria-hidden="true">D</span>
    <div>
      <p><strong>Dealbell</strong> <span class="muted">${shownTime(at, at.toLocaleTimeString('en'))}</span></p>
      ${shown}
    </div>
  </li>`
}

/** A time or a date by the reader's clock, once the page's script has run. */
export function shownTime(at: Date, withoutScript: string, shows: 'time' | 'date' = 'time') {
  return html`<time datetime="${at.toISOString()}" data-shows="${shows}">${withoutScript}</time>`
}

/**
 * The status with which a stand-in answers a message about a deal with a name such as 'Refused 403'. Its code is one that
 * nobody knows. Undefined: it takes the message.
 */
export function refusedStatus(said: string): number | undefined {
  const [, status] = /\bRefused ([45]\d\d)\b/.exec(said) ?? []
  return status === undefined ? undefined : Number(status)
}
