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

test('a turn that was not used for ten seconds is lost', async () => {
  now += 60_000
  for (const channel of channels(20)) await turns.take(`${channel}x`)
  expect(await turns.take('T1/C29')).toBe(200)
})

test('if other processes used the room, all channels of the workspace wait longer, in the same order', async () => {
  let roomMs = 0
  turns = create(async () => roomMs)
  for (const channel of channels(22)) await turns.take(channel)
  now += 200
  roomMs = 500
  expect(await turns.take('T1/C20')).toBe(500)
  expect(['T1/C20', 'T1/C21'].map(turns.waitOf)).toEqual([500, 700])
  now += 500
  roomMs = 0
  expect(await turns.take('T1/C20')).toBe(0)
  expect(await turns.take('T1/C21')).toBe(200)
})

test('while there is no room, channels that ask for the first time wait behind those that asked before', async () => {
  let roomAt = now + 500
  turns = create(async () => Math.max(0, roomAt - now))
  expect(await turns.take('T1/C1')).toBe(500)
  now += 100
  expect(await turns.take('T1/C2')).toBe(600)
  expect(await turns.take('T1/C3')).toBe(800)
  expect(turns.waitOf('T1/C1')).toBe(400)
  now += 400
  expect(await turns.take('T1/C1')).toBe(0)
  roomAt = now + 300
  now += 200
  expect(await turns.take('T1/C2')).toBe(100)
  expect(['T1/C2', 'T1/C3'].map(turns.waitOf)).toEqual([100, 300])
})
