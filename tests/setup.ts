import '@testing-library/jest-dom/vitest'
import { cleanup, configure } from '@testing-library/react'
import { afterAll, afterEach, beforeAll, beforeEach, vi } from 'vitest'
import { callsEnd } from './clock.ts'
import { server } from './msw/server.ts'

/** Not the whole DOM, which takes 500 lines: what one can use on the page, and how its text begins. */
function getElementError(message: string | null, container: Element): Error {
  const [what = ''] = (message ?? '').split('\n\n')
  const usable = container.querySelectorAll(
    'h1, h2, a, :is(button, input, select, textarea):enabled',
  )
  const named = Array.from(usable, (each) => {
    const name = each.getAttribute('aria-label') ?? each.closest('label')?.textContent
    return `${each.localName} ${name ?? each.textContent}`
  })
  const text = (container.textContent ?? '').slice(0, 400)
  const error = new Error(`${what}\n\nOn the page: ${named.join(' | ')}\n\nIts text: ${text}`)
  Error.captureStackTrace(error, getElementError)
  return error
}

configure({ asyncUtilTimeout: 3000, getElementError })

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
})

// A browser's translator replaces each text node. Here, a copy takes its place. React then changes its own in vain, or
// fails to remove it. If a text is the only child of its element, React changes the element and owns no text node.
const copies = new WeakSet<Node>()
const shownInVain = new Set<string | null>()
const originals = new MutationObserver((records) => {
  for (const { target } of records) shownInVain.add(target.textContent)
})
const translator = new MutationObserver((records) => {
  for (const added of records.flatMap(({ addedNodes }) => Array.from(addedNodes))) {
    for (const text of textsOf(added)) {
      const copy = text.cloneNode()
      copies.add(copy)
      text.replaceWith(copy)
      originals.observe(text, { characterData: true })
    }
  }
})
translator.observe(document.body, { childList: true, subtree: true })

/** The texts that stand in the page and are not copies. */
function textsOf(node: Node): Text[] {
  if (!(node instanceof Text)) return Array.from(node.childNodes, textsOf).flat()
  return node.isConnected && !copies.has(node) ? [node] : []
}

export function expectNoOwnTexts(): void {
  originals.disconnect()
  const texts = [...shownInVain]
  shownInVain.clear()
  if (texts.length === 0) return
  throw new Error(
    `In a translated page, these texts never appear: ${JSON.stringify(texts)}. Each needs an element of its own.`,
  )
}

afterEach(async ({ task }) => {
  // A screen that has just opened may still make calls. The next test would count them.
  await callsEnd()
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
