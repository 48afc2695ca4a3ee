import { type Browser, expect, type Page } from '@playwright/test'
import { type State, stateOf, states } from '../states/states.ts'
import { type Dealbell, sharedTest as test } from './server.ts'
import { showState, unanswered } from './show-state.ts'

/** What a translator does with each text node, at the start and again whenever the app adds or changes one. */
type Way = 'wraps it' | 'changes it'

/** Ends each translated text. Playwright ignores it when it compares. */
const mark = '\u200b'

/** Runs in a page before the app. */
function translate({ way, mark }: { way: Way; mark: string }) {
  function translateText(text: Text) {
    const parent = text.parentElement
    // Translators leave SVG alone.
    if (parent === null || parent.closest('script, style, svg')) return
    if (text.data.trim() === '' || text.data.endsWith(mark)) return
    if (way === 'changes it' || parent.matches('title, option')) {
      text.data += mark
      return
    }
    const outer = document.createElement('font')
    outer.appendChild(document.createElement('font')).append(text.data + mark)
    text.replaceWith(outer)
  }
  new MutationObserver((records) => {
    for (const node of records.flatMap(({ target, addedNodes }) => [target, ...addedNodes])) {
      const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT)
      const found = node instanceof Text ? [node] : []
      while (texts.nextNode()) found.push(texts.currentNode as Text)
      for (const text of found) translateText(text)
    }
  }).observe(document, { subtree: true, childList: true, characterData: true })
}

/** Runs in a page before the app. The user stays on the page. */
function stay() {
  navigation.addEventListener('navigate', (event) => {
    if (!event.destination.sameDocument) event.preventDefault()
  })
}

/** Runs in a page: uses one of its controls, if it is named, and says what the page shows. */
function use({ control: named, mark }: { control?: string; mark: string }) {
  const plain = (text: string | null | undefined) => text?.replaceAll(mark, '').trim() ?? ''
  const nameOf = (control: HTMLElement) =>
    plain(control.ariaLabel ?? (control.closest('label') ?? control).textContent)
  const visible = [...document.querySelectorAll<HTMLElement>('body *')].filter((element) =>
    element.checkVisibility(),
  )
  // What disconnects or signs out stands above the rest.
  const controls = visible
    .filter((element) => element.matches('a:not([target]), button, input, select, summary'))
    .filter(
      (control) => control.tabIndex >= 0 && !control.matches(':disabled, [aria-disabled=true]'),
    )
    .reverse()
  const control = named === undefined ? undefined : controls.find((one) => nameOf(one) === named)
  control?.focus()
  if (control instanceof HTMLSelectElement) {
    control.selectedIndex = (control.selectedIndex + 1) % control.options.length
    control.dispatchEvent(new Event('change', { bubbles: true }))
  } else if (control instanceof HTMLInputElement && control.type === 'search') {
    // React hears only a value that it has not set itself.
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value')?.set?.call(
      control,
      control.value === '' ? 'globex' : '',
    )
    control.dispatchEvent(new Event('input', { bubbles: true }))
  } else control?.click()

  const texts = visible.flatMap((element) =>
    [...element.childNodes].filter(
      (node): node is Text => node instanceof Text && plain(node.data) !== '',
    ),
  )
  return {
    controls: controls.map(nameOf),
    path: location.pathname,
    // The time of the backend does not stand still, and an answer may come before or after a tick.
    shown: [document.title, ...texts.map(({ data }) => data)].map((text) =>
      plain(text).replaceAll(/\d+:\d\d/g, '…'),
    ),
    untranslated: texts
      .filter((text) => !text.data.endsWith(mark) && !text.parentElement?.closest('svg'))
      .map(({ data }) => data),
  }
}

/** Lets the app work for a second of a clock that stands still otherwise, until it waits for nothing that will come. */
async function settleOn(page: Page) {
  const session = await page.context().newCDPSession(page)
  await session.send('Network.enable')
  const open = new Set<string>()
  session.on('Network.requestWillBeSent', ({ requestId, type }) => {
    if (type !== 'Document') open.add(requestId)
  })
  for (const end of ['Network.loadingFinished', 'Network.loadingFailed'] as const) {
    session.on(end, ({ requestId }) => open.delete(requestId))
  }
  page.on('requestfailed', (request) => unanswered.delete(request))
  const isCalm = async () => {
    // In the same session as the events, so it tells of all calls until now. React renders in a task of its own.
    const expression = `(${nextTask})()`
    for (let turn = 0; turn < 3; turn++) {
      await session.send('Runtime.evaluate', { expression, awaitPromise: true })
      if (open.size !== unanswered.size) return false
    }
    return true
  }
  return async () => {
    for (const ms of [0, 500, 500]) {
      if (ms > 0) await page.clock.runFor(ms)
      await expect.poll(isCalm, { intervals: [10] }).toBe(true)
    }
  }
}

const nextTask = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel()
    port1.onmessage = resolve
    port2.postMessage('')
  })

/** Opens a state, twice uses each control on screen, and returns what the page shows after each step. */
async function walk(browser: Browser, { url }: Dealbell, state: State, way?: Way) {
  const page = await browser.newPage({ baseURL: url })
  const errors: string[] = []
  page.on('pageerror', ({ message }) => errors.push(message))
  await page.clock.install({ time: Date.now() - 1000 })
  await page.clock.pauseAt(Date.now())
  await page.addInitScript(stay)
  if (way) await page.addInitScript(translate, { way, mark })
  const settle = await settleOn(page)
  await showState(page, state, settle)

  const steps: { step: string; shown: string[] }[] = []
  async function look(step: string) {
    await settle()
    const { shown, untranslated, ...rest } = await page.evaluate(use, { mark })
    if (way) expect(untranslated, `${state.name}: ${step}`).toEqual([])
    steps.push({ step, shown })
    return rest
  }
  for (const round of [1, 2]) {
    const { controls, path } = await look(`round ${round}`)
    for (const control of controls) {
      await page.evaluate(use, { control, mark })
      if ((await look(control)).path === path) continue
      await page.goBack()
      await look(`back from ${control}`)
    }
  }
  await page.close()
  return { steps, errors }
}

async function expectSame(browser: Browser, server: Dealbell, state: State, way: Way) {
  const original = await walk(browser, server, state)
  expect(original.errors).toEqual([])
  const translated = await walk(browser, server, state, way)
  expect.soft(translated, state.name).toEqual(original)
}

for (const [name, way] of [
  ['First visit: nothing connected, no rules', 'wraps it'],
  ['A broken connection holds up messages', 'changes it'],
] as const) {
  test(`'${name}' shows the same after each step while a translator takes each text and ${way}`, async ({
    browser,
    server,
  }) => expectSame(browser, server, stateOf(name), way))
}

// Two tests, one for each worker.
for (const part of [0, 1]) {
  test(`each state shows the same after each step while a translator works: part ${part + 1}`, {
    tag: '@all',
  }, async ({ browser, server }) => {
    test.setTimeout(1_200_000)
    for (const [number, state] of states.entries()) {
      if (number % 2 !== part) continue
      await test.step(state.name, () => expectSame(browser, server, state, 'wraps it'))
    }
  })
}
