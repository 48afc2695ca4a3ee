import type { Crm } from '../provider.ts'
import { dealEvents } from './events.ts'
import { isSignedByHubSpot } from './signature.ts'

/** Reads HubSpot's webhooks: a JSON array of events, signed with the client secret. */
export function createHubspotWebhook(clientSecret: string): Pick<Crm, 'readWebhook'> {
  return {
    readWebhook({ method, url, header, body }, nowMs) {
      const timestamp = header('X-HubSpot-Request-Timestamp')
      const signature = header('X-HubSpot-Signature-v3')
      const request = { method, url, body, timestamp, signature }
      if (!isSignedByHubSpot(clientSecret, request, nowMs)) return { kind: 'not signed' }
      const items = parseArray(body)
      if (items === undefined) return { kind: 'not understood' }
      return { kind: 'events', items: items.length, events: dealEvents(items) }
    },
  }
}

function parseArray(body: Uint8Array): unknown[] | undefined {
  try {
    const items: unknown = JSON.parse(new TextDecoder().decode(body))
    return Array.isArray(items) ? items : undefined
  } catch {
    return undefined
  }
}
