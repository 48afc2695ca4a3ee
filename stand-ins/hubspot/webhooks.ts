import { setTimeout as delay } from 'node:timers/promises'
import type { ProviderSettings } from '../../server/providers/calls.ts'
import { propertyNames } from '../../server/providers/hubspot/properties.ts'
import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'
import { watchedProperties } from '../../server/relay/decide/rules.ts'
import { type Change, type StandInDeal, standInHub } from './account.ts'

/** Each webhook that is being sent uses two connections of this process. */
const maxWebhooks = 10
const maxWaitingEvents = 500
const maxEventsOfWebhook = 100
/** Events of this time share a webhook. */
const collectMs = 100
/** HubSpot sometimes repeats an acknowledged webhook. The stand-in always does, after this many milliseconds. */
const repeatAfterMs = 500

/** The properties to which the app subscribes (server/doctor/manifests.ts). */
const subscribed: ReadonlySet<string> = new Set(
  [...watchedProperties].map((property) => propertyNames[property]),
)

/**
 * Creates the functions that report what happened. An operator's app may have more subscriptions than
 * Dealbell needs, so webhooks also have events of other kinds. If too many events wait, the oldest is never
 * reported.
 */
export function createStandInWebhooks({
  settings,
  apiUrl,
}: {
  settings: ProviderSettings
  apiUrl: string
}) {
  /** The oldest first. */
  const waiting: object[] = []
  let sending = 0
  let collecting = false
  let nextEventId = 1

  function report(subscriptionType: string, occurredAt: number, more: object): void {
    waiting.push({
      eventId: nextEventId++,
      subscriptionId: 2_000_001,
      portalId: standInHub.hubId,
      appId: standInHub.appId,
      occurredAt,
      subscriptionType,
      changeSource: 'CRM_UI',
      sourceId: `userId:${standInHub.userId}`,
      ...more,
    })
    if (waiting.length > maxWaitingEvents) waiting.shift()
    if (collecting) return
    collecting = true
    setTimeout(() => {
      collecting = false
      sendWaiting()
    }, collectMs)
  }

  function sendWaiting(): void {
    while (sending < maxWebhooks && waiting.length > 0) {
      sending++
      void sendUntilAcknowledged(waiting.splice(0, maxEventsOfWebhook)).then(() => {
        sending--
        sendWaiting()
      })
    }
  }

  /**
   * HubSpot guarantees no order. So each attempt sends the newest event first. The repeat after the acknowledgement
   * sends the oldest event first.
   */
  async function sendUntilAcknowledged(events: readonly object[]): Promise<void> {
    for (let attempt = 0; attempt < 10; attempt++) {
      if (await send(events.toReversed(), attempt)) {
        await delay(repeatAfterMs)
        await send(events, attempt + 1)
        return
      }
      await delay(1_000 * 2 ** attempt)
    }
  }

  /** Sends a webhook, signed as HubSpot does. @returns whether it was acknowledged. */
  async function send(events: readonly object[], attemptNumber: number): Promise<boolean> {
    const items = events.map((event) => ({ ...event, attemptNumber }))
    const body = Buffer.from(JSON.stringify(items))
    const timestamp = String(Date.now())
    // Signed for the public address, but sent directly to this server and not through a proxy.
    const url = `${apiUrl}/webhooks/hubspot`
    const request = { method: 'POST', url, body, timestamp }
    try {
      const answer = await fetch(`${new URL(settings.apiUrl).origin}/webhooks/hubspot`, {
        method: 'POST',
        headers: {
          'Content-Type': 'application/json',
          'X-HubSpot-Request-Timestamp': timestamp,
          'X-HubSpot-Signature-v3': hubSpotSignature(settings.clientSecret, request),
        },
        body,
        signal: AbortSignal.timeout(5_000),
      })
      return answer.ok
    } catch {
      // HubSpot repeats a webhook that got no answer or an error, 4xx too.
      return false
    }
  }

  const ofDeal = ({ id }: StandInDeal) => ({ objectId: Number(id), objectTypeId: '0-3' })

  return {
    changed(deal: StandInDeal, { property, value, at }: Change): void {
      if (!subscribed.has(property)) return
      const change = { propertyName: property, propertyValue: value }
      report('object.propertyChange', at, { ...ofDeal(deal), ...change })
    },
    /** HubSpot reports the values of a new deal like any other change. */
    created(deal: StandInDeal): void {
      report('object.creation', Date.now(), { ...ofDeal(deal), changeFlag: 'NEW' })
      for (const change of deal.history) this.changed(deal, change)
    },
    merged(primary: StandInDeal, other: StandInDeal, merged: StandInDeal): void {
      report('object.merge', Date.now(), {
        ...ofDeal(merged),
        primaryObjectId: Number(primary.id),
        mergedObjectIds: [Number(other.id)],
        newObjectId: Number(merged.id),
        numberOfPropertiesMoved: 0,
      })
    },
    linked(deal: StandInDeal, kind: 'contact' | 'company', has: boolean): void {
      report('object.associationChange', Date.now(), {
        associationType: kind === 'contact' ? 'DEAL_TO_CONTACT' : 'DEAL_TO_COMPANY',
        fromObjectId: Number(deal.id),
        fromObjectTypeId: '0-3',
        toObjectId: kind === 'contact' ? 301 : 501,
        toObjectTypeId: kind === 'contact' ? '0-1' : '0-2',
        associationRemoved: !has,
        isPrimaryAssociation: true,
      })
    },
  }
}
