import { randomUUID } from 'node:crypto'
import { getResponse } from 'msw'
import * as v from 'valibot'
import { afterAll, describe, expect, test } from 'vitest'
import {
  type Activity,
  type ActivityItem,
  type ActivityState,
  activityAnswer,
  activityEndpoints,
  errorBody,
  retryPath,
  type Summary,
  summaryAnswer,
} from '../../contract/activity.ts'
import { createBackend } from '../msw/handlers.ts'
import { openBrowser, openHarness, storeDelivery } from '../server/harness.ts'

// What useActivity, useRetry and useSummary rely on, with the server and with the handlers of the
// dashboard's tests.

const harness = await openHarness()
afterAll(() => harness.close())

interface Backend {
  call(path: string, method?: string): Promise<Response>
  /** Adds a message for a change so many minutes ago, in this state. */
  add(minutesAgo: number, state?: ActivityState): Promise<void>
}

const stored = { sent: 'sent', waiting: 'pending', failed: 'dead', skipped: 'ignored' } as const

const backends: Record<string, () => Promise<Backend>> = {
  async server() {
    const browser = openBrowser(harness)
    await browser.connect('slack')
    const userId = await browser.userId()
    return {
      call: (path, method = 'GET') => browser.call(path, { method }),
      async add(minutesAgo, state = 'sent') {
        const occurredAt = new Date(harness.clock.now.getTime() - minutesAgo * 60_000)
        await storeDelivery(harness.database, userId, {
          state: stored[state],
          occurredAt,
          ...(state === 'failed' && { reason: 'no_channel' }),
          ...(state === 'waiting' && { finishedAt: null }),
        })
      },
    }
  },
  async msw() {
    const { handlers, state } = createBackend({ features: ['activity'] })
    const { items } = state.activity
    return {
      call: async (path, method = 'GET') =>
        (await getResponse(handlers, new Request(`http://localhost${path}`, { method }))) ??
        new Response(null, { status: 404 }),
      async add(minutesAgo, state = 'sent') {
        const item: ActivityItem = {
          id: randomUUID(),
          at: new Date(Date.now() - minutesAgo * 60_000).toISOString(),
          state,
          rule: 'deal-closed',
          deal: { name: 'Acme renewal', url: 'https://crm.example/1' },
          from: null,
          to: null,
          channel: '#sales-floor',
          reason: state === 'failed' ? 'the channel is archived' : null,
          tries: 1,
          nextTryAt: null,
        }
        items.push(item)
        items.sort((a, b) => Date.parse(b.at) - Date.parse(a.at))
      },
    }
  },
}

async function read<Schema extends v.GenericSchema>(
  schema: Schema,
  pending: Promise<Response>,
): Promise<v.InferOutput<Schema>> {
  const answer = await pending
  expect(answer.status).toBe(200)
  return v.parse(schema, await answer.json())
}

const list = ({ call }: Backend, query = ''): Promise<Activity> =>
  read(activityAnswer, call(`${activityEndpoints.activity.path}${query}`))
const summary = ({ call }: Backend): Promise<Summary> =>
  read(summaryAnswer, call(`${activityEndpoints.summary.path}?days=14&zone=UTC`))
const statesOf = ({ items }: Activity) => items.map(({ state }) => state)
const timesOf = (items: readonly ActivityItem[]) => items.map(({ at }) => Date.parse(at))

describe.each(Object.entries(backends))('%s', (_name, open) => {
  test('lists nothing before anything happens', async () => {
    const backend = await open()
    expect(await list(backend)).toEqual({ items: [], next: null })
    expect(await summary(backend)).toMatchObject({ days: 14, rules: {}, waiting: 0 })
  })

  test('lists pages, the newest first, which stay stable while new messages arrive', async () => {
    const backend = await open()
    for (let minutesAgo = 1; minutesAgo <= 5; minutesAgo += 1) await backend.add(minutesAgo)
    const all = await list(backend)
    expect(all.items).toHaveLength(5)
    expect(all.next).toBeNull()
    expect(timesOf(all.items)).toEqual(timesOf(all.items).toSorted((a, b) => b - a))

    const first = await list(backend, '?limit=2')
    expect(first.items).toEqual(all.items.slice(0, 2))
    await backend.add(0)
    const second = await list(backend, `?limit=2&before=${encodeURIComponent(first.next ?? '')}`)
    expect(second.items).toEqual(all.items.slice(2, 4))
    const third = await list(backend, `?limit=100&before=${encodeURIComponent(second.next ?? '')}`)
    expect(third).toEqual({ items: all.items.slice(4), next: null })
    expect((await list(backend, '?limit=1')).items).not.toEqual(first.items.slice(0, 1))
  })

  test('lists one state, and its `next` is a position in every list', async () => {
    const backend = await open()
    for (const state of ['sent', 'failed', 'waiting', 'failed', 'skipped', 'sent'] as const) {
      await backend.add((await list(backend)).items.length, state)
    }
    for (const state of ['sent', 'waiting', 'failed', 'skipped'] as const) {
      expect(new Set(statesOf(await list(backend, `?state=${state}`)))).toEqual(new Set([state]))
    }
    const failed = await list(backend, '?limit=1&state=failed')
    const query = `?limit=100&before=${encodeURIComponent(failed.next ?? '')}`
    expect(statesOf(await list(backend, `${query}&state=failed`))).toEqual(['failed'])
    expect(statesOf(await list(backend, query))).toEqual(['waiting', 'failed', 'skipped', 'sent'])
    expect(await summary(backend)).toMatchObject({ waiting: 1 })
  })

  test('answers messages by id, the newest first, in any state and no others', async () => {
    const backend = await open()
    for (const state of ['sent', 'failed', 'waiting', 'skipped'] as const) {
      await backend.add((await list(backend)).items.length, state)
    }
    const { items } = await list(backend)
    const [newest, , third] = items
    const ids = encodeURIComponent([third?.id, '999999', newest?.id].join())
    expect(await list(backend, `?ids=${ids}`)).toEqual({ items: [newest, third], next: null })
    expect((await list(backend, '?ids=999999')).items).toEqual([])
  })

  test('counts each day', async () => {
    const backend = await open()
    await backend.add(1)
    await backend.add(2, 'failed')
    const { daily } = await summary(backend)
    expect(daily).toHaveLength(14)
    expect(daily.at(-1)).toMatchObject({ sent: 1, failed: 1 })
    expect(daily.slice(0, -1).every(({ sent, failed }) => sent + failed === 0)).toBe(true)
  })

  test('sends a failed message again, once, and no other', async () => {
    const backend = await open()
    await backend.add(2)
    await backend.add(1, 'failed')
    const { items } = await list(backend)
    expect(items[0]).toMatchObject({ state: 'failed', reason: expect.stringMatching(/[^.]$/) })
    const retry = async (id: string) => {
      const answer = await backend.call(retryPath(id), activityEndpoints.retry.method)
      if (answer.status !== 202) v.parse(errorBody, await answer.json())
      return answer.status
    }
    expect(await retry(items[0]?.id ?? '')).toBe(202)
    expect(statesOf(await list(backend))).toEqual(['waiting', 'sent'])
    expect(await retry(items[0]?.id ?? '')).toBe(409)
    expect(await retry(items[1]?.id ?? '')).toBe(409)
    for (const id of ['999999', 'x', '<b>/../']) expect(await retry(id)).toBe(404)
    expect(statesOf(await list(backend))).toEqual(['waiting', 'sent'])
  })
})
