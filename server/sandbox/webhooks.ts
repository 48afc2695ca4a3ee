import { setTimeout as delay } from 'node:timers/promises'
import { propertyNames } from '../providers/hubspot/properties.ts'
import { hubSpotSignature } from '../providers/hubspot/signature.ts'
import type { ProviderSettings } from '../providers/provider.ts'
import { watchedProperties } from '../relay/rules.ts'
import type { Change, StandInDeal } from './deals.ts'
import { standInHub } from './hub.ts'

interface StandInWebhook {
  deal: StandInDeal
  change: Change
  eventId: number
}

/** Each webhook that is being sent uses two connections of this process. */
const maxWebhooks = 10
const maxWaitingWebhooks = 500

/** The properties to which the app subscribes (server/doctor/manifests.ts). */
const subscribed: ReadonlySet<string> = new Set(
  [...watchedProperties].map((property) => propertyNames[property]),
)

/**
 * Creates the function that reports a change soon. If too many changes wait, the oldest is never reported.
 */
export function createStandInWebhooks({
  settings,
  apiUrl,
}: {
  settings: ProviderSettings
  apiUrl: string
}): (deal: StandInDeal, change: Change) => void {
  /** The oldest first. */
  const waiting: StandInWebhook[] = []
  let sending = 0
  let nextEventId = 1

  async function sendWaiting(): Promise<void> {
    if (sending >= maxWebhooks) return
    sending++
    for (;;) {
      const next = waiting.shift()
      if (next === undefined) break
      await sendWebhook(next)
    }
    sending--
  }

  /** Sends a webhook as HubSpot does: signed, in a batch, and again if it is not acknowledged. */
  async function sendWebhook({ deal, change, eventId }: StandInWebhook) {
    for (let attempt = 0; attempt < 10; attempt++) {
      const body = Buffer.from(
        JSON.stringify([
          {
            eventId,
            subscriptionId: 2_000_001,
            portalId: standInHub.hubId,
            appId: standInHub.appId,
            occurredAt: change.at,
            subscriptionType: 'object.propertyChange',
            attemptNumber: attempt,
            objectId: Number(deal.id),
            objectTypeId: '0-3',
            propertyName: change.property,
            propertyValue: change.value,
            changeSource: 'CRM_UI',
            sourceId: `userId:${standInHub.userId}`,
          },
        ]),
      )
      const timestamp = String(Date.now())
      // Signed for the public address, but sent directly to this server and not through a proxy.
      const url = `${apiUrl}/webhooks/hubspot`
      const signature = hubSpotSignature(settings.clientSecret, {
        method: 'POST',
        url,
        body,
        timestamp,
      })
      try {
        const answer = await fetch(`${new URL(settings.apiUrl).origin}/webhooks/hubspot`, {
          method: 'POST',
          headers: {
            'Content-Type': 'application/json',
            'X-HubSpot-Request-Timestamp': timestamp,
            'X-HubSpot-Signature-v3': signature,
          },
          body,
          signal: AbortSignal.timeout(5_000),
        })
        if (answer.ok) return
      } catch {
        // HubSpot repeats a webhook that got no answer or an error, 4xx too.
      }
      await delay(1_000 * 2 ** attempt)
    }
  }

  return function report(deal, change) {
    if (!subscribed.has(change.property)) return
    waiting.push({ deal, change, eventId: nextEventId++ })
    if (waiting.length > maxWaitingWebhooks) waiting.shift()
    void sendWaiting()
  }
}
