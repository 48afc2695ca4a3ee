import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { createWithCrm } from '../../server/api/connected.ts'
import { answerError } from '../../server/http/errors.ts'
import { connectionStatus } from '../../server/people/connections.ts'
import { backend, connect, outside, shareBackend } from '../relay/shared.ts'
import { refusal } from './harness.ts'

shareBackend()

test('a route asks the CRM with the user’s token, and only a refused refresh breaks the connection', async () => {
  const userId = await connect({ accessEndsInMs: 0 })
  const withCrm = createWithCrm({ ...backend, sessions: { find: async () => ({ userId }) } })
  const app = new Hono()
  app.get('/', async (c) =>
    c.json(await withCrm(c, ({ ask }) => ask((crm, access) => crm.stages(access)))),
  )
  app.onError(answerError(backend.log))
  const ask = () => app.request('/')
  const isConnected = async () =>
    (await connectionStatus(backend, { userId, provider: 'hubspot' })).connected

  expect((await ask()).status).toBe(200)
  outside.answerRead = () => ({ status: 403, body: { category: 'MISSING_SCOPES' } })
  expect(await refusal(await ask())).toBe('502 read_refused')
  expect(await isConnected()).toBe(true)
  // The token counts no more, and there is no new one.
  outside.answerRead = () => ({ status: 401 })
  outside.answerRefresh = () => ({ status: 400, body: { status: 'BAD_REFRESH_TOKEN' } })
  expect(await refusal(await ask())).toBe('502 read_refused')
  expect(await isConnected()).toBe(false)
  expect(await refusal(await ask())).toBe('409 not_connected')
})
