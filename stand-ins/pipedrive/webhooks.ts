import { randomUUID } from 'node:crypto'
import * as v from 'valibot'
import { isLoopback } from '../../server/http/origin.ts'
import { basicAuth } from '../../server/providers/basic-auth.ts'
import { type DealData, maySee, type PipedriveCompany, type StandInUser } from './company.ts'

/** The wait before each repetition. */
const repeatAfterMs = [3_000, 30_000, 150_000]
/** So many first tries that fail end in a ban. */
const failuresOfBan = 10
const banMs = 30 * 60_000
/** A delivery lasts up to four minutes. If so many are under way, further events are lost. */
const maxDeliveries = 500

/** What makes a webhook. Only those for deals of this version are played. */
export const webhookBody = v.object({
  subscription_url: v.pipe(v.string(), v.url()),
  event_action: v.literal('*'),
  event_object: v.literal('deal'),
  name: v.pipe(v.string(), v.maxLength(255)),
  version: v.optional(v.literal('2.0'), '2.0'),
  http_auth_user: v.nullish(v.string(), null),
  http_auth_password: v.nullish(v.string(), null),
})

export interface StandInWebhook extends v.InferOutput<typeof webhookBody> {
  id: number
  user_id: number
  failedFirstTries: number
  /** Milliseconds since 1970. */
  bannedUntil: number
}

/** The webhooks of all users. They are lost when the server stops. */
export class StandInWebhooks {
  readonly #company: PipedriveCompany
  readonly all = new Map<number, StandInWebhook>()
  #nextId = 1
  #deliveries = 0

  constructor(company: PipedriveCompany) {
    this.#company = company
  }

  /** A stand-in calls only this server. Otherwise anyone could make it call others. */
  isAllowed(address: string): boolean {
    const { protocol, hostname, origin } = new URL(address)
    const { apiUrl, settings } = this.#company
    const own = [apiUrl, settings.apiUrl].map((url) => new URL(url).origin)
    return (protocol === 'https:' || isLoopback(hostname)) && own.includes(origin)
  }

  add(wish: Omit<StandInWebhook, 'id' | 'failedFirstTries' | 'bannedUntil'>): StandInWebhook {
    const webhook = { ...wish, id: this.#nextId++, failedFirstTries: 0, bannedUntil: 0 }
    this.all.set(webhook.id, webhook)
    return webhook
  }

  of(user: StandInUser): StandInWebhook[] {
    return [...this.all.values()].filter(({ user_id }) => user_id === user.id)
  }

  /** Tells each webhook whose user may see the deal what an admin has done. */
  report(action: string, deal: DealData, previous: Partial<DealData> | null): void {
    const { users, about } = this.#company
    const readers = users.filter((user) => maySee(user, deal))
    const meta = {
      action,
      entity: 'deal',
      entity_id: `${deal.id}`,
      company_id: `${about.company_id}`,
      user_id: `${users[0].id}`,
      id: randomUUID(),
      correlation_id: randomUUID(),
      timestamp: new Date().toISOString(),
      type: 'application',
      version: '2.0',
      change_source: 'app',
      is_bulk_edit: false,
      host: `${about.company_domain}.pipedrive.com`,
      permitted_user_ids: readers.map(({ id }) => `${id}`),
    }
    const body = { meta, data: action === 'delete' ? null : deal, previous }
    for (const webhook of readers.flatMap((user) => this.of(user))) {
      if (webhook.bannedUntil > Date.now() || this.#deliveries >= maxDeliveries) continue
      this.#deliveries++
      void this.#deliver(webhook, body).finally(() => this.#deliveries--)
    }
  }

  async #deliver(webhook: StandInWebhook, body: { meta: object }): Promise<void> {
    const { id, user_id, subscription_url, http_auth_user, http_auth_password } = webhook
    const auth = basicAuth(http_auth_user ?? '', http_auth_password ?? '')
    const of = { webhook_id: `${id}`, webhook_owner_id: `${user_id}` }
    for (const [n, waitMs] of [0, ...repeatAfterMs].entries()) {
      if (n > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
      // Deleted meanwhile.
      if (!this.all.has(id)) return
      const meta = { ...body.meta, ...of, attempt: n + 1 }
      const answer = await callApp(this.#company, 'POST', subscription_url, auth, { ...body, meta })
      if (answer?.ok) return
      if (n > 0 || ++webhook.failedFirstTries < failuresOfBan) continue
      webhook.failedFirstTries = 0
      webhook.bannedUntil = Date.now() + banMs
    }
  }
}

/**
 * Calls the app. @param auth the header of Basic authentication.
 * @returns its answer; undefined if there is none within ten seconds.
 */
export function callApp(
  { apiUrl, settings }: PipedriveCompany,
  method: string,
  address: string,
  auth: string,
  body: object,
): Promise<Response | undefined> {
  const url = new URL(address)
  // Directly to this server and not through a proxy.
  const isOwn = url.origin === new URL(apiUrl).origin
  return fetch(isOwn ? new URL(settings.apiUrl).origin + url.pathname + url.search : address, {
    method,
    headers: {
      'Content-Type': 'application/json',
      Authorization: auth,
    },
    body: JSON.stringify(body),
    redirect: 'manual',
    signal: AbortSignal.timeout(10_000),
  }).catch(() => undefined)
}
