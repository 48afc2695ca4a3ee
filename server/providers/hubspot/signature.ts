import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WebhookRefusal } from '../provider.ts'

/** The largest difference between a request's timestamp and our clock, in milliseconds. */
const signedWithinMs = 300_000

/** HubSpot decodes only these twelve escapes in the address before it signs. */
const decodedEscapes = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

/** A header that is missing is empty here. */
interface SignatureHeaders {
  /** X-HubSpot-Request-Timestamp, in ms. */
  timestamp: string
  /** X-HubSpot-Signature-v3. */
  signature: string
}

interface SignedRequest extends SignatureHeaders {
  method: string
  /** The address that HubSpot called. A proxy may show us another one. */
  url: string
  /** The bytes as they came. */
  body: Uint8Array
}

/**
 * Why HubSpot cannot have signed a request with these headers within five minutes of `nowMs`; undefined
 * if it may have. This needs no body.
 */
export function headerRefusal(
  { timestamp, signature }: SignatureHeaders,
  nowMs: number,
): Exclude<WebhookRefusal, 'signature'> | undefined {
  // 32 bytes in base64.
  if (!/^[A-Za-z0-9+/]{43}=$/.test(signature)) return 'missing'
  // Only digits: Number() would also accept '', '1e12', ' 1 ' and '0x1'.
  if (!/^\d{1,15}$/.test(timestamp)) return 'missing'
  return Math.abs(nowMs - Number(timestamp)) <= signedWithinMs ? undefined : 'time'
}

/**
 * Why HubSpot did not sign this request (signature v3) with one of these secrets within five minutes of
 * `nowMs`; undefined if it did.
 */
export function signatureRefusal(
  clientSecrets: readonly string[],
  request: SignedRequest,
  nowMs: number,
): WebhookRefusal | undefined {
  const refusal = headerRefusal(request, nowMs)
  if (refusal !== undefined) return refusal
  // Compare the texts: several base64 texts decode to the same bytes. `headerRefusal` knows their length.
  const given = Buffer.from(request.signature)
  const isSigned = clientSecrets.some((secret) =>
    timingSafeEqual(given, Buffer.from(hubSpotSignature(secret, request))),
  )
  return isSigned ? undefined : 'signature'
}

/** Returns the signature v3 of a request, in base64. The stand-in also uses it. */
export function hubSpotSignature(
  clientSecret: string,
  { method, url, body, timestamp }: Omit<SignedRequest, 'signature'>,
): string {
  return createHmac('sha256', clientSecret)
    .update(method)
    .update(url.replace(decodedEscapes, decodeURIComponent))
    .update(body)
    .update(timestamp)
    .digest('base64')
}
