import { afterAll, expect, test, vi } from 'vitest'
import { createBackend } from '../../server/backend.ts'
import { logToStderr } from '../../server/log.ts'
import { hubSpotSignature } from '../../server/providers/hubspot/signature.ts'
import { parseEnv } from '../../server/settings/settings.ts'
import { openTestDatabase } from '../database.ts'

// The dashboard is at another origin than the backend.
const appUrl = 'http://bell.localhost'
const apiUrl = 'http://localhost:4000/dealbell'
const logged: string[] = []
const open = await openTestDatabase('PGlite')
afterAll(() => open.close())
const backend = createBackend({
  database: open.database,
  encryptionKeys: [Buffer.alloc(32, 7)],
  addresses: parseEnv({
    APP_URL: appUrl,
    API_URL: `${apiUrl}/`,
    HUBSPOT_CLIENT_ID: 'id',
    HUBSPOT_CLIENT_SECRET: 'new-secret,old-secret',
    ALLOW_STAND_INS: 'true',
  }).addressesAt(1),
  dashboard: undefined,
  alone: true,
  log(event, fields) {
    const write = vi.spyOn(process.stderr, 'write')
    write.mockImplementation((line) => logged.push(String(line)) > 0)
    logToStderr(event, fields)
    write.mockRestore()
  },
})

/**
 * HubSpot signs the address that it calls. The proxy there removes a prefix and gives the request another
 * host.
 */
async function sendWebhook({ url = `${apiUrl}/webhooks/hubspot`, secret = 'new-secret' }) {
  const timestamp = String(Date.now())
  const body = Buffer.from('[]')
  const signature = hubSpotSignature(secret, { method: 'POST', url, body, timestamp })
  const answer = await backend.app.request('http://internal.invalid/webhooks/hubspot', {
    method: 'POST',
    headers: { 'X-HubSpot-Request-Timestamp': timestamp, 'X-HubSpot-Signature-v3': signature },
    body,
  })
  return answer.status
}

test('a webhook is signed for the address that HubSpot calls, behind a proxy too', async () => {
  expect(await sendWebhook({})).toBe(204)
  for (const url of [
    `${appUrl}/webhooks/hubspot`,
    'http://localhost:4000/webhooks/hubspot',
    `${apiUrl}/webhooks/hubspot/`,
    'http://internal.invalid/webhooks/hubspot',
  ]) {
    expect(await sendWebhook({ url }), url).toBe(401)
  }
  expect(await backend.watch.metrics()).toContain('{provider="hubspot",outcome="signature"} 4')
  // operator.test.ts says how often it is logged. A count once replaced the time of the line.
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT/)
  const refused = { signature: 1, time: 0, missing: 0 }
  const line = logged.find((each) => each.includes('"webhooks refused"')) ?? ''
  const warning = { level: 'warn', event: 'webhooks refused', refused }
  expect(JSON.parse(line)).toEqual({ ...warning, time, since: time })
})

test('an older client secret counts for webhooks until it is removed from the settings', async () => {
  expect(await sendWebhook({ secret: 'old-secret' })).toBe(204)
  expect(await sendWebhook({ secret: 'another-secret' })).toBe(401)
})
