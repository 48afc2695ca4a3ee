import { expect, test } from 'vitest'
import { expectNothingLogged } from '../setup.ts'

test.fails('an unexpected console.error fails its test', () => {
  console.error('Saving the rules failed')
})

test('the failure says how a test accepts a console.error', () => {
  console.error('Saving the rules failed')
  expect(expectNothingLogged).toThrow(
    /^Unexpected console\.error: Saving the rules failed\n.*takeLog\(\) of tests\/setup\.ts/,
  )
})
