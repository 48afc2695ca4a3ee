import * as v from 'valibot'
import type { ProviderSettings, Timeouts } from '../calls.ts'
import { unlessMissing } from '../crm-answers.ts'
import type { Crm, CrmAccess } from '../provider.ts'
import { hidden, missing, type PipedriveHttp } from './http.ts'
import { readMe } from './oauth.ts'
import { webhookPassword } from './webhook.ts'

const name = 'Dealbell'

const webhooksAnswer = v.object({
  data: v.nullish(
    v.array(
      v.object({
        id: v.number(),
        user_id: v.number(),
        name: v.nullish(v.string()),
        is_active: v.nullish(v.union([v.number(), v.boolean()])),
        subscription_url: v.nullish(v.string()),
        event_action: v.nullish(v.string()),
        event_object: v.nullish(v.string()),
        version: v.nullish(v.string()),
        http_auth_user: v.nullish(v.string()),
        http_auth_password: v.nullish(v.string()),
      }),
    ),
    [],
  ),
})

type Webhook = NonNullable<v.InferOutput<typeof webhooksAnswer>['data']>[number]

/** Keeps exactly one webhook for each user who is connected. */
export function createPipedriveSubscription(
  http: PipedriveHttp,
  { webhookUrl = '', clientSecret }: ProviderSettings,
  timeouts: Timeouts,
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

  function isRight(webhook: Webhook, company: string): boolean {
    const wanted: Partial<Webhook> = webhookOf(company)
    const isAsMade = Object.entries(wanted).every(
      ([key, value]) => webhook[key as keyof Webhook] === value,
    )
    return isAsMade && Boolean(webhook.is_active)
  }

  /** Deletes the user's webhooks of this name but the oldest that is right. @returns whether there is one. */
  async function keepOne(
    access: CrmAccess,
    userId: number,
    { keep = true, timeoutMs = timeouts.callMs } = {},
  ): Promise<boolean> {
    const options = { timeoutMs }
    const { data } = await call(access, 'webhooks', 'v1/webhooks', webhooksAnswer, options)
    const own = (data ?? [])
      .filter((webhook) => webhook.name === name && webhook.user_id === userId)
      .sort((a, b) => a.id - b.id)
    const kept = keep ? own.find((webhook) => isRight(webhook, access.accountId)) : undefined
    for (const { id } of own.filter((webhook) => webhook !== kept)) {
      const path = `v1/webhooks/${id}`
      const deleted = call(access, 'deleteWebhook', path, v.unknown(), {
        method: 'DELETE',
        timeoutMs,
      })
      // Another process may have deleted it. And another app may have one of the same name, which is not ours to delete.
      await unlessMissing(deleted, [missing, hidden])
    }
    return kept !== undefined
  }

  const subscribe: Crm['subscribe'] = async (access) => {
    const { id } = await readMe(http, access)
    if (await keepOne(access, id)) return false
    const body = webhookOf(access.accountId)
    await call(access, 'makeWebhook', 'v1/webhooks', v.unknown(), { method: 'POST', body })
    // Another tab or process may have made one, too.
    await keepOne(access, id)
    return true
  }

  return {
    subscribe,

    /** Deletes all of the user's webhooks. @param timeoutMs for each call. @throws ProviderError */
    async unsubscribe(access: CrmAccess, timeoutMs: number): Promise<void> {
      const { id, company_id } = await readMe(http, access, timeoutMs)
      const ofCompany = { ...access, accountId: String(company_id) }
      await keepOne(ofCompany, id, { keep: false, timeoutMs })
    },
  }
}
