import { createHmac, timingSafeEqual } from 'node:crypto'

/** The largest difference between a request's timestamp and our clock, in milliseconds. */
const toleranceMs = 300_000

/** HubSpot decodes only these twelve escapes in the address before it signs. */
const decodedEscapes = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

export interface SignedRequest {
  method: string
  /** The public address from the settings. Behind a proxy, the request may have another one. */
  url: string
  /** The received bytes. */
  body: Uint8Array
  /** X-HubSpot-Request-Timestamp, in ms. */
  timestamp: string | undefined
  /** X-HubSpot-Signature-v3. */
  signature: string | undefined
}

/** Whether HubSpot signed this request (signature v3) within five minutes of `nowMs`. */
export function isSignedByHubSpot(
  clientSecret: string,
  { method, url, body, timestamp, signature }: SignedRequest,
  nowMs: number,
): boolean {
  if (timestamp === undefined || signature === undefined) return false
  // Only digits: Number() would also accept '', '1e12', ' 1 ' and '0x1'.
  if (!/^\d{1,15}$/.test(timestamp)) return false
  if (Math.abs(nowMs - Number(timestamp)) > toleranceMs) return false

  const expected = Buffer.from(hubSpotSignature(clientSecret, { method, url, body, timestamp }))
  // Compare the texts, because several base64 texts decode to the same bytes.
  const given = Buffer.from(signature)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** Returns the signature v3 of a request, in base64. The stand-in also uses it. */
export function hubSpotSignature(
  clientSecret: string,
  { method, url, body, timestamp }: Omit<SignedRequest, 'signature'> & { timestamp: string },
): string {
  return createHmac('sha256', clientSecret)
    .update(method)
    .update(url.replace(decodedEscapes, decodeURIComponent))
    .update(body)
    .update(timestamp)
    .digest('base64')
}
