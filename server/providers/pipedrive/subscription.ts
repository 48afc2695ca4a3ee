import { createHash } from 'node:crypto'
import * as v from 'valibot'
import type { ProviderSettings } from '../calls.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { ifVisible, listOf, type PipedriveHttp } from './http.ts'
import { webhookPassword } from './webhook.ts'

const made = v.object({ id: v.number() })
const webhook = v.looseObject({
  id: v.number(),
  user_id: v.number(),
  name: v.nullish(v.string()),
  subscription_url: v.nullish(v.string()),
  is_active: v.nullish(v.union([v.number(), v.boolean()]), true),
  /** When it was removed. */
  remove_time: v.nullish(v.string()),
})

const anything = v.optional(v.unknown())

/** Another process may have deleted it, or it is not ours to delete. @throws ProviderError */
export const deleteWebhook = ({ call }: PipedriveHttp, access: CrmAccess, id: string | number) =>
  ifVisible(call(access, 'deleteWebhook', `v1/webhooks/${id}`, anything, { method: 'DELETE' }))

/** Keeps one webhook for each user who is connected. */
export function createPipedriveSubscription(
  http: PipedriveHttp,
  { webhookUrl = '', clientSecret }: ProviderSettings,
): NonNullable<Crm['webhooks']> {
  const { call } = http
  function webhookOf(company: string) {
    const password = webhookPassword(clientSecret, company)
    return {
      subscription_url: webhookUrl,
      ...{ event_action: '*', event_object: 'deal', version: '2.0' },
      // Pipedrive may not show the password, so the name shows which one it is.
      name: `Dealbell ${createHash('sha256').update(password).digest('hex').slice(0, 8)}`,
      ...{ http_auth_user: company, http_auth_password: password },
    }
  }

  return {
    async find(access, { grantId, webhookId }) {
      const wanted = webhookOf(access.accountId)
      const { data } = await call(access, 'webhooks', 'v1/webhooks', listOf(webhook))
      // Others of the same app may be those of another server, such as one for tests.
      const own = data.filter(
        ({ id, user_id, subscription_url, remove_time }) =>
          `${access.accountId}:${user_id}` === grantId &&
          (String(id) === webhookId || subscription_url === webhookUrl) &&
          !remove_time,
      )
      const right = own.filter(
        ({ is_active, name, subscription_url }) =>
          is_active && name === wanted.name && subscription_url === webhookUrl,
      )
      const kept = right.find(({ id }) => String(id) === webhookId) ?? right[0]
      for (const each of own) if (each !== kept) await deleteWebhook(http, access, each.id)
      return kept && String(kept.id)
    },

    async make(access) {
      const options = { method: 'POST', body: webhookOf(access.accountId) } as const
      const { data } = await call(access, 'makeWebhook', 'v1/webhooks', made, options)
      return String(data.id)
    },
  }
}
