import { beforeEach, expect, test } from 'vitest'
import { createWorkspaceTurns } from '../../server/relay/schedule/pauses.ts'

let now: number
const create = (roomMs?: () => Promise<number>) => createWorkspaceTurns(roomMs, () => now)
let turns: ReturnType<typeof create>
let waits: number[]

const channels = (count: number) => Array.from({ length: count }, (_, n) => `T1/C${n}`)

beforeEach(async () => {
  now = 100_000
  turns = create()
  waits = await Promise.all(channels(30).map((channel) => turns.take(channel)))
})

test('a workspace takes a burst of twenty messages, and five a second after it; another does not wait', async () => {
  expect(waits.filter((ms) => ms === 0)).toHaveLength(20)
  expect(waits.slice(20)).toEqual([200, 400, 600, 800, 1_000, 1_200, 1_400, 1_600, 1_800, 2_000])
  expect(await turns.take('T2/C1')).toBe(0)
})

test('a channel keeps its turn, however often it asks, and then starts again at the end', async () => {
  expect(await turns.take('T1/C25')).toBe(waits[25])
  now += 1_200
  expect(await turns.take('T1/C25')).toBe(0)
  expect(await turns.take('T1/C25')).toBe(1_000)
})

test('if other processes used the room, a channel waits longer, and keeps its turn', async () => {
  let roomMs = 500
  turns = create(async () => roomMs)
  expect(await turns.take('T1/C1')).toBe(500)
  expect(turns.waitOf('T1/C1')).toBe(500)
  now += 500
  roomMs = 0
  expect(await turns.take('T1/C1')).toBe(0)
})
