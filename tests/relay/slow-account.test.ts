import { afterAll, beforeAll, expect, test } from 'vitest'
import type { OpenDatabase } from '../../server/database/open.ts'
import { openTestDatabase } from '../database.ts'
import { type Backend, startBackend } from './backend.ts'
import { stageChange } from './hubspot-webhook.ts'
import { type Outside, openOutside } from './outside.ts'

/** A process works on 500 channels at once. */
const users = 510
let open: OpenDatabase
let outside: Outside
let backend: Backend

beforeAll(async () => {
  open = await openTestDatabase('PGlite')
  outside = await openOutside()
  backend = await startBackend(open, outside)
})
afterAll(async () => {
  await backend.stop()
  await open.close()
  await outside.close()
})

test('HubSpot does not answer for an account of many users: another account’s event is delivered meanwhile', async () => {
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
