import { randomUUID } from 'node:crypto'
import {
  type DealData,
  maySee,
  type PipedriveCompany,
  type StandInUser,
  standInCompany,
} from './company.ts'

/** After the first try. */
const repeatAfterMs = [3_000, 30_000, 150_000]
/** So many first tries that fail end in a ban. */
const failuresOfBan = 10
const banMs = 30 * 60_000
/** Each delivery lasts up to three minutes. Further events are lost. */
const maxDeliveries = 500

interface WebhookWish {
  event_action: string
  subscription_url: string
  name: string
  http_auth_user: string | null
  http_auth_password: string | null
}

/** As the API tells a webhook. */
interface WebhookData extends WebhookWish {
  last_delivery_time: string | null
  last_http_status: number | null
}

export interface StandInWebhook {
  id: number
  user: StandInUser
  data: WebhookData
  failedFirstTries: number
  /** Milliseconds since 1970. */
  bannedUntil: number
}

/** The webhooks of all users. They are lost when the server stops. */
export class StandInWebhooks {
  readonly #webhooks = new Map<number, StandInWebhook>()
  readonly #users: readonly StandInUser[]
  /** The public address of this server, and the one at which this machine reaches it. */
  readonly #publicUrl: string
  readonly #local: string
  #nextId = 1
  #deliveries = 0

  constructor({
    users,
    apiUrl,
    settings,
  }: Pick<PipedriveCompany, 'users' | 'apiUrl' | 'settings'>) {
    this.#users = users
    this.#publicUrl = apiUrl
    this.#local = new URL(settings.apiUrl).origin
  }

  /** A stand-in calls only this server. Otherwise anyone could make it call others. */
  isAllowed(url: string): boolean {
    const origin = URL.parse(url)?.origin
    return origin === this.#local || origin === new URL(this.#publicUrl).origin
  }

  add(user: StandInUser, wish: WebhookWish): StandInWebhook {
    const data = { ...wish, last_delivery_time: null, last_http_status: null }
    const webhook = { id: this.#nextId++, user, data, failedFirstTries: 0, bannedUntil: 0 }
    this.#webhooks.set(webhook.id, webhook)
    return webhook
  }

  of(user: StandInUser): StandInWebhook[] {
    return [...this.#webhooks.values()].filter((webhook) => webhook.user === user)
  }

  get(id: string): StandInWebhook | undefined {
    return this.#webhooks.get(Number(id))
  }

  delete({ id }: StandInWebhook): void {
    this.#webhooks.delete(id)
  }

  /** Tells each webhook whose user may see the deal what an admin has done. */
  report(
    action: 'create' | 'change' | 'delete',
    deal: DealData,
    previous: Partial<DealData> | null,
  ): void {
    const readers = this.#users.filter((user) => maySee(user, deal))
    const meta = {
      action,
      entity: 'deal',
      entity_id: `${deal.id}`,
      company_id: `${standInCompany.company_id}`,
      user_id: `${this.#users[0]?.id}`,
      id: randomUUID(),
      correlation_id: randomUUID(),
      timestamp: new Date().toISOString(),
      type: 'application',
      version: '2.0',
      change_source: 'app',
      is_bulk_edit: false,
      host: `${standInCompany.company_domain}.pipedrive.com`,
      permitted_user_ids: readers.map(({ id }) => `${id}`),
    }
    const body = { meta, data: action === 'delete' ? null : deal, previous }
    for (const webhook of this.#webhooks.values()) {
      const wants = ['*', action].includes(webhook.data.event_action)
      if (!wants || !readers.includes(webhook.user)) continue
      if (webhook.bannedUntil > Date.now() || this.#deliveries >= maxDeliveries) continue
      this.#deliveries++
      void this.#deliver(webhook, body).finally(() => this.#deliveries--)
    }
  }

  async #deliver(webhook: StandInWebhook, body: { meta: object }): Promise<void> {
    const ids = { webhook_id: `${webhook.id}`, webhook_owner_id: `${webhook.user.id}` }
    for (const [n, waitMs] of [0, ...repeatAfterMs].entries()) {
      if (n > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
      // Deleted meanwhile.
      if (!this.#webhooks.has(webhook.id)) return
      const meta = { ...body.meta, ...ids, attempt: n + 1 }
      if (await this.#send(webhook.data, { ...body, meta })) return
      if (n > 0 || ++webhook.failedFirstTries < failuresOfBan) continue
      webhook.failedFirstTries = 0
      webhook.bannedUntil = Date.now() + banMs
    }
  }

  async #send(data: WebhookData, body: object): Promise<boolean> {
    const basic = `${data.http_auth_user ?? ''}:${data.http_auth_password ?? ''}`
    // Sent directly to this server and not through a proxy.
    const url = data.subscription_url.replace(this.#publicUrl, () => this.#local)
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        Authorization: `Basic ${Buffer.from(basic).toString('base64')}`,
      },
      body: JSON.stringify(body),
      redirect: 'manual',
      signal: AbortSignal.timeout(10_000),
    }).catch(() => undefined)
    data.last_delivery_time = new Date().toISOString()
    data.last_http_status = answer?.status ?? null
    return answer?.ok ?? false
  }
}
