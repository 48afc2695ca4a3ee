import { describe, expect, test, vi } from 'vitest'
import type { Stage } from '../../server/providers/deal.ts'
import { ProviderError } from '../../server/providers/provider-error.ts'
import { formerValue } from '../../server/relay/decide/former-value.ts'
import { createOwnerCache } from '../../server/relay/decide/owners.ts'
import { createStageCache, stageFinder } from '../../server/relay/decide/stages.ts'

const at = (seconds: number) => new Date(Date.UTC(2026, 10, 20, 12, 0, seconds))
/** A history with a stage every ten seconds. Each letter is a stage. */
const enter = (stages: string) => [...stages].map((value, n) => ({ value, at: at(n * 10) }))
const twenty = 'abcdefghijklmnopqrst'

test.each([
  ['the stage before the one that it came into', 'abc', 'b', 10, 'a'],
  ['that also of the last one', 'abc', 'c', 20, 'b'],
  // The webhook's time and the history's may differ a little.
  ['by the nearest time when it came into a stage more than once', 'abcbdb', 'b', 30.9, 'c'],
  ['by the nearest time, the first one', 'abcbdb', 'b', 10.9, 'a'],
  ['the last other stage while the history lags behind', 'ab', 'c', 20, 'b'],
  ['that, if it was in this stage long ago', 'ab', 'a', 200, 'b'],
  ['that, and nothing that came after the event', 'abd', 'c', 15, 'b'],
  ['not the same stage, saved again', 'abb', 'b', 20, 'a'],
  ['nowhere for a deal that was made in the stage', 'a', 'a', 0, null],
  ['unknown without a history', '', 'c', 20, undefined],
  ['unknown when HubSpot may have left out the oldest stages', twenty, 'a', 0, undefined],
  ['known when it cannot have', twenty.slice(0, -1), 'a', 0, null],
])('where a deal came from is %s', (_, history, value, seconds, from) => {
  expect(formerValue(enter(history), { value, occurredAt: at(seconds) })).toBe(from)
})

const access = { accountId: '1', accessToken: 'a', urgency: 'fresh' } as const
const minute = 60_000

describe('the stages of an account', () => {
  let now = 0
  function openCache(...known: string[]) {
    now = 1_000 * minute
    const ids = new Set(known)
    const stages = vi.fn(async () =>
      [...ids].map((id): Stage => ({ id, label: id.toUpperCase(), outcome: 'open' })),
    )
    const stagesOf = createStageCache({ stages }, () => now)
    return {
      ids,
      stages,
      label: async (id: string) => (await stagesOf(access, [id])).get(id)?.label,
    }
  }

  test('are read once in five minutes, however many events need them at once', async () => {
    const { stages, label } = openCache('a')
    expect(await Promise.all([label('a'), label('a'), label('a')])).toEqual(['A', 'A', 'A'])
    expect(stages).toHaveBeenCalledTimes(1)
    now += 5 * minute
    await label('a')
    expect(stages).toHaveBeenCalledTimes(2)
  })

  test('are read once more for a new or deleted stage, and then not for five minutes', async () => {
    const { ids, stages, label } = openCache('a')
    await label('a')
    ids.add('new')
    expect(await label('new')).toBe('NEW')
    expect(stages).toHaveBeenCalledTimes(2)
    for (let n = 0; n < 100; n++) expect(await label('deleted')).toBeUndefined()
    expect(stages).toHaveBeenCalledTimes(3)
    ids.add('deleted')
    now += 5 * minute
    expect(await label('deleted')).toBe('DELETED')
  })

  test('are kept for thousands of users who share no reads', async () => {
    const read = vi.fn(async () => [{ id: 'a', label: 'A', outcome: 'open' } as const])
    const stagesOf = createStageCache({ stages: read }, () => 0)
    const users = Array.from({ length: 5_000 }, (_, n) => ({ ...access, sharedBy: `1/${n}` }))
    for (const user of [...users, ...users]) await stagesOf(user, ['a'])
    expect(read).toHaveBeenCalledTimes(users.length)
  })

  test('are called by their ids if they are deleted or have no label', () => {
    const stage = stageFinder(new Map([['1', { id: '1', label: ' ', outcome: 'won' }]]))
    expect(stage('1')).toEqual({ id: '1', label: '1', outcome: 'won' })
    expect(stage('2')).toEqual({ id: '2', label: '2', outcome: 'open' })
  })
})

test('if the account refuses to name owners, there is none, and it is not asked again for an hour', async () => {
  const refused = new ProviderError('hubspot', 'read', 'refused', 'MISSING_SCOPES')
  const owner = vi.fn().mockRejectedValue(refused)
  const ownerOf = createOwnerCache({ owner }, () => 0)
  for (const id of ['7', '8']) expect(await ownerOf(access, id)).toBeUndefined()
  expect(owner).toHaveBeenCalledTimes(1)
})
