import { type Context, Hono } from 'hono'
import { html } from 'hono/html'
import type { Html } from '../server/http/html-page.ts'
import { registry } from '../server/providers/registry.ts'
import { channelPage, refusedStatus, shownMessage } from './channel-page.ts'
import { formFields, type Site } from './page.ts'

/** A call that posts a message. */
interface Posted {
  query: Readonly<Record<string, string>>
  /** The body as JSON; undefined if it is none. */
  body: unknown
}

/** What differs between the chats to which a user gives the address of a webhook. */
export interface StandInChat {
  /** The path and query of its webhook, as the chat writes them today. */
  webhook: string
  /** @returns what people see of a message, or the answer with which the chat refuses it. */
  read(posted: Posted): { shown: Html; id?: string } | { status: number; error: object | string }
  /** The answer to a call that it accepts. */
  accepted: { status: number; body: object | string }
  /** The answer after somebody has deleted the webhook. */
  deleted: { status: number; error: object | string }
  /** The body of an error with a code that nobody knows (`refusedStatus`). */
  unknown: object | string
  /** The answer to GET, by which Dealbell may look at the webhook. */
  about?: object
}

const mostMessages = 200

/** A chat with one channel and one webhook. It forgets its messages when the server stops. */
export function createStandInByAddress(site: Site, chat: StandInChat): Hono {
  const { name } = registry[site.id]
  const page = `/sandbox/${site.id}`
  // The first one is the address of the button, at which every server can call its stand-in.
  const webhooks = ['/services/sales', new URL(chat.webhook, 'https://chat').pathname]
  /** The oldest first. */
  const messages: { id: string | undefined; at: Date; shown: Html }[] = []
  let posted = 0
  let isDeleted = false

  function answer(c: Context, status: number, body: object | string) {
    c.status(status as 200)
    return typeof body === 'string' ? c.body(body) : c.json(body)
  }

  return new Hono()
    .get('/', (c) =>
      channelPage(c, {
        site,
        title: 'sales (stand-in)',
        notice: `This is not ${name}. It plays a channel on this machine, and forgets its messages when it stops.`,
        head: html`<div class="channels">
          <p>${isDeleted ? 'The webhook is deleted.' : 'This channel has a webhook.'}</p>
          <form method="post" action="${page}">
            <button name="change" value="${isDeleted ? 'restore' : 'delete'}" class="secondary">${
              isDeleted ? 'Restore the webhook' : 'Delete the webhook'
            }</button>
          </form>
        </div>`,
        version: `${posted}-${isDeleted}`,
        messages: messages.map(({ at, shown }) => shownMessage(at, shown)),
      }),
    )
    .post('/', async (c) => {
      isDeleted = (await formFields(c)).change === 'delete'
      return c.redirect(page, 303)
    })
    .on('GET', webhooks, (c) =>
      isDeleted || chat.about === undefined
        ? answer(c, chat.deleted.status, chat.deleted.error)
        : c.json(chat.about),
    )
    .on('POST', webhooks, async (c) => {
      if (isDeleted) return answer(c, chat.deleted.status, chat.deleted.error)
      const refused = refusedStatus(await c.req.text())
      if (refused !== undefined) return answer(c, refused, chat.unknown)
      const body: unknown = await c.req.json().catch(() => undefined)
      const read = chat.read({ query: c.req.query(), body })
      if ('error' in read) return answer(c, read.status, read.error)
      const { id, shown } = read
      if (id === undefined || !messages.some((message) => message.id === id)) {
        posted++
        messages.push({ id, at: new Date(), shown })
        messages.splice(0, messages.length - mostMessages)
      }
      return answer(c, chat.accepted.status, chat.accepted.body)
    })
}
