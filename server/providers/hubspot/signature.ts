import { createHmac, timingSafeEqual } from 'node:crypto'

/** The largest difference between a request's timestamp and our clock, in milliseconds. */
const toleranceMs = 300_000

/** HubSpot decodes only these twelve escapes in the address before it signs. */
const decodedEscapes = /%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi

interface SignatureHeaders {
  /** X-HubSpot-Request-Timestamp, in ms. */
  timestamp: string | undefined
  /** X-HubSpot-Signature-v3. */
  signature: string | undefined
}

interface SignedRequest extends SignatureHeaders {
  method: string
  /** The configured public address. A proxy may show another one. */
  url: string
  /** The bytes as they came. */
  body: Uint8Array
}

/** Whether HubSpot may have signed a request with these headers. It does not need the body. */
export function canBeSigned<Headers extends SignatureHeaders>(
  headers: Headers,
  nowMs: number,
): headers is Headers & { timestamp: string; signature: string } {
  const { timestamp, signature } = headers
  // 32 bytes in base64.
  if (signature === undefined || !/^[A-Za-z0-9+/]{43}=$/.test(signature)) return false
  // Only digits: Number() would also accept '', '1e12', ' 1 ' and '0x1'.
  if (timestamp === undefined || !/^\d{1,15}$/.test(timestamp)) return false
  return Math.abs(nowMs - Number(timestamp)) <= toleranceMs
}

/** Whether HubSpot signed this request (signature v3) within five minutes of `nowMs`. */
export function isSignedByHubSpot(
  clientSecret: string,
  request: SignedRequest,
  nowMs: number,
): boolean {
  if (!canBeSigned(request, nowMs)) return false
  const expected = Buffer.from(hubSpotSignature(clientSecret, request))
  // Compare the texts: several base64 texts decode to the same bytes.
  const given = Buffer.from(request.signature)
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
