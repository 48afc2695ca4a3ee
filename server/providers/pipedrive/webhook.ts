import { createHmac } from 'node:crypto'
import * as v from 'valibot'
import { credentialsIn, isSameSecret } from '../basic-auth.ts'
import type { ProviderSettings } from '../calls.ts'
import { idNumber, jsonIn } from '../crm-answers.ts'
import type { Crm, WebhookRefusal } from '../provider.ts'
import { readBody } from './events.ts'

type ReadHeader = (name: string) => string | undefined

const uninstallBody = v.object({ client_id: v.string(), company_id: idNumber, user_id: idNumber })

/** The password of a company's webhooks. Nothing needs to be stored, and no company knows that of another one. */
export const webhookPassword = (clientSecret: string, company: string) =>
  createHmac('sha256', clientSecret).update(`webhook:${company}`).digest('base64url')

/** Reads Pipedrive's webhooks: one edit each. Only the user and the password of Basic authentication protect them. */
export function createPipedriveWebhook({
  clientId,
  clientSecret,
  olderSecrets = [],
}: ProviderSettings): Pick<
  Crm,
  'webhookRefusal' | 'mostEventsAnHour' | 'readWebhook' | 'uninstalledBy'
> {
  const secrets = [clientSecret, ...olderSecrets]

  /** The company that a webhook's header names, or why it is refused. */
  function senderIn(header: ReadHeader): { company?: string; why?: WebhookRefusal } {
    const { user = '', password = '' } = credentialsIn(header('Authorization')) ?? {}
    if (!/^\d{1,20}$/.test(user)) return { why: 'missing' }
    const isOurs = secrets.some((secret) => isSameSecret(password, webhookPassword(secret, user)))
    return isOurs ? { company: user } : { why: 'signature' }
  }

  return {
    webhookRefusal: (header) => senderIn(header).why,

    // Users of the company can read the password. A day of so many would use up several budgets of the smallest plan.
    mostEventsAnHour: 5_000,

    readWebhook({ header, body }) {
      const sender = senderIn(header)
      if (sender.why !== undefined) return { kind: 'not signed', why: sender.why }
      const { company = sender.company, ...content } = readBody(jsonIn(body))
      if (company !== sender.company) return { kind: 'not signed', why: 'signature' }
      // After several answers without 2xx, Pipedrive bans the webhook, and events are lost. So a body of an unknown
      // form gets 2xx, too.
      return { kind: 'events', items: 1, ...content }
    },

    uninstalledBy({ header, body }) {
      const { user, password = '' } = credentialsIn(header('Authorization')) ?? {}
      const isPipedrive =
        user === clientId && secrets.some((secret) => isSameSecret(password, secret))
      const { success, output } = v.safeParse(uninstallBody, isPipedrive ? jsonIn(body) : undefined)
      if (!success || output.client_id !== clientId) return undefined
      return { accountId: output.company_id, accountUserId: output.user_id }
    },
  }
}
