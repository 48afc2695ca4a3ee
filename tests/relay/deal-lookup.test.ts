import { describe, expect, test, vi } from 'vitest'
import { ProviderError, type Stage } from '../../server/providers/provider.ts'
import { formerValue } from '../../server/relay/decide/former-value.ts'
import { createOwnerCache, mostOwners } from '../../server/relay/decide/owners.ts'
import { createStageCache, mostAccounts } from '../../server/relay/decide/stages.ts'

const at = (minute: number) => new Date(Date.UTC(2026, 10, 20, 12, minute))
const entered = (value: string, minute: number) => ({ value, at: at(minute) })

describe('where a deal came from', () => {
  test('is the stage before the one that it came into', () => {
    const history = [entered('a', 0), entered('b', 10), entered('c', 20)]
    expect(formerValue(history, { value: 'b', occurredAt: at(10) })).toBe('a')
    expect(formerValue(history, { value: 'c', occurredAt: at(20) })).toBe('b')
  })

  test('is by the nearest time when it came into a stage more than once within moments', () => {
    const seconds = (n: number) => new Date(at(0).getTime() + n * 1000)
    const values = ['a', 'b', 'c', 'b', 'd', 'b']
    const history = values.map((value, n) => ({ value, at: seconds(n * 10) }))
    // The webhook's time and the history's may differ a little.
    const from = (second: number) =>
      formerValue(history, { value: 'b', occurredAt: seconds(second + 0.9) })
    expect([from(10), from(30), from(50)]).toEqual(['a', 'c', 'd'])
  })

  test('is the last other stage before the event while the history lags behind', () => {
    const history = [entered('a', 0), entered('b', 10)]
    expect(formerValue(history, { value: 'c', occurredAt: at(20) })).toBe('b')
    // What came after the event was not before it.
    const later = [...history, entered('d', 30)]
    expect(formerValue(later, { value: 'c', occurredAt: at(20) })).toBe('b')
    // It was in this stage long ago: that is not this event.
    expect(formerValue(history, { value: 'a', occurredAt: at(20) })).toBe('b')
    const same = [entered('a', 0), entered('b', 5), entered('c', 10)]
    expect(formerValue(same, { value: 'c', occurredAt: at(20) })).toBe('b')
    expect(formerValue([], { value: 'c', occurredAt: at(20) })).toBeUndefined()
  })

  test('is not the same stage, saved again', () => {
    const history = [entered('a', 0), entered('b', 10), entered('b', 10)]
    expect(formerValue(history, { value: 'b', occurredAt: at(10) })).toBe('a')
  })

  test('is nowhere for a deal that was made in the stage', () => {
    expect(formerValue([entered('a', 0)], { value: 'a', occurredAt: at(0) })).toBeNull()
  })

  test('is unknown when HubSpot may have left out the oldest stages', () => {
    const history = Array.from({ length: 20 }, (_, n) => entered(`s${n}`, n))
    const first = { value: 's0', occurredAt: at(0) }
    expect(formerValue(history, first)).toBeUndefined()
    expect(formerValue(history.slice(0, 19), first)).toBeNull()
    expect(formerValue(history, { value: 's1', occurredAt: at(1) })).toBe('s0')
  })
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
      label: async (id: string, accountId = '1') =>
        (await stagesOf({ ...access, accountId }, [id])).get(id)?.label,
    }
  }

  test('are read once in five minutes, however many events need them at once', async () => {
    const { stages, label } = openCache('a')
    expect(await Promise.all([label('a'), label('a'), label('a')])).toEqual(['A', 'A', 'A'])
    now += 5 * minute - 1
    expect(await label('a')).toBe('A')
    expect(stages).toHaveBeenCalledTimes(1)
    now += 1
    await label('a')
    expect(stages).toHaveBeenCalledTimes(2)
    await label('a', '2')
    expect(stages).toHaveBeenCalledTimes(3)
  })

  test('are read again for a new stage', async () => {
    const { ids, stages, label } = openCache('a')
    await label('a')
    ids.add('b')
    expect(await label('b')).toBe('B')
    expect(stages).toHaveBeenCalledTimes(2)
  })

  test('are read once more for a deleted stage, and then not for five minutes', async () => {
    const { ids, stages, label } = openCache('a')
    await label('a')
    for (let n = 0; n < 100; n++) expect(await label('deleted')).toBeUndefined()
    expect(stages).toHaveBeenCalledTimes(2)
    // Another deleted stage does not make it forget the first one.
    await label('deleted too')
    await label('deleted')
    expect(stages).toHaveBeenCalledTimes(3)
    ids.add('deleted')
    now += 5 * minute
    expect(await label('deleted')).toBe('DELETED')
    expect(stages).toHaveBeenCalledTimes(4)
  })

  test('are forgotten for the accounts that did not need them for the longest time', async () => {
    const { stages, label } = openCache('a')
    await label('a', 'first')
    for (let n = 0; n < mostAccounts; n++) {
      await label('a', 'busy')
      await label('a', `account ${n}`)
    }
    stages.mockClear()
    await label('a', 'busy')
    expect(stages).not.toHaveBeenCalled()
    await label('a', 'first')
    expect(stages).toHaveBeenCalledOnce()
  })

  test('of a user whom the CRM refuses are read by the next user, once for all who wait', async () => {
    for (const kind of ['refused', 'unauthorized'] as const) {
      const error = new ProviderError('hubspot', 'read', kind, 'MISSING_SCOPES')
      const stages = vi.fn(async ({ accessToken }: { accessToken: string }): Promise<Stage[]> => {
        if (accessToken === 'of ada') throw error
        return [{ id: 'a', label: 'A', outcome: 'open' }]
      })
      const stagesOf = createStageCache({ stages })
      const readers = ['of ada', 'of ada', 'of bob', 'of cyd']
      const read = await Promise.allSettled(
        readers.map((accessToken) => stagesOf({ ...access, accessToken }, ['a'])),
      )
      expect(read.map(({ status }) => status)).toEqual([
        'rejected',
        'rejected',
        'fulfilled',
        'fulfilled',
      ])
      expect(stages.mock.calls.map(([{ accessToken }]) => accessToken)).toEqual([
        'of ada',
        'of bob',
      ])
    }
  })

  test('are not remembered after a failure', async () => {
    const { stages, label } = openCache('a')
    stages.mockRejectedValueOnce(new ProviderError('hubspot', 'read', 'unreachable'))
    await expect(label('a')).rejects.toMatchObject({ kind: 'unreachable' })
    expect(await label('a')).toBe('A')
  })
})

