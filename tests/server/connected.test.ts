import { eq } from 'drizzle-orm'
import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { createWithCrm } from '../../server/api/connected.ts'
import { connections } from '../../server/database/schema.ts'
import { answerError } from '../../server/http/errors.ts'
import { backend, connect, outside, shareBackend } from '../relay/shared.ts'
import { refusal } from './harness.ts'

shareBackend()

test('a route asks the CRM with the user’s token, and only after a refused refresh it is checked soon', async () => {
  const userId = await connect({ accessEndsInMs: 0 })
  const withCrm = createWithCrm({ ...backend, sessions: { find: async () => ({ userId }) } })
  const app = new Hono()
  app.get('/', async (c) =>
    c.json(await withCrm(c, ({ ask }) => ask((crm, access) => crm.stages(access)))),
  )
  app.onError(answerError(backend.log))
  const ask = () => app.request('/')
  const isHubspot = eq(connections.provider, 'hubspot')
  const checked = backend.database.update(connections).set({ checkedAt: new Date() })
  await checked.where(isHubspot)
  const isCheckedSoon = async () => {
    const [row] = await backend.database.select().from(connections).where(isHubspot)
    return row !== undefined && row.checkedAt.getTime() < Date.now() - 23 * 3_600_000
  }

  expect((await ask()).status).toBe(200)
  outside.answerRead = () => ({ status: 403, body: { category: 'MISSING_SCOPES' } })
  expect(await refusal(await ask())).toBe('502 read_refused')
  expect(await isCheckedSoon()).toBe(false)
  // The token counts no more, and there is no new one.
  outside.answerRead = () => ({ status: 401 })
  outside.answerRefresh = () => ({ status: 400, body: { status: 'BAD_REFRESH_TOKEN' } })
  expect(await refusal(await ask())).toBe('502 read_refused')
  expect(await isCheckedSoon()).toBe(true)
})
