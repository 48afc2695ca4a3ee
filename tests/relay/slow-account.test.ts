import { afterEach, beforeEach, expect, test } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { deliveries } from '../../server/database/schema.ts'
import { openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'

let open: OpenDatabase
let outside: Outside
let backend: Backend

beforeEach(async () => {
  open = await openTestDatabase('PGlite')
  outside = await openOutside()
})
afterEach(async () => {
  await backend.stop()
  await open.close()
  await outside.close()
})

test('HubSpot does not answer for an account of many users: another account’s event is delivered meanwhile', async () => {
  backend = await startBackend(open, outside)
  // A process works on 500 channels at once.
  const users = 510
  for (let n = 0; n < users; n++) {
    await backend.connect({ portal: 1, team: `T${n}`, channel: `C${n}` })
  }
  await backend.connect({ portal: 2, team: 'other', channel: 'other' })
  const { promise: answered, resolve: answer } = Promise.withResolvers<undefined>()
  outside.answerRead = (_, token) => (token.endsWith('-1') ? answered : undefined)
  await backend.tell([stageChange(1, { portal: 1 })])
  await backend.tell([stageChange(2, { portal: 2 })])
  await outside.accepted((posts) => posts.some(({ channel }) => channel === 'other'))
  // No try for the slow account has ended yet.
  expect(backend.lines.filter((line) => line.includes('"delivery put off"'))).toEqual([])
  answer(undefined)
  await outside.accepted((posts) => posts.length === users + 1)
})

test('many events for an account of many users are stored: other requests are answered meanwhile', async () => {
  backend = await startBackend(open, outside, { working: false })
  const users = 100
  const events = 300
  for (let n = 0; n < users; n++) await backend.connect({ portal: 1, channel: `C${n}` })
  await backend.connect({ portal: 2, channel: 'other' })
  let isStored = false
  const storing = backend
    .tell(Array.from({ length: events }, (_, n) => stageChange(n + 1, { portal: 1 })))
    .then((status) => {
      isStored = true
      return status
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
