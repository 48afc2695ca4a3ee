import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSessionTokens } from '../../server/people/session-token.ts'

const key = Buffer.alloc(32, 1)
const tokens = createSessionTokens([key])

const tagKey = createHmac('sha256', key).update('dealbell session token').digest()
const random = Buffer.alloc(24, 5)
const earlierTag = createHmac('sha256', tagKey).update(random).digest().subarray(0, 8)
const earlierToken = Buffer.concat([random, earlierTag]).toString('base64url')

const kinds = ['new', 'connected'] as const

test.each(kinds)('a server knows a %s token, also after a change of its key', (kind) => {
  const token = tokens.issue(kind)
  expect(token).toMatch(/^[\w-]{43}$/)
  expect(tokens.issue(kind)).not.toBe(token)
  expect(tokens.kindOf(token)).toBe(kind)
  expect(createSessionTokens([Buffer.alloc(32, 2), key]).kindOf(token)).toBe(kind)
})

test('a token from before there were two kinds counts as one of a person', () => {
  expect(tokens.kindOf(earlierToken)).toBe('connected')
})

test.each(kinds)('an invented %s token is not issued, nor is another spelling', (kind) => {
  const token = tokens.issue(kind)
  const altered = `${token[0] === 'A' ? 'B' : 'A'}${token.slice(1)}`
  const padding = { A: 'B', Q: 'R', g: 'h', w: 'x' }[token.at(-1) ?? ''] ?? 'B'
  for (const other of [
    '',
    'A'.repeat(43),
    altered,
    `${token}!`,
    `${token}=`,
    token.slice(0, -1) + padding,
    createSessionTokens([Buffer.alloc(32, 2)]).issue(kind),
  ]) {
    expect(tokens.kindOf(other), other).toBeUndefined()
  }
})
