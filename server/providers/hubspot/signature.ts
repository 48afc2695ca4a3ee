import { createHmac, timingSafeEqual } from 'node:crypto'

/** How far a request's own time may be from ours, in either direction. */
const toleranceMs = 300_000

/** HubSpot signs the address with these twelve, and no others, decoded. */
const decodedInAddress = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

export interface SignedRequest {
  method: string
  /** The configured public address, not the one that a proxy shows. */
  url: string
  /** The bytes as they came: parsing and printing them again would change non-ASCII text. */
  body: Uint8Array
  /** X-HubSpot-Request-Timestamp, in ms. */
  timestamp: string | undefined
  /** X-HubSpot-Signature-v3. */
  signature: string | undefined
}

/** Whether HubSpot made this request (signature v3) within five minutes of `nowMs`. */
export function isSignedByHubSpot(
  clientSecret: string,
  { method, url, body, timestamp, signature }: SignedRequest,
  nowMs: number,
): boolean {
  if (timestamp === undefined || signature === undefined) return false
  // Digits alone: Number() would also take '', '1e12', ' 1 ' and '0x1'.
  if (!/^\d{1,15}$/.test(timestamp)) return false
  if (Math.abs(nowMs - Number(timestamp)) > toleranceMs) return false

  const expected = Buffer.from(hubSpotSignature(clientSecret, { method, url, body, timestamp }))
  // The texts are compared, since many texts of base64 decode to the same bytes.
  const given = Buffer.from(signature)
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** Signature v3 of a request, in base64; the stand-in signs with it too. */
export function hubSpotSignature(
  clientSecret: string,
  { method, url, body, timestamp }: Omit<SignedRequest, 'signature'> & { timestamp: string },
): string {
  return createHmac('sha256', clientSecret)
    .update(method)
    .update(url.replace(decodedInAddress, decodeURIComponent))
    .update(body)
    .update(timestamp)
    .digest('base64')
}
