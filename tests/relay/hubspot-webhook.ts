import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'

export const appUrl = 'https://dealbell.test'
export const clientSecret = 'hubspot-client-secret'

let lastEventId = 0

/** An item of a webhook; the deal and its stage are what a test is about. */
export function stageChange(
  dealId: number,
  {
    portal = 456,
    stage = 'next',
    at = Date.now(),
    ...more
  }: {
    portal?: number
    stage?: string
    at?: number
  } & Record<string, unknown> = {},
) {
  return {
    eventId: ++lastEventId,
    subscriptionId: 1,
    portalId: portal,
    appId: 1,
    occurredAt: at,
    subscriptionType: 'deal.propertyChange',
    attemptNumber: 0,
    objectId: dealId,
    propertyName: 'dealstage',
    propertyValue: stage,
    changeSource: 'CRM_UI',
    ...more,
  }
}

/** The request by which HubSpot tells of items, signed as HubSpot signs. */
export function signedWebhook(items: unknown): {
  method: string
  headers: Record<string, string>
  body: string
} {
  const body = typeof items === 'string' ? items : JSON.stringify(items)
  return { method: 'POST', headers: hubSpotHeaders(Buffer.from(body)), body }
}

export function hubSpotHeaders(body: Uint8Array): Record<string, string> {
  const timestamp = String(Date.now())
  const url = `${appUrl}/webhooks/hubspot`
  return {
    'Content-Type': 'application/json',
    'X-HubSpot-Request-Timestamp': timestamp,
    'X-HubSpot-Signature-v3': hubSpotSignature(clientSecret, {
      method: 'POST',
      url,
      body,
      timestamp,
    }),
  }
}

/** The deal that a message is about; the outside world names deals by their ids. */
export function dealIn({ text }: { text: string }): number {
  return Number(text.match(/Deal (\d+)/)?.[1])
}

/** The deals of a message, which may be a digest, in their order. */
export function dealsIn({ text, blocks }: { text: string; blocks: string }): number[] {
  const links = blocks.matchAll(/\|Deal (\d+)>/g)
  const deals = [...links].map(([, id]) => Number(id))
  return deals.length > 0 ? deals : [dealIn({ text })]
}
