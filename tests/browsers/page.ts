import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect } from '@playwright/test'
import type { Tab } from './tab.ts'

/** An element by its role and name, or by a part of its text. */
export type Query = { role: string; name: string } | { text: string }

interface Seen {
  x: number
  y: number
  enabled: boolean
  focused: boolean
  checked: boolean
  /** Whether a click at x and y reaches the element. */
  reachable: boolean
}

// The same library finds elements in every browser, so roles and names mean the same.
const library = readFileSync(
  createRequire(import.meta.url).resolve(
    '@testing-library/dom/dist/@testing-library/dom.umd.min.js',
  ),
  'utf8',
)
declare const TestingLibraryDom: typeof import('@testing-library/dom')

/** What a person does and sees. Every step waits for its condition. */
export class Page {
  readonly #tab: Tab
  readonly #origin: string

  constructor(tab: Tab, origin: string) {
    this.#tab = tab
    this.#origin = origin
  }

  open = (path: string) => this.#tab.open(`${this.#origin}${path}`)
  reload = () => this.#tab.reload()
  /** Gives the value of an expression in the page. It waits for a promise: the next navigation would end what is under way. */
  run = (expression: string) => this.#tab.run(`return ${expression}`)

  /** Waits until the page shows this element once, in this state. */
  async see(query: Query, state: Partial<Seen> = {}): Promise<void> {
    await this.#poll(query, async () => await this.#look(query)).toEqual([
      expect.objectContaining(state),
    ])
  }

  /** Waits until the page shows no such element. */
  async miss(query: Query): Promise<void> {
    await this.#poll(query, async () => await this.#look(query)).toEqual([])
  }

  /** Waits until the browser is at this path. If a navigation ends the question, it is asked again. */
  async isAt(path: string): Promise<void> {
    const place = () => this.run('location.href').catch(String)
    await expect.poll(place, { intervals }).toBe(`${this.#origin}${path}`)
  }

  /** Clicks an element when it can be clicked and no longer moves. */
  async click(query: Query): Promise<void> {
    let last: unknown
    await this.#poll(query, async () => {
      const seen = await this.#look(query, true)
      const moved = JSON.stringify(seen) !== JSON.stringify(last)
      last = seen
      return moved ? 'It moves.' : seen
    }).toEqual([expect.objectContaining({ enabled: true, reachable: true })])
    const [{ x, y }] = last as [Seen]
    await this.#tab.click({ x, y })
  }

  #poll(what: Query, look: () => Promise<unknown>) {
    return expect.poll(look, { message: JSON.stringify(what), intervals })
  }

  /** The visible elements, or why the page could not be asked, which a navigation can cause. */
  async #look(query: Query, scroll = false): Promise<unknown> {
    try {
      return await this.#inPage(lookInPage, query, scroll)
    } catch (error) {
      return String(error)
    }
  }

  /** Calls a function in the page. */
  async #inPage<Args extends unknown[]>(run: (...args: Args) => unknown, ...args: Args) {
    const isInstalled = await this.#tab.run('return "TestingLibraryDom" in window')
    if (!isInstalled) await this.#tab.run(library)
    return await this.#tab.run(`return (${run})(...${JSON.stringify(args)})`)
  }
}

const intervals = [50]

/** Runs in the page, so it uses nothing of this file. */
function lookInPage(query: Query, scroll: boolean): Seen[] {
  const { queryAllByRole, queryAllByText, isInaccessible } = TestingLibraryDom
  const elements =
    'role' in query
      ? queryAllByRole(document.body, query.role, { name: query.name })
      : queryAllByText(document.body, query.text, { exact: false })
  return elements
    .filter((element) => !isInaccessible(element))
    .map((element) => {
      if (scroll) element.scrollIntoView({ block: 'center', behavior: 'instant' })
      const { left, top, width, height } = element.getBoundingClientRect()
      const x = left + width / 2
      const y = top + height / 2
      const hit = document.elementFromPoint(x, y)
      return {
        x,
        y,
        enabled: !element.matches(':disabled'),
        focused: element === document.activeElement,
        checked: element.matches(':checked'),
        reachable: hit !== null && (element.contains(hit) || hit.contains(element)),
      }
    })
}
