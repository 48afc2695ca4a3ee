import { expect, test } from 'vitest'
import { createSessionTokens } from '../../server/people/session-token.ts'

const key = Buffer.alloc(32, 1)
const tokens = createSessionTokens([key])

test('a server knows the tokens that it issued, also after a change of its key', () => {
  const token = tokens.issue()
  expect(token).toMatch(/^[\w-]{43}$/)
  expect(tokens.issue()).not.toBe(token)
  expect(tokens.isIssued(token)).toBe(true)
  expect(createSessionTokens([Buffer.alloc(32, 2), key]).isIssued(token)).toBe(true)
})

test('an invented token is not issued, nor is another spelling of an issued one', () => {
  const token = tokens.issue()
  const altered = `${token[0] === 'A' ? 'B' : 'A'}${token.slice(1)}`
  const padding = { A: 'B', Q: 'R', g: 'h', w: 'x' }[token.at(-1) ?? ''] ?? 'B'
  for (const other of [
    '',
    'A'.repeat(43),
    altered,
    `${token}!`,
    `${token}=`,
    token.slice(0, -1) + padding,
    createSessionTokens([Buffer.alloc(32, 2)]).issue(),
  ]) {
    expect(tokens.isIssued(other), other).toBe(false)
  }
})
