import { beforeAll, expect, test } from 'vitest'
import { deliveries } from '../../server/database/schema.ts'
import { stageChange } from './hubspot-webhook.ts'
import { backend, connect, range, shareBackend } from './shared.ts'

shareBackend('PGlite', { working: false })

const users = 510
const events = 5

beforeAll(async () => {
  for (let n = 0; n < users; n++) await connect({ portal: 1, team: `T${n}`, channel: `C${n}` })
  await connect({ portal: 2, team: 'other', channel: 'other' })
})

const tell = (portal: number, first: number, count = 1) =>
  backend.tell(range(first, count).map((deal) => stageChange(deal, { portal })))

test('many events for an account of many users are stored: other requests are answered meanwhile', async () => {
  let isStored = false
  const storing = tell(1, 1, events).finally(() => {
    isStored = true
  })
  let others = 0
  let meanwhile = 0
  while (!isStored) {
    expect(await tell(2, 1_000 + others++)).toBe(204)
    if (!isStored) meanwhile++
    expect((await backend.app.request('/health')).status).toBe(200)
  }
  expect(await storing).toBe(204)
  // The webhook was acknowledged when all its deliveries were stored.
  expect(await backend.database.$count(deliveries)).toBe(events * users + others)
  expect(meanwhile).toBeGreaterThan(0)
})
