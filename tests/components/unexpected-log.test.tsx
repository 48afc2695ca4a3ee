import { render } from '@testing-library/react'
import { expect, test } from 'vitest'
import { expectNoOwnTexts, expectNothingLogged } from '../setup.ts'

test.fails('an unexpected console.error fails its test', () => {
  console.error('Saving the rules failed')
})

test('the failure says how a test accepts a console.error', () => {
  console.error('Saving the rules failed')
  expect(expectNothingLogged).toThrow(
    /^Unexpected console\.error: Saving the rules failed\n.*takeLog\(\) of tests\/setup\.ts/,
  )
})

test.each([
  ['beside an element', ['Sent ', <b key="b">twice</b>], '["Sent "]'],
  ['in two pieces', [2, ' messages'], '["2"," messages"]'],
  ['of a component of its own', [<Word key="word" />], '["Sent"]'],
])('a text %s fails its test', (_, children, texts) => {
  render(<p>{children}</p>)
  expect(expectNoOwnTexts).toThrow(`Each of these texts needs an element of its own: ${texts}`)
})

function Word() {
  return 'Sent'
}
