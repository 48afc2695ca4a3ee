import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import * as v from 'valibot'
import { describe, expect, test } from 'vitest'
import {
  connectionStatusAnswer,
  endpoints,
  type Feature,
  healthAnswer,
  rulesAnswer,
  saveRulesBody,
} from '../../contract/endpoints.ts'
import { retryPath } from '../../contract/features/activity.ts'
import { features } from '../../contract/features.ts'

/** What is read of an answer; undefined when the answer counts as a failed call. */
function read<Schema extends v.GenericSchema>(schema: Schema, answer: unknown) {
  const { success, output } = v.safeParse(schema, answer)
  return success ? output : undefined
}

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

  test('names the pages of stand-ins, and leaves out what is no path on the same origin', () => {
    const pages = (standIns: unknown) => read(healthAnswer, { status: 'ok', standIns })?.standIns
    const right = { hubspot: '/sandbox/hubspot/deals', slack: '/sandbox/slack' }
    const wrong = ['//evil.example/x', 'javascript:alert(1)', 1, '/\\evil.example', '/slack/\t/x']
    expect(pages({ ...right, ...wrong })).toEqual(right)
    for (const none of [null, 'slack', 1, [], {}]) expect(pages(none)).toEqual({})
  })
})

describe('a connection status', () => {
  const extras = { account: 'Acme', channel: '#sales', reason: 'It was revoked.', since: '2026' }

  test('is connected or not, with what else a backend says of it', () => {
    for (const status of [
      { connected: true },
      { connected: false },
      { connected: true, ...extras },
    ]) {
      expect(read(connectionStatusAnswer, { ...status, other: 1 })).toEqual(status)
    }
  })

  test.each(Object.keys(extras))('counts a %s that is no text as absent', (name) => {
    for (const value of [null, 1, {}, ['Acme']]) {
      const answer = read(connectionStatusAnswer, { connected: true, ...extras, [name]: value })
      expect(answer).toMatchObject({ connected: true })
      expect(answer).toHaveProperty(name, undefined)
    }
  })
})

const wrongHealth = [{ status: 200 }, { status: null }, { state: 'ok' }]
const wrongStatus = ['true', 1, null].map((connected) => ({ connected }))
const wrongBodies = [null, 'x', [1]].map((rules) => ({ rules }))
test.each([
  ['health', healthAnswer, wrongHealth],
  ['a connection status', connectionStatusAnswer, [...wrongStatus, { status: true }]],
  ['a list of rules to save', saveRulesBody, wrongBodies],
] as const)('anything else is not %s', (_, schema, wrong) => {
  for (const answer of [undefined, null, true, 'ok', 200, ['ok'], '', {}, ...wrong]) {
    expect([answer, read(schema, answer)]).toEqual([answer, undefined])
  }
})

describe('rules', () => {
  test('are texts, each once and in their order, whether this client knows them or not', () => {
    const texts = ['deal-closed', 'a-rule-of-tomorrow', '', 'invoice-paid']
    const rules = [1, null, ...texts, { id: 'x' }, ['y'], true, undefined, 'deal-closed']
    expect(read(rulesAnswer, { rules })).toEqual({ rules: texts })
  })

  test('are none when they are no list or not mentioned, and a failed call when nothing is', () => {
    const noLists = [undefined, null, 'deal-closed', 3, { 0: 'deal-closed', length: 1 }, []]
    for (const answer of [{}, ...noLists.map((rules) => ({ rules }))]) {
      expect([answer, read(rulesAnswer, answer)]).toEqual([answer, { rules: [] }])
    }
    for (const answer of [null, 'x', 1, true]) expect(read(rulesAnswer, answer)).toBeUndefined()
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

describe('what a backend may offer beyond the specification', () => {
  test.each<Feature>(features)(
    'is $name, whose calls name it, each with a right example',
    ({ name, calls }) => {
      for (const { call, answer, example } of calls) {
        expect(call.feature).toBe(name)
        if (answer) expect(v.parse(answer, example)).toEqual(example)
        else expect(example).toBeUndefined()
      }
    },
  )

  test('is a file of contract/features/, each added to contract/features.ts', async () => {
    const files = await readdir(join(import.meta.dirname, '../../contract/features'))
    expect(features.map(({ name }) => `${name}.ts`).sort()).toEqual(files.sort())
  })

  // `npx vitest run tests/contract/answers.test.ts -u` writes it.
  test('is listed in docs/backend.md', async () => {
    const page = join(import.meta.dirname, '../../docs/backend.md')
    const rows = features.map(({ name, shows, calls }) => {
      const lines = calls.map(({ call }) => `\`${call.method} ${call.path}\``)
      return [`\`${name}\``, lines.join(', '), shows]
    })
    const head = ['feature', 'calls', 'what the dashboard shows']
    const widths = head.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)))
    const lines = [head, widths.map((width) => '-'.repeat(width)), ...rows].map(
      (row) => `| ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |\n`,
    )
    const text = await readFile(page, 'utf8')
    await expect(
      text.replace(/^\| feature .*?\n(?=\n)/ms, () => lines.join('')),
    ).toMatchFileSnapshot(page)
  })

  test('is to send a message again, whatever its id is', () => {
    expect(retryPath('a/b?$&')).toBe('/api/notifications/activity/a%2Fb%3F%24%26/retry')
  })
})
