import { expect, test, vi } from 'vitest'
import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'
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

/** An empty list of events, signed. */
function sendSigned(): Promise<Response> {
  const signature = hubSpotSignature(harness.addresses.providers.hubspot.clientSecret, {
    method: 'POST',
    url: `${appUrl}/webhooks/hubspot`,
    body: Buffer.from('[]'),
    timestamp: String(now),
  })
  return send('[]', headersAt(now, signature))
}

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

test('unfinished bodies take at most 64 places, the oldest give way, and a real webhook gets in', async () => {
  const ended: number[] = []
  const answers = Array.from({ length: 1_000 }, (_, n) =>
    send(unfinishedBody().stream, headersAt(now)).finally(() => ended.push(n)),
  )
  const displaced = await Promise.all(answers.slice(0, 1_000 - 64))
  for (const answer of displaced) {
    expect(answer.headers.get('Retry-After')).toBe('10')
    expect(await refusal(answer)).toBe('503 busy')
  }
  expect(ended).toHaveLength(1_000 - 64)

  expect((await sendSigned()).status).toBe(204)
  expect(await answers[1_000 - 64]).toHaveProperty('status', 503)
  expect(ended).toHaveLength(1_000 - 63)
})

test('unfinished bodies take at most 12 MiB, and the oldest give way', async () => {
  const sendMiB = () => send(unfinishedBody(1024 * 1024).stream, headersAt(now))
  const displaced = await Promise.all(Array.from({ length: 20 }, sendMiB).slice(0, 20 - 12))
  expect(displaced.map(({ status }) => status)).toEqual(Array(20 - 12).fill(503))
  expect((await sendSigned()).status).toBe(204)
})

test('a body that breaks off is no error of the server', async () => {
  const stream = new ReadableStream({ start: (controller) => controller.error(new Error('gone')) })
  const answer = await send(stream, headersAt(now))
  expect(await refusal(answer)).toBe('400 incomplete_body')
  expect(harness.logged.join()).not.toContain('request failed')
})
