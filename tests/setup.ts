import '@testing-library/jest-dom/vitest'
import { cleanup, configure } from '@testing-library/react'
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest'
import { server } from './msw/server.ts'

configure({ asyncUtilTimeout: 3000 })

// happy-dom has none. A test that expects the question says what is answered.
window.confirm = (question) => {
  throw new Error(`Unexpected confirm: ${question}`)
}

beforeAll(() => server.listen({ onUnhandledFrame: 'error' }))

// Whatever is logged is a promise that some test makes: read it with `takeLog()`, or the test fails.
const logged: string[] = []
export function takeLog(): string[] {
  return logged.splice(0)
}

beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation((...parts) => {
    logged.push(parts.map(String).join(' '))
  })
})

afterEach(() => {
  cleanup()
  server.resetHandlers()
  const unexpected = takeLog()
  if (unexpected.length > 0) throw new Error(`Unexpected console.error: ${unexpected.join('\n')}`)
})

afterAll(() => server.close())
