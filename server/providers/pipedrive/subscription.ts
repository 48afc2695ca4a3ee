import * as v from 'valibot'
import type { ProviderSettings } from '../calls.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { ifVisible, listOf, type PipedriveHttp } from './http.ts'
import { readMe } from './oauth.ts'
import { webhookPassword } from './webhook.ts'

const name = 'Dealbell'

const webhook = v.looseObject({
  id: v.number(),
  user_id: v.number(),
  is_active: v.nullish(v.union([v.number(), v.boolean()])),
})

/** Keeps exactly one webhook for each user who is connected. */
export function createPipedriveSubscription(
  http: PipedriveHttp,
  { webhookUrl = '', clientSecret }: ProviderSettings,
) {
  const { call } = http
  const webhookOf = (company: string) => ({
    subscription_url: webhookUrl,
    event_action: '*',
    event_object: 'deal',
    version: '2.0',
    name,
    http_auth_user: company,
    http_auth_password: webhookPassword(clientSecret, company),
  })

  /**
   * Deletes the user's webhooks but the oldest that is as wanted and works. @returns whether there is one.
   */
  async function keepOne(
    access: CrmAccess,
    userId: number,
    wanted: ReturnType<typeof webhookOf> | undefined,
    timeoutMs?: number,
  ): Promise<boolean> {
    const shape = listOf(webhook)
    const { data } = await call(access, 'webhooks', 'v1/webhooks', shape, { timeoutMs })
    const own = data
      .filter((each) => each.name === name && each.user_id === userId)
      .sort((a, b) => a.id - b.id)
    const fields = Object.entries(wanted ?? { id: undefined })
    const kept = own.find(
      (each) => each.is_active && fields.every(([key, value]) => each[key] === value),
    )
    for (const { id } of own.filter((each) => each !== kept)) {
      const options = { method: 'DELETE', timeoutMs } as const
      const path = `v1/webhooks/${id}`
      // Another process may have deleted it. And another app may have one of the same name, which is not ours to delete.
      await ifVisible(call(access, 'deleteWebhook', path, v.optional(v.unknown()), options))
    }
    return kept !== undefined
  }

  const subscribe: Crm['subscribe'] = async (access) => {
    const { id } = await readMe(http, access)
    const body = webhookOf(access.accountId)
    if (await keepOne(access, id, body)) return false
    const options = { method: 'POST', body } as const
    await call(access, 'makeWebhook', 'v1/webhooks', v.optional(v.unknown()), options)
    // Another tab or process may have made one, too.
    await keepOne(access, id, body)
    return true
  }

  return {
    subscribe,

    /** Deletes all of the user's webhooks. @param timeoutMs for each call. @throws ProviderError */
    async unsubscribe(access: CrmAccess, timeoutMs: number): Promise<void> {
      const { id, company_id } = await readMe(http, access, timeoutMs)
      const ofCompany = { ...access, accountId: String(company_id) }
      await keepOne(ofCompany, id, undefined, timeoutMs)
    },
  }
}
