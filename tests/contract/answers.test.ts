import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import {
  connectionStatusAnswer,
  endpoints,
  healthAnswer,
  rulesAnswer,
  saveRulesBody,
} from '../../contract/endpoints.ts'

/** What is read of an answer; undefined when the answer counts as a failed call. */
function read<Schema extends v.GenericSchema>(schema: Schema, answer: unknown) {
  const { success, output } = v.safeParse(schema, answer)
  return success ? output : undefined
}

const noObjects = [undefined, null, true, 'ok', 200, ['ok'], '']

describe('health', () => {
  test('is a status in words, whatever the words and whatever else is said', () => {
    expect(read(healthAnswer, { status: 'ok' })).toEqual({ status: 'ok' })
    expect(read(healthAnswer, { status: '', version: 1 })).toEqual({ status: '' })
  })

  test('lists features, and anything but a list of texts counts as absent', () => {
    const features = (listed: unknown) =>
      read(healthAnswer, { status: 'ok', features: listed })?.features
    expect(features(['sessions', 'of-tomorrow'])).toEqual(['sessions', 'of-tomorrow'])
    for (const listed of [undefined, null, 'sessions', 1, {}, [1, 'sessions']]) {
      expect(read(healthAnswer, { status: 'ok', features: listed })).toBeDefined()
      expect(features(listed)).toBeUndefined()
    }
  })

  test.each([...noObjects, {}, { status: 200 }, { status: null }, { state: 'ok' }])(
    'is not %j',
    (answer) => {
      expect(read(healthAnswer, answer)).toBeUndefined()
    },
  )
})

describe('a connection status', () => {
  const extras = { account: 'Acme', channel: '#sales', reason: 'It was revoked.', since: '2026' }

  test('is connected or not, with what else a backend says of it', () => {
    expect(read(connectionStatusAnswer, { connected: true })).toEqual({ connected: true })
    expect(read(connectionStatusAnswer, { connected: false })).toEqual({ connected: false })
    expect(read(connectionStatusAnswer, { connected: true, ...extras, other: 1 })).toEqual({
      connected: true,
      ...extras,
    })
  })

  test.each(Object.keys(extras))('counts a %s that is no text as absent', (name) => {
    for (const value of [null, 1, {}, ['Acme']]) {
      const answer = read(connectionStatusAnswer, { connected: true, ...extras, [name]: value })
      expect(answer).toMatchObject({ connected: true })
      expect(answer).toHaveProperty(name, undefined)
    }
  })

  test.each([
    ...noObjects,
    {},
    { connected: 'true' },
    { connected: 1 },
    { connected: null },
    { status: true },
  ])('is not %j', (answer) => {
    expect(read(connectionStatusAnswer, answer)).toBeUndefined()
  })
})

describe('rules', () => {
  test('are texts, each once and in their order, whether this client knows them or not', () => {
    const rules = ['deal-closed', 'a-rule-of-tomorrow', 'deal-closed', '', 'invoice-paid']
    expect(read(rulesAnswer, { rules })).toEqual({
      rules: ['deal-closed', 'a-rule-of-tomorrow', '', 'invoice-paid'],
    })
    expect(read(rulesAnswer, { rules: [] })).toEqual({ rules: [] })
  })

  test('are without what is no text', () => {
    const rules = [1, null, 'deal-closed', { id: 'x' }, ['y'], true, undefined]
    expect(read(rulesAnswer, { rules })).toEqual({ rules: ['deal-closed'] })
  })

  test.each([undefined, null, 'deal-closed', 3, { 0: 'deal-closed', length: 1 }])(
    'are none when they are %j',
    (rules) => {
      expect(read(rulesAnswer, { rules })).toEqual({ rules: [] })
    },
  )

  test('are none when they are not mentioned, and a failed call when nothing is', () => {
    expect(read(rulesAnswer, {})).toEqual({ rules: [] })
    for (const answer of [null, 'x', 1, true]) expect(read(rulesAnswer, answer)).toBeUndefined()
  })

  test('are saved as a list of texts and as nothing else', () => {
    expect(read(saveRulesBody, { rules: ['deal-closed'] })).toEqual({ rules: ['deal-closed'] })
    for (const body of [...noObjects, {}, { rules: null }, { rules: 'x' }, { rules: [1] }]) {
      expect(read(saveRulesBody, body)).toBeUndefined()
    }
  })
})

test('the calls are those of the specification', () => {
  expect(Object.values(endpoints).map(({ method, path }) => `${method} ${path}`)).toEqual([
    'GET /health',
    'GET /api/:provider/status',
    'GET /api/notifications/rules',
    'POST /api/notifications/rules',
    'DELETE /api/:provider/disconnect',
    'GET /api/:provider/callback',
  ])
})
