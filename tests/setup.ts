import '@testing-library/jest-dom/vitest'
import { cleanup, configure } from '@testing-library/react'
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest'
import { server } from './msw/server.ts'

configure({ asyncUtilTimeout: 3000 })

// happy-dom has no confirm. A test that expects the question mocks the answer.
window.confirm = (question) => {
  throw new Error(`Unexpected confirm: ${question}`)
}

// happy-dom shows every popover, and cannot hide it. In a browser, its button gets the focus back.
HTMLElement.prototype.hidePopover = function () {
  if (!this.contains(document.activeElement)) return
  document.querySelector<HTMLElement>(`[popovertarget="${this.id}"]`)?.focus()
}

beforeAll(() => server.listen({ onUnhandledFrame: 'error' }))

// An error that is logged fails its test, unless the test expects it and reads it with `takeLog()`.
const logged: string[] = []
export function takeLog(): string[] {
  return logged.splice(0)
}

beforeEach(() => {
  vi.spyOn(console, 'error').mockImplementation((...parts) => {
    logged.push(parts.map(String).join(' '))
  })
  vi.spyOn(document, 'createTextNode')
})

// A browser's translator replaces text nodes. React then changes or removes its own in vain, or fails. If a text is
// the only child of its element, React changes the element and owns no text node.
export function expectNoOwnTexts(): void {
  const isReacts = (node: Text) => Object.keys(node).some((key) => key.startsWith('__reactFiber'))
  const { results } = vi.mocked(document.createTextNode).mock
  const own = results.flatMap(({ type, value }) =>
    type === 'return' && isReacts(value) ? value.data : [],
  )
  vi.mocked(document.createTextNode).mockClear()
  if (own.length === 0) return
  throw new Error(
    `Each of these texts needs an element of its own: ${JSON.stringify([...new Set(own)])}`,
  )
}

afterEach(({ task }) => {
  cleanup()
  server.resetHandlers()
  if (task.result?.state !== 'fail') {
    expectNoOwnTexts()
    return expectNothingLogged()
  }
  // One failure is enough. What was logged may explain it.
  for (const line of takeLog()) console.log(`console.error: ${line}`)
})

function expectNothingLogged(): void {
  const unexpected = takeLog()
  if (unexpected.length === 0) return
  throw new Error(
    `Unexpected console.error: ${unexpected.join('\n')}\nIf the test expects it, read it with takeLog() of tests/setup.ts.`,
  )
}

afterAll(() => server.close())