describe('the name of a deal’s owner', () => {
  let now = 0
  function openCache() {
    now = 1_000 * minute
    const read = vi.fn(
      async (_access: object, id: string): Promise<string | undefined> =>
        id === 'gone' ? undefined : `Owner ${id}`,
    )
    return { read, ownerName: createOwnerCache({ ownerName: read }, () => now) }
  }

  test('is read once an hour, as is that there is none', async () => {
    const { read, ownerName } = openCache()
    for (let n = 0; n < 10; n++) {
      expect(await ownerName(access, '7')).toBe('Owner 7')
      expect(await ownerName(access, 'gone')).toBeUndefined()
    }
    expect(read).toHaveBeenCalledTimes(2)
    now += 60 * minute
    await ownerName(access, '7')
    expect(read).toHaveBeenCalledTimes(3)
  })

  test('is not asked for if the account did not grant the scope, and is as soon as it does', async () => {
    const { read, ownerName } = openCache()
    expect(await ownerName({ ...access, mayReadOwners: false }, '7')).toBeUndefined()
    expect(read).not.toHaveBeenCalled()
    expect(await ownerName({ ...access, mayReadOwners: true }, '7')).toBe('Owner 7')
  })

  test('costs one call an hour if the account refuses', async () => {
    const { read, ownerName } = openCache()
    read.mockRejectedValueOnce(new ProviderError('hubspot', 'read', 'refused', 'MISSING_SCOPES'))
    for (const id of ['7', '8', '9']) expect(await ownerName(access, id)).toBeUndefined()
    expect(read).toHaveBeenCalledTimes(1)
    expect(await ownerName({ ...access, accountId: '2' }, '7')).toBe('Owner 7')
    now += 60 * minute
    expect(await ownerName(access, '7')).toBe('Owner 7')
  })

  test('is forgotten for the owners that were not needed for the longest time', async () => {
    const { read, ownerName } = openCache()
    await ownerName(access, 'first')
    for (let n = 0; n < mostOwners; n++) {
      await ownerName(access, 'busy')
      await ownerName(access, String(n))
    }
    read.mockClear()
    await ownerName(access, 'busy')
    expect(read).not.toHaveBeenCalled()
    await ownerName(access, 'first')
    expect(read).toHaveBeenCalledOnce()
  })

  test('is asked for again after a failure', async () => {
    const { read, ownerName } = openCache()
    read.mockRejectedValueOnce(new ProviderError('hubspot', 'read', 'unreachable'))
    await expect(ownerName(access, '7')).rejects.toMatchObject({ kind: 'unreachable' })
    expect(await ownerName(access, '7')).toBe('Owner 7')
  })
})
