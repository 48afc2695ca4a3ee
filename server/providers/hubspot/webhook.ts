import type { Crm } from '../provider.ts'
import { dealEvents } from './events.ts'
import { canBeSigned, isSignedByHubSpot } from './signature.ts'

/** Reads HubSpot's webhooks: a JSON array of events, signed with the client secret. */
export function createHubspotWebhook(
  clientSecret: string,
): Pick<Crm, 'mayBeWebhook' | 'readWebhook'> {
  return {
    mayBeWebhook: (header, nowMs) => canBeSigned(signatureHeaders(header), nowMs),
    readWebhook({ method, url, header, body }, nowMs) {
      const request = { method, url, body, ...signatureHeaders(header) }
      if (!isSignedByHubSpot(clientSecret, request, nowMs)) return { kind: 'not signed' }
      const items = parseArray(body)
      if (items === undefined) return { kind: 'not understood' }
      return { kind: 'events', items: items.length, events: dealEvents(items) }
    },
  }
}

function signatureHeaders(header: (name: string) => string | undefined) {
  return {
    timestamp: header('X-HubSpot-Request-Timestamp'),
    signature: header('X-HubSpot-Signature-v3'),
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
