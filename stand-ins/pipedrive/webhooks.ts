import { randomUUID } from 'node:crypto'
import type { ProviderSettings } from '../../server/providers/calls.ts'
import { type DealData, maySee, type StandInUser, standInCompany } from './company.ts'

export const maxWebhooksOfUser = 40
/** After the first try. */
const repeatAfterMs = [3_000, 30_000, 150_000]
/** So many first tries that fail end in a ban. */
const failuresOfBan = 10
const banMs = 30 * 60_000
/** Each delivery lasts up to three minutes. Further events are lost. */
const maxDeliveries = 500

export interface StandInWebhook {
  id: number
  user: StandInUser
  url: string
  action: string
  name: string
  basicUser: string | null
  basicPassword: string | null
  addTime: string
  failedFirstTries: number
  /** Milliseconds since 1970. */
  bannedUntil: number
  lastStatus: number | null
  lastTime: string | null
}

interface DealEvent {
  action: 'create' | 'change' | 'delete'
  data: DealData | null
  previous: Partial<DealData> | null
}

/** The webhooks of all users. They are lost when the server stops. */
export class StandInWebhooks {
  readonly #webhooks = new Map<number, StandInWebhook>()
  readonly #users: readonly StandInUser[]
  /** The public address of this server, and the one at which this machine reaches it. */
  readonly #addresses: { public: string; local: string }
  #nextId = 1
  #deliveries = 0

  constructor(users: readonly StandInUser[], apiUrl: string, settings: ProviderSettings) {
    this.#users = users
    this.#addresses = { public: apiUrl, local: new URL(settings.apiUrl).origin }
  }

  /** A stand-in calls only this server. Otherwise anyone could make it call others. */
  isAllowed(url: string): boolean {
    const { origin } = URL.parse(url) ?? {}
    return Object.values(this.#addresses).some((known) => new URL(known).origin === origin)
  }

  add(
    webhook: Pick<
      StandInWebhook,
      'user' | 'url' | 'action' | 'name' | 'basicUser' | 'basicPassword'
    >,
  ): StandInWebhook {
    const added = {
      ...webhook,
      id: this.#nextId++,
      addTime: new Date().toISOString(),
      failedFirstTries: 0,
      bannedUntil: 0,
      lastStatus: null,
      lastTime: null,
    }
    this.#webhooks.set(added.id, added)
    return added
  }

  of(user: StandInUser): StandInWebhook[] {
    return [...this.#webhooks.values()].filter((webhook) => webhook.user === user)
  }

  get(id: number): StandInWebhook | undefined {
    return this.#webhooks.get(id)
  }

  delete(id: number): void {
    this.#webhooks.delete(id)
  }

  /** Tells each webhook whose user may see the deal. */
  report(event: DealEvent, by: StandInUser | undefined): void {
    const deal = event.data ?? event.previous
    const owner_id = deal?.owner_id ?? 0
    const readers = this.#users.filter((user) => maySee(user, { owner_id }))
    const meta = {
      action: event.action,
      entity: 'deal',
      entity_id: String(deal?.id),
      company_id: String(standInCompany.id),
      user_id: String(by?.id),
      id: randomUUID(),
      correlation_id: randomUUID(),
      timestamp: new Date().toISOString(),
      type: 'application',
      version: '2.0',
      change_source: 'app',
      is_bulk_edit: false,
      host: `${standInCompany.domain}.pipedrive.com`,
      permitted_user_ids: readers.map(({ id }) => String(id)),
    }
    for (const webhook of this.#webhooks.values()) {
      if (!readers.includes(webhook.user) || !['*', event.action].includes(webhook.action)) continue
      if (webhook.bannedUntil > Date.now() || this.#deliveries >= maxDeliveries) continue
      this.#deliveries++
      void this.#deliver(webhook, { meta, ...event }).finally(() => this.#deliveries--)
    }
  }

  async #deliver(
    webhook: StandInWebhook,
    { meta, data, previous }: DealEvent & { meta: object },
  ): Promise<void> {
    const { id, user } = webhook
    const about = { ...meta, webhook_id: String(id), webhook_owner_id: String(user.id) }
    for (const [n, waitMs] of [0, ...repeatAfterMs].entries()) {
      if (n > 0) await new Promise((resolve) => setTimeout(resolve, waitMs))
      // Deleted meanwhile.
      if (!this.#webhooks.has(id)) return
      if (await this.#send(webhook, { meta: { ...about, attempt: n + 1 }, data, previous })) return
      if (n > 0 || ++webhook.failedFirstTries < failuresOfBan) continue
      webhook.failedFirstTries = 0
      webhook.bannedUntil = Date.now() + banMs
    }
  }

  async #send(webhook: StandInWebhook, body: object): Promise<boolean> {
    const { basicUser, basicPassword } = webhook
    const basic = Buffer.from(`${basicUser}:${basicPassword ?? ''}`).toString('base64')
    // Sent directly to this server and not through a proxy.
    const url = webhook.url.replace(this.#addresses.public, this.#addresses.local)
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        ...(basicUser !== null && { Authorization: `Basic ${basic}` }),
      },
      body: JSON.stringify(body),
      redirect: 'manual',
      signal: AbortSignal.timeout(10_000),
    }).catch(() => undefined)
    webhook.lastTime = new Date().toISOString()
    webhook.lastStatus = answer?.status ?? null
    return answer?.ok ?? false
  }
}
