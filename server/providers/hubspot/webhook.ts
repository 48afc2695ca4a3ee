import type { ProviderSettings } from '../calls.ts'
import { jsonIn } from '../crm-answers.ts'
import type { Crm } from '../provider.ts'
import { dealEvents } from './events.ts'
import { headerRefusal, signatureRefusal } from './signature.ts'

/** Reads HubSpot's webhooks: a JSON array of events, signed with one of the client secrets. */
export function createHubspotWebhook({
  clientSecret,
  olderSecrets = [],
}: ProviderSettings): Pick<Crm, 'webhookRefusal' | 'readWebhook'> {
  const secrets = [clientSecret, ...olderSecrets]
  return {
    webhookRefusal: (header, nowMs) => headerRefusal(signatureHeaders(header), nowMs),
    readWebhook({ method, url, header, body }, nowMs) {
      const request = { method, url, body, ...signatureHeaders(header) }
      const why = signatureRefusal(secrets, request, nowMs)
      if (why !== undefined) return { kind: 'not signed', why }
      const items = jsonIn(body)
      if (!Array.isArray(items)) return { kind: 'not understood' }
      return { kind: 'events', items: items.length, ...dealEvents(items) }
    },
  }
}

function signatureHeaders(header: (name: string) => string | undefined) {
  return {
    timestamp: header('X-HubSpot-Request-Timestamp') ?? '',
    signature: header('X-HubSpot-Signature-v3') ?? '',
  }
}
