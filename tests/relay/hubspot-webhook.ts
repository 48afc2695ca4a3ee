import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'
import type { RichText, SlackBlocks } from '../../server/providers/slack/blocks.ts'

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
export function signedWebhook(
  items: unknown,
  at = Date.now(),
): {
  method: string
  headers: Record<string, string>
  body: string
} {
  const body = typeof items === 'string' ? items : JSON.stringify(items)
  return { method: 'POST', headers: hubSpotHeaders(Buffer.from(body), at), body }
}

export function hubSpotHeaders(body: Uint8Array, at = Date.now()): Record<string, string> {
  const timestamp = String(Math.floor(at))
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

/** The parts of a message, which may be a digest. Each is about one deal, and begins with its number. */
export function partsIn({ text, blocks }: { text: string; blocks: string }): string[] {
  // After each link to a deal, in Slack's blocks or in what people see in a chat by address.
  const [, ...linked] = blocks.split(/"text":"Deal (?=\d+")|>Deal (?=\d+<\/a>)/)
  return linked.length > 0 ? linked : text.split(/Deal (?=\d)/).slice(1, 2)
}

/** The deals of a message, in their order. */
export const dealsIn = (message: { text: string; blocks: string }): number[] =>
  partsIn(message).map((part) => Number.parseInt(part, 10))

/**
 * What people see of each block of a message. A link is written as `<address|text>`, bold text as `*text*`.
 * @param blocks as JSON, or the value of it. Text that Slack would parse for markup throws.
 */
export function shownIn(blocks: string | SlackBlocks): string[] {
  const all: SlackBlocks = typeof blocks === 'string' ? JSON.parse(blocks) : blocks
  return all.map((block) => {
    const parts =
      block.type === 'rich_text'
        ? block.elements.flatMap(({ elements }) => elements)
        : block.elements
    return parts.map(shownPart).join(block.type === 'rich_text' ? '' : '\n')
  })
}

type Block = SlackBlocks[number]

function shownPart(part: RichText | Extract<Block, { type: 'context' }>['elements'][number]) {
  switch (part.type) {
    case 'plain_text':
      return part.text
    case 'text':
      return part.style?.bold ? `*${part.text}*` : part.text
    case 'link':
      return `<${part.url}|${part.text}>`
    case 'date':
      return part.fallback
    case 'user':
      return `<@${part.user_id}>`
    default:
      throw new Error(`Slack parses this for markup: ${JSON.stringify(part)}`)
  }
}
