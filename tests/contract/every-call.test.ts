import { getResponse } from 'msw'
import * as v from 'valibot'
import { afterAll, describe, expect, test } from 'vitest'
import { activityEndpoints, errorBody } from '../../contract/activity.ts'
import { endpoints, extraEndpoints, features, healthAnswer } from '../../contract/endpoints.ts'
import { createBackend } from '../msw/handlers.ts'
import { openBrowser, openHarness } from '../server/harness.ts'

// The server and the handlers of the dashboard's tests answer every call of contract/.

const harness = await openHarness()
afterAll(() => harness.close())

const { handlers } = createBackend({ features: [...features] })

const backends = [
  {
    where: 'server/api/ and server/app.ts',
    call: (path: string, method: string) => openBrowser(harness).call(path, { method }),
  },
  {
    where: 'tests/msw/handlers.ts',
    call: (path: string, method: string) =>
      getResponse(handlers, new Request(`http://localhost${path}`, { method })),
  },
]

describe.each(backends)('$where', ({ where, call }) => {
  test.each(Object.values({ ...endpoints, ...extraEndpoints, ...activityEndpoints }))(
    'answers $method $path',
    async ({ method, path }) => {
      const answer = await call(path.replace(':provider', 'slack').replace(':id', '1'), method)
      const body = answer?.status === 404 ? v.parse(errorBody, await answer.json()) : undefined
      // A call about one item answers 404 with a code of its own: this user has no such item.
      const isAnswered =
        answer !== undefined && answer.status !== 405 && body?.error.code !== 'not_found'
      expect(isAnswered, `Nothing answers ${method} ${path}: add it in ${where}.`).toBe(true)
    },
  )

  test('lists every feature', async () => {
    const health = v.parse(healthAnswer, await (await call('/health', 'GET'))?.json())
    expect(health.features).toEqual(features)
  })
})
