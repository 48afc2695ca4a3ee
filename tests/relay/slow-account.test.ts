import { describe, expect, test } from 'vitest'
import { deliveries } from '../../server/database/schema.ts'
import { stageChange } from './hubspot-webhook.ts'
import { backend, connect, outside, shareBackend } from './shared.ts'

describe('while the relay rests', () => {
  shareBackend('PGlite', { working: false })

  test('many events for an account of many users are stored: other requests are answered meanwhile', async () => {
    const users = 100
    const events = 300
    for (let n = 0; n < users; n++) await connect({ portal: 1 })
    await connect({ portal: 2 })
    let isStored = false
    const storing = backend
      .tell(Array.from({ length: events }, (_, n) => stageChange(n + 1, { portal: 1 })))
      .finally(() => {
        isStored = true
      })
    let others = 0
    while (!isStored) {
      expect(await backend.tell([stageChange(1_000 + others, { portal: 2 })])).toBe(204)
      expect((await backend.app.request('/health')).status).toBe(200)
      others++
    }
    expect(await storing).toBe(204)
    // The webhook was acknowledged when all its deliveries were stored.
    expect(await backend.database.$count(deliveries)).toBe(events * users + others)
    expect(others).toBeGreaterThan(5)
  })
})

describe('while the relay works', () => {
  shareBackend()

  test('HubSpot does not answer for an account of many users: another account’s event is delivered meanwhile', async () => {
    // A process works on 500 channels at once.
    const users = 510
    for (let n = 0; n < users; n++) await connect({ portal: 3, team: `T${n}`, channel: `C${n}` })
    await connect({ portal: 4, team: 'other', channel: 'other' })
    const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>()
    outside.answerRead = (_, token) => (token.endsWith('-3') ? answered : undefined)
    await backend.tell([stageChange(1, { portal: 3 })])
    await backend.tell([stageChange(2, { portal: 4 })])
    await outside.accepted((posts) => posts.some(({ channel }) => channel === 'other'))
    // No try for the slow account has ended yet.
    expect(backend.lines.filter((line) => line.includes('"delivery put off"'))).toEqual([])
    answer(undefined)
    await outside.accepted((posts) => posts.length === users + 1)
  })
})
