import { expect, test } from 'vitest'
import { costsAt, growthOf } from '../bench/growth.ts'
import { openTestDatabase } from '../database.ts'

test('what a statement reads does not grow with what is stored', async () => {
  const sizes = []
  for (const size of [3_000, 30_000]) {
    const open = await openTestDatabase('PostgreSQL')
    sizes.push(await costsAt(open, size))
    await open.close()
  }
  const growing = growthOf(sizes).filter(({ grows }) => grows === 'unknown')
  expect(growing.map(({ of, text, costs }) => ({ of, text, costs }))).toEqual([])
}, 180_000)
