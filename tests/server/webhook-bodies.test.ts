import { expect, test, vi } from 'vitest'
import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'
import { registry } from '../../server/watch/metrics.ts'
import { appUrl, refusal, shareHarness, start } from './harness.ts'

const harness = await shareHarness()

/** A body that begins and never ends, and what the server calls to read it. */
function unfinishedBody(bytes = 1000) {
  const read = vi.fn()
  const pull = (controller: ReadableStreamDefaultController) => {
    read()
    controller.enqueue(new Uint8Array(bytes))
    return new Promise<void>(() => undefined)
  }
  // Without the mark, the stream itself asks for its first part.
  return { stream: new ReadableStream({ pull }, { highWaterMark: 0 }), read }
}

function send(body: ReadableStream | string, headers: Record<string, string>) {
  const init = { method: 'POST', headers, body, duplex: 'half' }
  return Promise.resolve(harness.app.request('/webhooks/hubspot', init))
}

const now = start.getTime()
const headersAt = (timestamp: number, signature = `${'A'.repeat(43)}=`) => ({
  'X-HubSpot-Request-Timestamp': String(timestamp),
  'X-HubSpot-Signature-v3': signature,
})

test('a webhook that cannot be signed is refused before its body is read', async () => {
  for (const headers of [
    {},
    { 'X-HubSpot-Request-Timestamp': String(now) },
    headersAt(now, 'short'),
    headersAt(now - 300_001),
    headersAt(now + 300_001),
  ]) {
    const body = unfinishedBody()
    expect(await refusal(await send(body.stream, headers))).toBe('401 invalid_signature')
    expect(body.read).not.toHaveBeenCalled()
  }
})

test('a body over 1 MiB is refused, whether its length is announced or not', async () => {
  const body = 'x'.repeat(1024 * 1024 + 1)
  const announced = { ...headersAt(now), 'Content-Length': String(body.length) }
  expect(await refusal(await send(body, announced))).toBe('413 too_large')
  expect(await refusal(await send(unfinishedBody(body.length).stream, headersAt(now)))).toBe(
    '413 too_large',
  )
})

test('a slash too many is signed and stored like the right address, and any other address is counted', async () => {
  const countOf = async (outcome: string) => {
    const [, count] =
      new RegExp(`outcome="${outcome}"} (\\d+)`).exec(await registry.metrics()) ?? []
    return Number(count)
  }
  async function tell(path: string, signedFor = path): Promise<number> {
    const [body, timestamp] = ['[]', String(now)]
    const request = { method: 'POST', url: appUrl + signedFor, body: Buffer.from(body), timestamp }
    const { clientSecret } = harness.addresses.providers.hubspot
    const headers = headersAt(now, hubSpotSignature(clientSecret, request))
    return (await harness.app.request(path, { method: 'POST', body, headers })).status
  }
  const before = await Promise.all(['stored', 'signature', 'address'].map(countOf))
  expect(await tell('/webhooks/hubspot')).toBe(204)
  expect(await tell('/webhooks/hubspot/')).toBe(204)
  expect(await tell('/webhooks/hubspot/', '/webhooks/hubspot')).toBe(401)
  for (const path of ['/webhooks/HubSpot', '/webhooks/hubspot/v3', '/webhooks/']) {
    expect(await tell(path)).toBe(404)
  }
  const after = await Promise.all(['stored', 'signature', 'address'].map(countOf))
  expect(after.map((count, n) => count - (before[n] ?? 0))).toEqual([2, 1, 3])
})
