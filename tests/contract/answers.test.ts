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

const pages = { hubspot: '/sandbox/hubspot/deals', slack: '/sandbox/slack' }
const wrongPages = ['//evil.example/x', 'javascript:alert(1)', 1, '/\\evil.example', '/slack/\t/x']
const reason = 'It was revoked.'
const extras = { account: 'Acme', channel: '#sales', late: 'It is.', reason, since: '2026' }
const oddExtras = { account: null, channel: 1, late: true, reason: {}, since: ['2026'] }
const texts = ['deal-closed', 'a-rule-of-tomorrow', '', 'invoice-paid']
test.each<[v.GenericSchema, answer: object, read: object]>([
  [healthAnswer, { status: '', version: 1 }, { status: '' }],
  [healthAnswer, { status: 'ok', features: ['new'] }, { status: 'ok', features: ['new'] }],
  [healthAnswer, { status: 'ok', features: [1, 'sessions'] }, { status: 'ok' }],
  [
    healthAnswer,
    { status: 'ok', standIns: { ...pages, ...wrongPages } },
    { status: 'ok', standIns: pages },
  ],
  ...[200, true, null, {}].map((status): [typeof healthAnswer, object, object] => [
    healthAnswer,
    { status },
    { status },
  ]),
  [healthAnswer, { status: 'ok', standIns: null }, { status: 'ok', standIns: {} }],
  [connectionStatusAnswer, { connected: false, other: 1 }, { connected: false }],
  [connectionStatusAnswer, { connected: true, ...extras }, { connected: true, ...extras }],
  [connectionStatusAnswer, { connected: true, ...oddExtras }, { connected: true }],
  [rulesAnswer, { rules: [1, null, ...texts, { id: 'x' }, 'deal-closed'] }, { rules: texts }],
  [rulesAnswer, { rules: 'deal-closed' }, { rules: [] }],
  [rulesAnswer, {}, { rules: [] }],
])('of an answer, what is right counts (%#)', (schema, answer, expected) => {
  expect(read(schema, answer)).toEqual(expected)
})

const wrongHealth = [{ state: 'ok' }]
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
