import { createHash } from 'node:crypto'
import * as v from 'valibot'
import type { ProviderSettings } from '../calls.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { ifVisible, listOf, type PipedriveHttp } from './http.ts'
import { readMe } from './oauth.ts'
import { webhookPassword } from './webhook.ts'

/** The name of each of our webhooks begins so. */
const product = 'Dealbell'

const webhook = v.looseObject({
  id: v.number(),
  user_id: v.number(),
  name: v.nullish(v.string(), ''),
  is_active: v.nullish(v.union([v.number(), v.boolean()]), true),
  /** When it was removed. */
  remove_time: v.nullish(v.string()),
})

const anything = v.optional(v.unknown())

/** Keeps exactly one webhook for each user who is connected. */
export function createPipedriveSubscription(
  http: PipedriveHttp,
  { webhookUrl = '', clientSecret }: ProviderSettings,
) {
  const { call } = http
  function webhookOf(company: string) {
    const password = webhookPassword(clientSecret, company)
    return {
      subscription_url: webhookUrl,
      ...{ event_action: '*', event_object: 'deal', version: '2.0' },
      // Pipedrive may not show the password, so the name shows which one it is.
      name: `${product} ${createHash('sha256').update(password).digest('hex').slice(0, 8)}`,
      ...{ http_auth_user: company, http_auth_password: password },
    }
  }

  /**
   * Keeps the user's oldest webhook that works and is as wanted, and deletes our other ones of this user. If none is as
   * wanted and one is new, keeps the newest: Pipedrive may show it in another way.
   * @param wanted Missing: keeps none.
   * @returns whether there is one that is as wanted and works.
   */
  async function keepOne(
    access: CrmAccess,
    userId: number,
    wanted?: { name: string; subscription_url: string },
    { isNew = false } = {},
  ): Promise<boolean> {
    const shape = listOf(webhook)
    const { data } = await call(access, 'webhooks', 'v1/webhooks', shape)
    const own = data
      .filter(
        ({ name, user_id, remove_time }) =>
          name.startsWith(product) && user_id === userId && !remove_time,
      )
      .sort((a, b) => a.id - b.id)
    const kept = own.find(
      ({ is_active, name, subscription_url }) =>
        is_active && name === wanted?.name && subscription_url === wanted.subscription_url,
    )
    const last = isNew && kept === undefined ? own.at(-1) : undefined
    for (const { id } of own.filter((each) => each !== kept && each !== last)) {
      // Another process may have deleted it. And another app may have one of the same name, which is not ours to delete.
      await ifVisible(
        call(access, 'deleteWebhook', `v1/webhooks/${id}`, anything, { method: 'DELETE' }),
      )
    }
    return kept !== undefined
  }

  const subscribe: Crm['subscribe'] = async (access) => {
    const { id } = await readMe(http, access)
    const wanted = webhookOf(access.accountId)
    if (await keepOne(access, id, wanted)) return false
    const options = { method: 'POST', body: wanted } as const
    await call(access, 'makeWebhook', 'v1/webhooks', anything, options)
    // Another tab or process may have made one, too.
    await keepOne(access, id, wanted, { isNew: true })
    return true
  }

  return {
    subscribe,

    /** Deletes all of our webhooks of this user. @throws ProviderError */
    async unsubscribe(access: CrmAccess): Promise<void> {
      const { id, company_id } = await readMe(http, access)
      const ofCompany = { ...access, accountId: String(company_id) }
      await keepOne(ofCompany, id)
    },
  }
}
